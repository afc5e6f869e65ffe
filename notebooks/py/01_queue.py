# ---
# jupyter:
#   jupytext:
#     notebook_metadata_filter: -jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] lang="en"
# # 01 · The queue
#
# Run the cells from top to bottom (Shift-Enter). Where a cell says `guess = ...`, first write your guess in place of the three
# dots; *Run All* works without guesses. The queue is rebuilt in a database of this notebook's own.

# %% [markdown] lang="pt"
# # 01 · A fila
#
# Rode as células de cima para baixo (Shift-Enter). Onde houver `guess = ...`, escreva antes o seu palpite no lugar dos três
# pontos; *Run All* funciona sem palpites. A fila é recriada em um banco só deste notebook.

# %% lang="en"
import lab.notebook as nb  # No module named 'lab'? Open this notebook with ./lab notebook

nb.begin("01", lang="en")

# %% lang="pt"
import lab.notebook as nb  # No module named 'lab'? Abra este notebook com ./lab notebook

nb.begin("01", lang="pt")

# %% [markdown] lang="en"
# ## What is in the queue
# One script builds it. The table carries the document, its state, and who is working on it; the partial index holds only the
# rows that a worker may claim, in the order in which they are claimed.

# %% [markdown] lang="pt"
# ## O que há na fila
# Um único script a constrói. A tabela traz o documento, o estado e quem está trabalhando nele; o índice parcial guarda só as
# linhas que um worker pode reservar, na ordem em que são reservadas.

# %%
nb.script("01_queue.sql", "CREATE TABLE", "CREATE INDEX")

# %%
nb.run_script("01_queue.sql")

# %%
nb.observe("01.built")

# %% [markdown] lang="en"
# **Why.** Workers look for pending rows only. An index of those alone stays as small as the work that is left, however many
# documents are finished.
#
# ## What guards the entrance
# `chave` is unique. Guess the SQLSTATE (five characters) with which the server refuses a second NFE-0001.

# %% [markdown] lang="pt"
# **Por quê.** Os workers só procuram linhas pendentes. Um índice só delas fica tão pequeno quanto o trabalho que falta, não
# importa quantos documentos já foram concluídos.
#
# ## O que protege a entrada
# `chave` é única. Adivinhe o SQLSTATE (cinco caracteres) com que o servidor recusa uma segunda NFE-0001.

# %%
nb.ask("01_duplicate_key", "a_inserts")
guess = ...  # an SQLSTATE, or "accepted" | um SQLSTATE, ou "aceita"

# %%
twice = nb.play("01_duplicate_key", work={"b_processes": 0.5})
nb.answer(guess, twice["a_inserts"].sqlstate)

# %% [markdown] lang="en"
# The key was refused. Then A takes document 1, works on it for half a second, and B comes. Guess `"yes"` or `"no"`.

# %% [markdown] lang="pt"
# A chave foi recusada. Depois, A pega o documento 1, trabalha nele por meio segundo, e B chega. Palpite: `"sim"` ou `"não"`.

# %%
nb.sql("01_duplicate_key", "a_processes")
nb.ask("01_duplicate_key", "b_processes")
guess = ...  # "yes" or "no" | "sim" ou "não"

# %%
nb.answer(guess, not twice["b_processes"].rows)
nb.timeline(twice)
nb.table(twice, "b_processes")

# %%
nb.claim("01_duplicate_key", twice)

# %% [markdown] lang="en"
# **Why.** A unique key compares rows when they are inserted. It says nothing about how often one row is worked on, and
# `tentativas` is 2 now: two workers processed the same document. What keeps them apart are the lessons 02 to 04.
#
# ## Files at the door
# `data/documents` holds twelve files: good ones in several encodings, and some that should never get in. The queue is
# emptied first. How many of the twelve go in?

# %% [markdown] lang="pt"
# **Por quê.** Uma chave única compara linhas na hora da inserção. Ela não diz quantas vezes se trabalha em uma linha, e
# `tentativas` agora é 2: dois workers processaram o mesmo documento. Quem mantém um longe do outro são as lições 02 a 04.
#
# ## Arquivos na porta
# Em `data/documents` há doze arquivos: bons, em várias codificações, e alguns que nunca deveriam entrar. Antes, a fila é
# esvaziada. Quantos dos doze entram?

# %%
nb.query("TRUNCATE fila_documentos")
guess = ...  # a number | um número

# %% lang="en"
loaded = nb.load("*.xml")
nb.answer(guess, sum(loaded["loaded"] == "yes"))
loaded.sort_values("loaded", kind="stable")

# %% lang="pt"
loaded = nb.load("*.xml")
nb.answer(guess, sum(loaded["entrou"] == "sim"))
loaded.sort_values("entrou", kind="stable")

# %% [markdown] lang="en"
# **Why.** Each file goes in by itself, so a bad one does not take the others with it; `nfe-0002-duplicada.xml` comes before
# `nfe-0002.xml` in the alphabet, so the second is the duplicate. The loader reads the byte-order mark, then the declared
# encoding, and sends text without either: the server would refuse the mark. It also refuses a DOCTYPE, which the server
# would take. Change the pattern (`"nfe-0*.xml"`) and run the two cells again.

# %% [markdown] lang="pt"
# **Por quê.** Cada arquivo entra por si, e um ruim não leva os outros junto; `nfe-0002-duplicada.xml` vem antes de
# `nfe-0002.xml` na ordem alfabética, então o duplicado é o segundo. O carregador lê a marca de ordem de bytes (BOM), depois a
# codificação declarada, e envia o texto sem nenhuma das duas: o servidor recusaria a marca. Ele também recusa um DOCTYPE, que o
# servidor aceitaria. Mude o padrão (`"nfe-0*.xml"`) e rode as duas células de novo.

# %%
nb.observe("01.files", "01.byte_order_mark")

# %% [markdown] lang="en"
# ## Back to the start
# `sql/reset.sql` is the episode's restore of the initial state: every document back to `pendente`.

# %% [markdown] lang="pt"
# ## De volta ao começo
# `sql/reset.sql` é o que o episódio usa para voltar ao estado inicial: todo documento outra vez em `pendente`.

# %%
nb.script("reset.sql", "UPDATE")
nb.observe("01.reset")

# %% [markdown] lang="en"
# **Why.** It is one `UPDATE`, and asks nobody whose row it is. In this lesson nobody owns one.
#
# **What a production queue does.** It keeps the unique key, and gives every document a second key for the effects of its
# processing (lesson 09). It checks files before they reach the database, and logs reasons, never content. It has no reset:
# putting rows back to `pendente` while workers own them is forbidden from lesson 05 on; lesson 10 counts the harm.
#
# **What we simplified.** Four documents of one line each. The XML lies in the queue row; lesson 14 (to come) measures what that costs.
#
# ## Surprises
# Met by people in real life, and run here.

# %% [markdown] lang="pt"
# **Por quê.** É um só `UPDATE`, e não pergunta de quem é a linha. Nesta lição, ninguém é dono de nenhuma.
#
# **O que uma fila de produção faz.** Mantém a chave única e dá a cada documento uma segunda chave, para os efeitos do
# processamento (lição 09). Confere os arquivos antes que cheguem ao banco e registra motivos em log, nunca o conteúdo. Não tem
# reset: devolver linhas a `pendente` enquanto workers são donos delas é proibido a partir da lição 05; a lição 10 conta o
# estrago.
#
# **O que simplificamos.** Quatro documentos de uma linha cada. O XML fica na linha da fila; a lição 14 (por vir) mede quanto
# isso custa.
#
# ## Surpresas
# Gente de verdade já esbarrou nelas; aqui, elas rodam.

# %%
nb.surprises("01")

# %% [markdown] lang="en"
# **Next:** 02, where A holds a document and B asks for one.

# %% [markdown] lang="pt"
# **A seguir:** 02, em que A segura um documento e B pede um.
