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
# # 18 · Old snapshots
#
# Run the cells from top to bottom (Shift-Enter). Where a cell says `guess = ...`, first write your guess in place of the three
# dots; *Run All* works without guesses. The sessions are real connections to a database of this notebook's own.

# %% [markdown] lang="pt"
# # 18 · Retratos antigos
#
# Rode as células de cima para baixo (Shift-Enter). Onde houver `guess = ...`, escreva antes o seu palpite no lugar dos três
# pontos; *Run All* funciona sem palpites. As sessões são conexões reais a um banco só deste notebook.

# %% lang="en"
import lab.notebook as nb  # No module named 'lab'? Open this notebook with ./lab notebook

nb.begin("18", lang="en")

# %% lang="pt"
import lab.notebook as nb  # No module named 'lab'? Abra este notebook com ./lab notebook

nb.begin("18", lang="pt")

# %% [markdown] lang="en"
# ## A report is open, and workers go on
# A session elsewhere has begun a report (REPEATABLE READ) and is not done. Workers claim and finish, a hundred at a time. The queue gets
# shorter, and no worker waits for the report. How many buffers does one claim read once 10,000 documents are finished? (At first it reads
# about 28.)

# %% [markdown] lang="pt"
# ## Um relatório está aberto, e os workers continuam
# Uma sessão em outro lugar começou um relatório (REPEATABLE READ) e não terminou. Os workers reservam e concluem, cem por vez. A fila
# fica mais curta, e nenhum worker espera pelo relatório. Quantos buffers uma reserva lê depois de 10.000 documentos concluídos? (No
# começo, lê uns 28.)

# %%
guess = ...  # a number of buffers | um número de buffers

# %% lang="en"
from lab.experiments import old_snapshots as old

documents, every, rounds = 10_000, 1_000, 3  # change them
holders = {"while a report is open": old.snapshot, "without it": old.nobody}
seen = old.curves(nb.stage().conninfo, holders, documents, every, rounds)
report = [round(each.median) for _, each in seen["while a report is open"]]
first, *_, during, ended, vacuumed = report
*_, without, _, _ = (round(each.median) for _, each in seen["without it"])
nb.answer(guess, during)
nb.lines(
    seen,
    "documents finished (line: median of the rounds; band: smallest to largest)",
    "buffers a claim",
    marks={"report ends": documents * 1.06, "vacuum": documents * 1.19},
)
print(f"On this server a claim went from {first} buffers to {during} while the report was open,")
print(f"to {ended} when it had ended, and to {vacuumed} after a vacuum. Without it: {without}.")

# %% lang="pt"
from lab.experiments import old_snapshots as old

documents, every, rounds = 10_000, 1_000, 3  # mude
holders = {"com um relatório aberto": old.snapshot, "sem ele": old.nobody}
seen = old.curves(nb.stage().conninfo, holders, documents, every, rounds)
report = [round(each.median) for _, each in seen["com um relatório aberto"]]
first, *_, during, ended, vacuumed = report
*_, without, _, _ = (round(each.median) for _, each in seen["sem ele"])
nb.answer(guess, during)
nb.lines(
    seen,
    "documentos concluídos (linha: mediana das rodadas; faixa: do menor ao maior)",
    "buffers por reserva",
    marks={"relatório acaba": documents * 1.06, "vacuum": documents * 1.19},
)
print(f"Neste servidor uma reserva foi de {first} buffers a {during} com o relatório aberto,")
print(f"a {ended} quando ele acabou e a {vacuumed} depois de um vacuum. Sem ele: {without}.")

# %%
nb.observe("18.dead_entries")

# %% [markdown] lang="en"
# **Why.** A finished document leaves an entry in the index of what is due, at its head. A claim that meets the entry of a row that no
# transaction can see any more marks it dead, and the next claim passes it. As long as the report may still see the row, the entry may not
# be marked: each claim goes to the table again, for each of them. A vacuum may not take them away either.
#
# ## Who is it?
# R has a report open, I is idle in a transaction. Whom does the server keep old rows for?

# %% [markdown] lang="pt"
# **Por quê.** Um documento concluído deixa uma entrada no índice do que está na hora, bem no começo dele. A reserva que encontra a
# entrada de uma linha que nenhuma transação pode mais ver a marca como morta, e a seguinte a pula. Enquanto o relatório ainda puder ver a
# linha, a entrada não pode ser marcada: toda reserva vai à tabela de novo, por cada uma. E um vacuum também não pode levá-las.
#
# ## Quem é?
# R tem um relatório aberto, I está parado numa transação. Para quem o servidor guarda linhas velhas?

# %%
nb.sql("18_who_holds", "r_level", "r_reads", "i_begin")
nb.ask("18_who_holds", "o_asks")
guess = ...  # sessions, as lab/R | sessões, como lab/R

# %%
held = nb.play("18_who_holds")
nb.answer(guess, held["o_asks"].column("quem")[0])
nb.table(held, "o_asks_again")
nb.claim("18_who_holds", held)

# %% [markdown] lang="en"
# **Why.** What counts is a snapshot or a transaction number that is still in use, not how long a session has been connected. The same
# fault comes in other clothes, without any session: a prepared transaction whose second half never came, the slot of a standby that went
# away. `sql/horizon.sql` asks for all of them; `./lab doctor` and `sql/alerts.sql` ask it, too.

# %% [markdown] lang="pt"
# **Por quê.** O que conta é um retrato ou um número de transação ainda em uso, não há quanto tempo a sessão está conectada. O mesmo
# problema aparece com outra roupa, sem sessão nenhuma: uma transação preparada cuja segunda metade nunca veio, o slot de um standby que
# se foi. `sql/horizon.sql` pergunta por todos; `./lab doctor` e `sql/alerts.sql` também perguntam.

# %%
nb.observe("18.prepared")

# %% [markdown] lang="en"
# ## What skipping costs
# A worker that does its work inside the claim's transaction keeps its rows locked. The others skip them. How many buffers does a claim
# read behind 10,000 locked rows? And behind 10,000 that are leased, with the claim's transaction committed?

# %% [markdown] lang="pt"
# ## Quanto custa pular
# Um worker que trabalha dentro da transação da reserva mantém as linhas bloqueadas. Os outros as pulam. Quantos buffers uma reserva lê
# atrás de 10.000 linhas bloqueadas? E atrás de 10.000 reservadas, com a transação da reserva já confirmada?

# %%
guess = ...  # a number of buffers | um número de buffers

# %%
skipped = nb.facts("18.locked_rows")
nb.answer(guess, skipped["buffers"][-1])

# %%
nb.ask("18_long_worker", "b_claims")
guess = ...  # a document's number | o número de um documento

# %%
long = nb.play("18_long_worker")
nb.answer(guess, long["b_claims"].one("documento_id"))
nb.timeline(long)
nb.claim("18_long_worker", long)

# %% [markdown] lang="en"
# **Why.** A locked row is still pending to everyone else, so it stays in the index, and each claim has to look whether it is free. A
# leased row is no longer pending.
#
# **What a production queue does.** Short transactions everywhere in its database, reports on a standby or in another database,
# `idle_in_transaction_session_timeout`, `max_slot_wal_keep_size`, prepared transactions off where none are needed, and an alert on who
# holds the horizon.
#
# **What we simplified.** Autovacuum is off for the queue here, so that the dead entries are ours alone; with it on, it comes and may take
# nothing. **What this does not show:** the growth of the table, which goes on as well; and hours.
#
# ## Surprises

# %% [markdown] lang="pt"
# **Por quê.** Para os outros, uma linha bloqueada continua pendente: fica no índice, e toda reserva precisa ver se está livre. Uma linha
# reservada já não é pendente.
#
# **O que uma fila de produção faz.** Transações curtas em todo o banco dela, relatórios num standby ou em outro banco,
# `idle_in_transaction_session_timeout`, `max_slot_wal_keep_size`, transações preparadas desligadas onde não fazem falta, e um alerta
# sobre quem segura o horizonte.
#
# **O que simplificamos.** O autovacuum está desligado para a fila aqui, para que as entradas mortas sejam só nossas; ligado, ele vem e
# não pode levar nada. **O que isto não mostra:** o crescimento da tabela, que também continua; e horas.
#
# ## Surpresas

# %%
nb.surprises("18")
