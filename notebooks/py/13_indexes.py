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
# # 13 · Indexes
#
# Run the cells from top to bottom (Shift-Enter). Where a cell says `guess = ...`, first write your guess in place of the three
# dots; *Run All* works without guesses. The sessions are real connections to a database of this notebook's own.

# %% [markdown] lang="pt"
# # 13 · Índices
#
# Rode as células de cima para baixo (Shift-Enter). Onde houver `guess = ...`, escreva antes o seu palpite no lugar dos três
# pontos; *Run All* funciona sem palpites. As sessões são conexões reais a um banco só deste notebook.

# %% lang="en"
import lab.notebook as nb  # No module named 'lab'? Open this notebook with ./lab notebook

nb.begin("13", lang="en")

# %% lang="pt"
import lab.notebook as nb  # No module named 'lab'? Abra este notebook com ./lab notebook

nb.begin("13", lang="pt")

# %% [markdown] lang="en"
# ## A large table, nearly all of it finished
# The table has the queue's columns and 100,000 rows; one in a hundred waits, the newest ones. The query is that of `reservar`: ten
# documents that are due, locked. Nothing here touches an index of the queue itself. How many pages (buffers) does the query read
# without an index?

# %% [markdown] lang="pt"
# ## Uma tabela grande, quase toda concluída
# A tabela tem as colunas da fila e 100.000 linhas; uma em cada cem aguarda, as mais novas. A consulta é a de `reservar`: dez
# documentos na hora, com bloqueio. Nada aqui toca em índice da própria fila. Quantas páginas (buffers) a consulta lê sem índice?

# %%
guess = ...  # a number of buffers | um número de buffers

# %% lang="en"
from lab.experiments import index_forms
from lab.measure import buffers
from lab.notebook.figures import Panel

rows, rounds = 100_000, 3  # change them: 1_000_000 rows take a minute and 1.5 GB
names = {"none": "no index", "full": "full", "partial": "partial", "covering": "covering"}
reads, sizes = {}, {}
with index_forms.filled(nb.stage().conninfo, rows) as connection:
    for form, name in names.items():
        sizes[name] = index_forms.index(connection, form) / 1024
        buffers.tried(connection, index_forms.DUE)
        reads[name] = buffers.tried(connection, index_forms.DUE).buffers
    costs = index_forms.write_costs(nb.stage().conninfo, connection, rounds)
writes = {names[form]: costs.of(form, "own_wal") for form in ("none", "full", "partial")}
kept = {name: size for name, size in sizes.items() if size}
nb.answer(guess, reads["no index"])
nb.bars(
    Panel("Reading: a claim", "buffers (log scale)", reads, log=True),
    Panel("Keeping: the index", "kB", kept),
    Panel("Writing: a change of state", "WAL bytes", writes),
    best="partial",
)
less, smaller = reads["no index"] / reads["partial"], kept["full"] / kept["partial"]
more = 100 * writes["partial"].median / writes["no index"].median - 100
print(f"On this server the partial index reads {less:,.0f} times less than no index, is")
print(f"{smaller:,.0f} times smaller than the full one, and costs {more:.0f} % more WAL.")

# %% lang="pt"
from lab.experiments import index_forms
from lab.measure import buffers
from lab.notebook.figures import Panel

rows, rounds = 100_000, 3  # mude: 1_000_000 de linhas levam um minuto e 1,5 GB
names = {"none": "sem índice", "full": "completo", "partial": "parcial", "covering": "cobrindo"}
reads, sizes = {}, {}
with index_forms.filled(nb.stage().conninfo, rows) as connection:
    for form, name in names.items():
        sizes[name] = index_forms.index(connection, form) / 1024
        buffers.tried(connection, index_forms.DUE)
        reads[name] = buffers.tried(connection, index_forms.DUE).buffers
    costs = index_forms.write_costs(nb.stage().conninfo, connection, rounds)
writes = {names[form]: costs.of(form, "own_wal") for form in ("none", "full", "partial")}
kept = {name: size for name, size in sizes.items() if size}
nb.answer(guess, reads["sem índice"])
nb.bars(
    Panel("Ler: uma reserva", "buffers (escala log)", reads, log=True),
    Panel("Guardar: o índice", "kB", kept),
    Panel("Gravar: mudar de estado", "bytes de WAL", writes),
    best="parcial",
)
less, smaller = reads["sem índice"] / reads["parcial"], kept["completo"] / kept["parcial"]
more = 100 * writes["parcial"].median / writes["sem índice"].median - 100
print(f"Neste servidor o índice parcial lê {less:.0f} vezes menos que nenhum índice, é")
print(f"{smaller:.0f} vezes menor que o completo, e custa {more:.0f} % mais WAL.")

# %%
nb.observe("13.due_query", "13.write_cost")

# %% [markdown] lang="en"
# **Why.** The full index has an entry for each finished row, which no claim looks for. The partial one holds the rows that wait, so it is
# small, and stays small. But the state stands in its predicate: a change of state can no longer be a heap-only update, and
# each index that the new version belongs to gets an entry. Columns added to cover the query save nothing here: to lock a row, the claim
# goes to it anyway.
#
# The bars of the third panel show the median of the rounds, and the smallest and largest.
#
# ## Our own queue
# The protocol's queue has partial indexes for what is due, what is in work and what waits for people. How many percent of its updates
# are heap-only?

# %% [markdown] lang="pt"
# **Por quê.** O índice completo tem uma entrada para cada linha concluída, que nenhuma reserva procura. O parcial só tem as linhas que
# aguardam: é pequeno, e continua pequeno. Mas o estado aparece no predicado: quem muda o estado já não consegue uma alteração
# heap-only, e cada índice a que a versão nova pertence ganha uma entrada. Cobrir a consulta com mais colunas não poupa nada aqui: para
# bloquear a linha, a reserva vai até ela de qualquer jeito.
#
# As barras do terceiro quadro mostram a mediana das rodadas, a menor e a maior.
#
# ## A nossa própria fila
# A fila do protocolo tem índices parciais para o que está na hora, o que está em processamento e o que aguarda pessoas. Quantos por
# cento das alterações dela são heap-only?

# %%
guess = ...  # percent | por cento

# %%
own = nb.facts("13.own_table")
nb.answer(guess, own["hot"])

# %% [markdown] lang="en"
# **Why.** Every change of the protocol is a change of state, and the state is in four predicates. That is the price of finding the few
# due ones at once; lesson 14 (to come) makes the row that pays it smaller.
#
# ## How to lose the index
# Three ways: look at the plan of an empty table, send the state as a parameter, add a state. How many buffers does the claim read when
# `status = $1` has a generic plan?

# %% [markdown] lang="pt"
# **Por quê.** Toda mudança do protocolo é uma mudança de estado, e o estado está em quatro predicados. É o preço de achar na hora os
# poucos que podem ser reservados; a lição 14 (por vir) diminui a linha que paga esse preço.
#
# ## Como perder o índice
# Três jeitos: olhar o plano de uma tabela vazia, mandar o estado como parâmetro, criar um estado novo. Quantos buffers a reserva lê
# quando `status = $1` tem um plano genérico?

# %%
guess = ...  # a number of buffers | um número de buffers

# %%
lost = nb.facts("13.generic_plan")
nb.answer(guess, lost["generic"])
nb.observe("13.empty_table", "13.new_state")

# %% [markdown] lang="en"
# **Why.** A partial index serves a query only if the planner can prove, from the statement alone, that the query wants no other row. An
# unknown `$1` proves nothing; nor does a list of states that is longer than that of the index.
#
# **What a production queue does.** It writes the state into the statement, loads a mix near production's before it looks at a plan,
# leaves room on the pages, lets autovacuum come often, and makes a new index beside the old one before it changes the query.
#
# **What we simplified.** The rows are small and of one tenant; all of the table fits into memory, so times say little, and buffers are
# what to compare. **What this does not show:** how the table got there. The states lie in the order of their age, as in a queue without
# many retries.
#
# ## Surprises

# %% [markdown] lang="pt"
# **Por quê.** Um índice parcial só serve a uma consulta se o planejador puder provar, só pelo comando, que ela não quer nenhuma outra
# linha. Um `$1` desconhecido não prova nada; uma lista de estados maior que a do índice, também não.
#
# **O que uma fila de produção faz.** Escreve o estado no comando, carrega uma mistura próxima da produção antes de olhar um plano,
# deixa espaço nas páginas, faz o autovacuum vir com frequência e cria o índice novo ao lado do velho antes de trocar a consulta.
#
# **O que simplificamos.** As linhas são pequenas e de um só inquilino; a tabela inteira cabe na memória, então os tempos dizem pouco, e
# o que se compara são buffers. **O que isto não mostra:** como a tabela chegou ali. Os estados estão na ordem da idade, como numa fila
# com poucas repetições.
#
# ## Surpresas

# %%
nb.surprises("13")
