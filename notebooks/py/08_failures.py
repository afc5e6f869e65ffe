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
# # 08 · Failures
#
# Run the cells from top to bottom (Shift-Enter). Where a cell says `guess = ...`, first write your guess in place of the three
# dots; *Run All* works without guesses. The sessions are real connections to a database of this notebook's own.

# %% [markdown] lang="pt"
# # 08 · Falhas
#
# Rode as células de cima para baixo (Shift-Enter). Onde houver `guess = ...`, escreva antes o seu palpite no lugar dos três
# pontos; *Run All* funciona sem palpites. As sessões são conexões reais a um banco só deste notebook.

# %% lang="en"
import lab.notebook as nb  # No module named 'lab'? Open this notebook with ./lab notebook

nb.begin("08", lang="en")

# %% lang="pt"
import lab.notebook as nb  # No module named 'lab'? Abra este notebook com ./lab notebook

nb.begin("08", lang="pt")

# %% [markdown] lang="en"
# ## One retry for everything
# Document 1 is broken: its value is no number. The other three are good. The worker's rule is simple: whatever fails goes back.

# %% [markdown] lang="pt"
# ## A mesma nova tentativa para tudo
# O documento 1 está quebrado: o valor não é um número. Os outros três são bons. A regra do worker é simples: o que falha volta.

# %%
nb.sql("08_one_retry", "a_claims", "a_works", "a_retries")
nb.ask("08_one_retry", "a_claims_again")
guess = ...  # a document's number | o número de um documento

# %%
hammered = nb.play("08_one_retry")
nb.answer(guess, hammered["a_claims_again"].one("documento_id"))
nb.claim("08_one_retry", hammered)
nb.ownership(hammered)
nb.table(hammered, "c_reads")

# %% [markdown] lang="en"
# **Why.** What went back is the oldest again, so it is the next one: without a pause, without an end, and the three good ones
# behind it wait. `erro` does not even say whether a person should look at the document or at the network.
#
# ## By category
# Two questions decide: would it fail again unchanged? Then it ends now. Else: when is it worth another try?

# %% [markdown] lang="pt"
# **Por quê.** O que voltou é de novo o mais antigo, então é o próximo: sem pausa, sem fim, e os três bons esperam atrás dele.
# `erro` nem diz se alguém deve olhar o documento ou a rede.
#
# ## Por categoria
# Duas perguntas decidem: falharia de novo sem mudança? Então acaba agora. Senão: quando vale outra tentativa?

# %%
nb.sql("08_by_category", "a_fails_content", "a_fails_system")
nb.ask("08_by_category", "b_claims")
guess = ...  # such as: 1 2 | por exemplo: 1 2

# %%
sorted_out = nb.play("08_by_category")
nb.answer(guess, " ".join(map(str, sorted_out["b_claims"].column("documento_id"))))
nb.claim("08_by_category", sorted_out)
nb.ownership(sorted_out)
nb.table(sorted_out, "c_reads")

# %% [markdown] lang="en"
# **Why.** `falhar` asks for a category. `conteudo` says that another try would find the same document, so there is none; `sistemico`
# says that another moment may do, so the document is put off, and does not stand before the others meanwhile.
#
# ## How long is later?
# `recuo` doubles the delay with every attempt, from one second on, and leaves half of it to chance. A second doubled eleven
# times is half an hour. How long does a document wait after attempt 12, in full minutes, at most?

# %% [markdown] lang="pt"
# **Por quê.** `falhar` pede uma categoria. `conteudo` diz que outra tentativa encontraria o mesmo documento, e não há outra;
# `sistemico` diz que outro momento pode resolver, então o documento é adiado e, enquanto isso, não fica na frente dos outros.
#
# ## Mais tarde é quando?
# `recuo` dobra a espera a cada tentativa, a partir de um segundo, e deixa metade dela para o acaso. Um segundo dobrado onze
# vezes é meia hora. Quanto um documento espera, no máximo, depois da tentativa 12, em minutos inteiros?

# %%
guess = ...  # minutes | minutos

# %%
delays = nb.query(
    "SELECT tentativa, round(min(segundos), 1)::text AS menor,"
    " round(max(segundos), 1)::text AS maior"
    " FROM (SELECT tentativa, extract(EPOCH FROM recuo(tentativa)) AS segundos"
    " FROM generate_series(1, 12) AS tentativa CROSS JOIN generate_series(1, 200)) AS sorteios"
    " GROUP BY tentativa ORDER BY tentativa"
)
nb.answer(guess, round(float(delays["maior"].iloc[-1]) / 60))
delays.set_index("tentativa")

# %%
nb.observe("08.backoff")

# %% [markdown] lang="en"
# **Why.** A receiver that was down is met by every worker at once when it comes back, if all waited for equally long. Chance draws
# them apart. Half of the delay is kept, since a delay of nothing is no delay.
#
# ## What failed?
# A real deadlock, a connection that is cut, a statement that takes too long, a value that is no number: four errors, told apart by
# SQLSTATE. Which of them does not come back?

# %% [markdown] lang="pt"
# **Por quê.** Um receptor que esteve fora do ar recebe todos os workers de uma vez quando volta, se todos esperaram o mesmo
# tempo. O acaso os separa. Metade da espera é fixa, porque esperar nada não é esperar.
#
# ## Por que falhou?
# Um deadlock de verdade, uma conexão cortada, um comando demorado demais, um valor que não é número: quatro erros, distinguidos
# pelo SQLSTATE. Qual deles não volta?

# %%
guess = ...  # conexao, conteudo, impasse or sistemico | conexao, conteudo, impasse ou sistemico

# %%
nb.observe("08.counted_apart")
columns = "documento_id, status, categoria_erro, ultimo_erro"
apart = nb.query(f"SELECT {columns} FROM fila_documentos ORDER BY documento_id")
nb.answer(guess, apart[apart["status"] == "falhou"]["categoria_erro"].iloc[0])
apart.set_index("documento_id")

# %% [markdown] lang="en"
# **Why.** Deadlock, connection and timeout depend on the moment, so another moment may do. A value that is no number will be none
# tomorrow.
#
# ## The document that kills its worker
# It makes the worker run out of memory, say: no worker is left to report a failure. It may be tried twice.

# %% [markdown] lang="pt"
# **Por quê.** Deadlock, conexão e timeout dependem do momento, e outro momento pode resolver. Um valor que não é número também
# não será número amanhã.
#
# ## O documento que mata o worker
# Digamos que ele esgote a memória do worker: não sobra worker para relatar a falha. Ele pode ser tentado duas vezes.

# %%
nb.sql("08_crash", "c_kills_a", "c_recovers", "b_claims", "c_kills_b")
nb.ask("08_crash", "c_recovers_again")
guess = ...  # yes or no | sim ou não

# %%
killer = nb.play("08_crash")
nb.answer(guess, bool(killer["d_asks"].rows))
nb.claim("08_crash", killer)
nb.table(killer, "c_reads")

# %% [markdown] lang="en"
# **Why.** The claim counts, not the report: an attempt is spent before it can go wrong. Dead letter is nothing but `falhou` with a
# category; `recuperar` gives it `queda`.
#
# ## What is put off must not stand in the way
# 20,000 documents are put off until tomorrow, and all are older than the four that are due. A claim that orders by age walks past
# them. About how many buffers does it touch: 10, 100, 1,000 or 10,000? One that orders by `disponivel_em` touches a handful.

# %% [markdown] lang="pt"
# **Por quê.** O que conta é a reserva, não o relato: a tentativa é gasta antes que possa dar errado. Dead letter nada mais é
# que `falhou` com uma categoria; `recuperar` lhe dá a de `queda`.
#
# ## O que foi adiado não pode ficar no caminho
# 20.000 documentos foram adiados até amanhã, e todos são mais antigos que os quatro que já podem sair. Uma reserva que ordena
# por idade passa por todos eles. Quantos buffers ela lê, mais ou menos: 10, 100, 1.000 ou 10.000? Uma que ordena por
# `disponivel_em` lê um punhado.

# %%
guess = ...  # 10, 100, 1000 or 10000 | 10, 100, 1000 ou 10000

# %%
import math

due = nb.facts("08.due_order")
nb.answer(guess, 10 ** round(math.log10(due["old"])))

# %% [markdown] lang="en"
# **Why.** The partial index of the due order begins with the longest due; what is due tomorrow stands at its far end.
#
# ## What is written down
# Errors quote: libxml the document, the server the row, a driver the password. `resumir` stands before everything that is kept.
# Such errors are given as reasons, each with a canary in its text. In how many rows is the canary kept?

# %% [markdown] lang="pt"
# **Por quê.** O índice parcial dessa ordem começa pelo que espera há mais tempo; o que só sai amanhã está na outra ponta.
#
# ## O que fica registrado
# Erros citam: a libxml, o documento; o servidor, a linha; um driver, uma senha. `resumir` fica na frente de tudo o que é
# guardado. Erros assim são dados como motivo, todos com um canário no texto. Em quantas linhas o canário fica guardado?

# %%
guess = ...  # a number of rows | um número de linhas

# %%
kept = nb.facts("08.redacted")
nb.answer(guess, kept["leaked_errors"] + kept["leaked_audit"])

# %% [markdown] lang="en"
# **Why.** Of each reason one short line is kept, and dots stand for what was recognized: quoted, in brackets, like a password. Words
# in another form pass (the check shows three), so it is the last line of defence and not the first.
#
# **What a production queue does.** A worker classifies by SQLSTATE or HTTP status, not by words; writes a reason of its own; logs id,
# version, category and the next attempt, never the document. It counts failures by category: one bad document is a document's
# matter, a hundred `conexao` are yours. A person looks at what has ended in `falhou` (lesson 10 gives it back to the queue).
#
# **What we simplified.** One rule of delay for all receivers; a real one may say itself when to come back (`Retry-After`).
#
# ## Surprises

# %% [markdown] lang="pt"
# **Por quê.** De cada motivo fica uma linha curta, com reticências no lugar do que foi reconhecido: entre aspas ou parênteses, ou
# com jeito de senha. Palavras em outro formato passam (a verificação mostra três): é a última linha de defesa, não a primeira.
#
# **O que uma fila de produção faz.** O worker classifica por SQLSTATE ou status HTTP, não por palavras; escreve um motivo
# próprio; registra em log id, versão, categoria e a próxima tentativa, nunca o documento. Conta as falhas por categoria: um
# documento ruim é problema do documento, cem `conexao` são problema seu. Alguém olha o que acabou em `falhou` (a lição 10
# devolve isso à fila).
#
# **O que simplificamos.** Uma só regra de espera para todos os receptores; um de verdade pode dizer quando voltar
# (`Retry-After`).
#
# ## Surpresas

# %%
nb.surprises("08")

# %% [markdown] lang="en"
# **Next:** 09, effects: what happened in the world outside when no worker is left to tell.

# %% [markdown] lang="pt"
# **A seguir:** 09, efeitos: o que aconteceu no mundo externo quando não sobra worker para contar.
