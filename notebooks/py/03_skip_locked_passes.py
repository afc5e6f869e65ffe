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
# # 03 · SKIP LOCKED passes
#
# Run the cells from top to bottom (Shift-Enter). Where a cell says `guess = ...`, first write your guess in place of the three
# dots; *Run All* works without guesses. The sessions are real connections to a database of this notebook's own.

# %% [markdown] lang="pt"
# # 03 · SKIP LOCKED passa
#
# Rode as células de cima para baixo (Shift-Enter). Onde houver `guess = ...`, escreva antes o seu palpite no lugar dos três
# pontos; *Run All* funciona sem palpites. As sessões são conexões reais a um banco só deste notebook.

# %% lang="en"
import lab.notebook as nb  # No module named 'lab'? Open this notebook with ./lab notebook

nb.begin("03", lang="en")

# %% lang="pt"
import lab.notebook as nb  # No module named 'lab'? Abra este notebook com ./lab notebook

nb.begin("03", lang="pt")

# %% [markdown] lang="en"
# ## The same two sessions, two words more
# A takes the oldest document and works on it. B asks with the same query, and a `lock_timeout` of two seconds as before.

# %% [markdown] lang="pt"
# ## As mesmas duas sessões, duas palavras a mais
# A pega o documento mais antigo e trabalha nele. B pede com a mesma consulta e, como antes, um `lock_timeout` de dois segundos.

# %%
nb.ask("03_passes", "b_asks")
guess = ...  # a document's number, or "none" | o número de um documento, ou "nenhum"

# %%
passes = nb.play("03_passes", work={"b_ends": 0.5, "a_ends": 1.0})
nb.answer(guess, passes["b_asks"].value)
nb.claim("03_passes", passes)
nb.timeline(
    nb.play("02_lock_timeout"),
    passes,
    titles=("FOR UPDATE", "FOR UPDATE SKIP LOCKED"),
)

# %% [markdown] lang="en"
# **Why.** The query still finds document 1 first. It cannot lock it at once, so it drops it and goes on; the first row that it
# can lock is document 2. No time passes, and no timeout is needed.
#
# ## Change one argument
# Four sessions, each with 0.3 s of work in its transaction. Waiting they take turns, passing they work side by side.

# %% [markdown] lang="pt"
# **Por quê.** A consulta ainda encontra primeiro o documento 1. Como não consegue bloqueá-lo na hora, deixa-o de lado e segue;
# a primeira linha que consegue bloquear é o documento 2. Não passa tempo nenhum, e nenhum limite é necessário.
#
# ## Mude um argumento
# Quatro sessões, cada uma com 0,3 s de trabalho dentro da transação. Esperando, elas se revezam; passando, trabalham lado a
# lado.

# %%
nb.timeline(
    nb.queue_up(sessions=4, skip_locked=False, work=0.3),
    nb.queue_up(sessions=4, skip_locked=True, work=0.3),
    titles=("skip_locked=False", "skip_locked=True"),
)

# %% [markdown] lang="en"
# And six sessions for four documents? Guess what the sixth gets.

# %% [markdown] lang="pt"
# E seis sessões para quatro documentos? O que a sexta recebe?

# %%
guess = ...  # a document's number, or "none" | o número de um documento, ou "nenhum"

# %%
six = nb.queue_up(sessions=6, skip_locked=True, work=0.3)
nb.answer(guess, six["f_asks"].value)
nb.timeline(six)

# %% [markdown] lang="en"
# ## Zero rows is not an empty queue
# A locks all four.

# %% [markdown] lang="pt"
# ## Zero linhas não é fila vazia
# A bloqueia os quatro documentos.

# %%
nb.ask("03_all_locked", "b_asks")
guess = ...  # a document's number, or "none" | o número de um documento, ou "nenhum"

# %%
locked = nb.play("03_all_locked")
nb.answer(guess, locked["b_asks"].value)
nb.ask("03_all_locked", "b_counts")
guess = ...  # the number of documents a plain count finds | quantos documentos uma contagem simples encontra

# %%
nb.answer(guess, locked["b_counts"].value)
nb.claim("03_all_locked", locked)

# %% [markdown] lang="en"
# **Why.** `SKIP LOCKED` passes what it cannot lock, so zero rows may mean empty, locked, or taken. One query tells
# which; here three are locked by A and one is processed by C.

# %% [markdown] lang="pt"
# **Por quê.** `SKIP LOCKED` passa por cima do que não consegue bloquear; zero linhas pode ser fila vazia, tudo bloqueado ou
# tudo já reservado. Uma consulta diz qual dos três; aqui, A bloqueia três documentos e C processa um.

# %%
nb.sql("03_why_zero", "b_explains")
why = nb.play("03_why_zero")
nb.claim("03_why_zero", why)
nb.table(why, "b_explains")

# %% [markdown] lang="en"
# ## How to lose the whole queue at once
# A forgets `LIMIT`, and reads only the first row of the answer.

# %% [markdown] lang="pt"
# ## Como travar a fila inteira de uma vez
# A esquece o `LIMIT` e lê só a primeira linha da resposta.

# %%
nb.ask("03_no_limit", "a_takes")
guess = ...  # a number of rows | um número de linhas

# %%
greedy = nb.play("03_no_limit")
nb.answer(guess, greedy["a_takes"].value)
nb.claim("03_no_limit", greedy)
nb.events(greedy)

# %% [markdown] lang="en"
# **Why.** `FOR UPDATE` locks each row that the query returns, read or not.
#
# ## How to hold nothing at all
# Now A forgets `BEGIN`.

# %% [markdown] lang="pt"
# **Por quê.** `FOR UPDATE` bloqueia toda linha que a consulta devolve, lida ou não.
#
# ## Como não segurar nada
# Agora A esquece o `BEGIN`.

# %%
nb.ask("03_autocommit", "b_asks")
guess = ...  # a document's number, or "none" | o número de um documento, ou "nenhum"

# %%
forgets = nb.play("03_autocommit", work={"b_asks": 0.5})
nb.answer(guess, forgets["b_asks"].value)
nb.claim("03_autocommit", forgets)
nb.timeline(forgets)

# %% [markdown] lang="en"
# **Why.** A row lock lasts as long as its transaction. Without `BEGIN` that is one statement, and the lock was gone before A
# began to work: no light bar in the picture.
#
# ## The third way: NOWAIT

# %% [markdown] lang="pt"
# **Por quê.** Um bloqueio de linha dura o mesmo que a transação. Sem `BEGIN`, isso é um só comando, e o bloqueio já tinha
# acabado quando A começou a trabalhar: na figura, não há barra clara.
#
# ## A terceira via: NOWAIT

# %%
nb.ask("03_nowait", "b_asks")
guess = ...  # a document's number, or "none" | o número de um documento, ou "nenhum"

# %%
refused = nb.play("03_nowait", work={"a_ends": 0.5})
nb.answer(guess, refused["b_asks"].value)
nb.claim("03_nowait", refused)
nb.timeline(refused)

# %% [markdown] lang="en"
# **Why.** Document 1 comes first, and `NOWAIT` ends the statement at the first row that it cannot lock. It says that this row is
# busy, and looks for no other.
#
# ## A report that skips
# A locks two of the four documents. How many does a report with `SKIP LOCKED` count?

# %% [markdown] lang="pt"
# **Por quê.** O documento 1 vem primeiro, e `NOWAIT` encerra o comando na primeira linha que não consegue bloquear. Ele diz que
# esta linha está ocupada e não procura outra.
#
# ## Um relatório que pula
# A bloqueia dois dos quatro documentos. Quantos um relatório com `SKIP LOCKED` conta?

# %%
guess = ...  # a number of documents | um número de documentos

# %%
reported = nb.play("03_report")
nb.answer(guess, reported["b_reports"].value)
nb.claim("03_report", reported)

# %% [markdown] lang="en"
# **Why.** A locked row is as real as any other. A plain `SELECT` counts it, and waits for nobody.
#
# ## Your own SQL
# Write the statements of each session. They take turns: the first statement of each, then the second, and so on; a session that
# waits loses its turn until the wait is over. Take B's `SKIP LOCKED` away, or add a session `c`.

# %% [markdown] lang="pt"
# **Por quê.** Uma linha bloqueada é tão real quanto as outras. Um `SELECT` simples a conta e não espera por ninguém.
#
# ## O seu próprio SQL
# Escreva os comandos de cada sessão. Elas se alternam: o primeiro comando de cada uma, depois o segundo, e assim por diante;
# quem espera perde a vez até que a espera acabe. Tire o `SKIP LOCKED` de B, ou acrescente uma sessão `c`.

# %%
own = nb.play_sql(
    a="BEGIN; SELECT documento_id FROM fila_documentos ORDER BY 1 LIMIT 1 FOR UPDATE; COMMIT",
    b="""
        BEGIN;
        SELECT documento_id FROM fila_documentos ORDER BY 1 LIMIT 1 FOR UPDATE SKIP LOCKED;
        SELECT documento_id FROM fila_documentos WHERE documento_id = 1 FOR UPDATE;
        COMMIT
    """,
)

# %% [markdown] lang="en"
# **Why.** What counts is what the server did: a wait is shown with what caused it, an error with its SQLSTATE.
#
# ## When to use it, and when not
#
# | the task | use | shown by |
# |:--|:--|:--|
# | any free row will do: a job queue | `FOR UPDATE SKIP LOCKED LIMIT n`, in a transaction | `03_passes`, `03_autocommit` |
# | this very row, and its newest state: a balance, a seat | `FOR UPDATE`, with a `lock_timeout` | `02_balance_waits` |
# | this very row, or tell the user at once that it is busy | `FOR UPDATE NOWAIT` | `03_nowait` |
# | is there anything left to do? | a count, and the query above; never zero rows of a claim | `03_all_locked`, `03_why_zero` |
# | a report, a sum, an export | a plain `SELECT`: it waits for nobody | `03_report` |
# | first in, first out | `ORDER BY`, and even then only among the free rows | `03_no_order_by` |
#
# **What a production queue does.** It claims with `SKIP LOCKED`, `ORDER BY` and `LIMIT` in one short transaction, and writes
# down whose the row is (lesson 04). Its monitoring counts states; it does not draw conclusions from an empty answer.
#
# **What we simplified.** The work is done inside the transaction here, for the picture. Lesson 04 takes it out.
#
# ## Surprises

# %% [markdown] lang="pt"
# **Por quê.** O que vale é o que o servidor fez: uma espera aparece com quem a causou, e um erro, com o seu SQLSTATE.
#
# ## Quando usar, e quando não
#
# | a tarefa | use | quem mostra |
# |:--|:--|:--|
# | serve qualquer linha livre: uma fila de trabalho | `FOR UPDATE SKIP LOCKED LIMIT n`, numa transação | `03_passes`, `03_autocommit` |
# | esta linha, no estado mais recente: um saldo, um assento | `FOR UPDATE`, com um `lock_timeout` | `02_balance_waits` |
# | esta linha, ou avisar na hora que ela está ocupada | `FOR UPDATE NOWAIT` | `03_nowait` |
# | ainda há o que fazer? | uma contagem e a consulta acima; nunca as zero linhas de uma reserva | `03_all_locked`, `03_why_zero` |
# | um relatório, uma soma, uma exportação | um `SELECT` simples: não espera por ninguém | `03_report` |
# | o primeiro a chegar é o primeiro a sair | `ORDER BY`, e mesmo assim só entre as linhas livres | `03_no_order_by` |
#
# **O que uma fila de produção faz.** Reserva com `SKIP LOCKED`, `ORDER BY` e `LIMIT` numa transação curta e grava de quem é a
# linha (lição 04). O monitoramento conta estados; não tira conclusões de uma resposta vazia.
#
# **O que simplificamos.** Aqui o trabalho é feito dentro da transação, por causa da figura. A lição 04 o tira de lá.
#
# ## Surpresas

# %%
nb.surprises("03")

# %% [markdown] lang="en"
# **Next:** 04, where a claim outlives its lock.

# %% [markdown] lang="pt"
# **A seguir:** 04, em que uma reserva dura mais que o seu bloqueio.
