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
# # 02 · FOR UPDATE waits
#
# Run the cells from top to bottom (Shift-Enter). Where a cell says `guess = ...`, first write your guess in place of the three
# dots; *Run All* works without guesses. The sessions are real connections to a database of this notebook's own.

# %% [markdown] lang="pt"
# # 02 · FOR UPDATE espera
#
# Rode as células de cima para baixo (Shift-Enter). Onde houver `guess = ...`, escreva antes o seu palpite no lugar dos três
# pontos; *Run All* funciona sem palpites. As sessões são conexões reais a um banco só deste notebook.

# %% lang="en"
import lab.notebook as nb  # No module named 'lab'? Open this notebook with ./lab notebook

nb.begin("02", lang="en")

# %% lang="pt"
import lab.notebook as nb  # No module named 'lab'? Abra este notebook com ./lab notebook

nb.begin("02", lang="pt")

# %% [markdown] lang="en"
# ## B asks for the oldest pending document
# Four documents are pending. A takes the oldest; then B asks, and will not wait longer than two seconds.
# Guess a number, or `"none"`.

# %% [markdown] lang="pt"
# ## B pede o documento pendente mais antigo
# Há quatro documentos pendentes. A pega o mais antigo; depois B pede, e não aceita esperar mais de dois segundos. Palpite: um
# número, ou `"nenhum"`.

# %%
nb.sql("02_lock_timeout", "a_takes", "b_limit")
nb.ask("02_lock_timeout", "b_asks")
guess = ...  # a document's number, or "none" | o número de um documento, ou "nenhum"

# %%
limited = nb.play("02_lock_timeout")
nb.answer(guess, limited["b_asks"].value)
nb.timeline(limited)
nb.claim("02_lock_timeout", limited)

# %%
nb.events(limited)

# %% [markdown] lang="en"
# **Why.** The query finds its rows in order and locks each as it finds it; `LIMIT` counts the rows that it could lock. The
# first row is document 1, so B stands before it and never comes to look at 2, 3 and 4. `lock_timeout` ends the statement with
# 55P03 (`lock_not_available`); it does not send B on to the next row.
#
# ## Without a timeout: what ends the wait?
# Now B sets no limit. A keeps its document for half a second and gives up.

# %% [markdown] lang="pt"
# **Por quê.** A consulta encontra as linhas na ordem e bloqueia cada uma ao encontrá-la; `LIMIT` conta as que ela conseguiu
# bloquear. A primeira linha é o documento 1: B para diante dele e nem chega a olhar o 2, o 3 e o 4. O `lock_timeout` encerra o
# comando com 55P03 (`lock_not_available`); não manda B para a linha seguinte.
#
# ## Sem limite: o que encerra a espera?
# Agora B não põe limite. A fica meio segundo com o documento e desiste.

# %%
nb.ask("02_rollback", "a_gives_up")
guess = ...  # a document's number, or "none" | o número de um documento, ou "nenhum"

# %%
gives_up = nb.play("02_rollback", work={"a_gives_up": 0.5})
nb.answer(guess, gives_up["b_asks"].value)

# %% [markdown] lang="en"
# And if A marks the document as its own, and commits?

# %% [markdown] lang="pt"
# E se A marcar o documento como seu e fizer COMMIT?

# %%
nb.sql("02_commit", "a_marks")
nb.ask("02_commit", "b_asks")
guess = ...  # a document's number, or "none" | o número de um documento, ou "nenhum"

# %% lang="en"
commits = nb.play("02_commit", work={"a_commits": 0.5})
nb.answer(guess, commits["b_asks"].value)
nb.timeline(gives_up, commits, titles=("A rolls back", "A marks document 1 and commits"))
nb.claim("02_rollback", gives_up)
nb.claim("02_commit", commits)

# %% lang="pt"
commits = nb.play("02_commit", work={"a_commits": 0.5})
nb.answer(guess, commits["b_asks"].value)
nb.timeline(gives_up, commits, titles=("A desiste", "A marca o documento 1 e faz COMMIT"))
nb.claim("02_rollback", gives_up)
nb.claim("02_commit", commits)

# %% [markdown] lang="en"
# **Why.** B waits for the end of A's transaction, whatever it is. Then it reads the newest version of the row once more and
# asks whether the row still fits. After a rollback it does; after the commit it is no longer pending, and B moves on.
#
# ## Who waits for whom
# A third session asks the server while B hangs. Guess the `locktype`: `"row"`, `"tuple"`, `"relation"` or `"transactionid"`?

# %% [markdown] lang="pt"
# **Por quê.** B espera o fim da transação de A, seja ele qual for. Aí lê mais uma vez a versão mais recente da linha e verifica
# se ela ainda serve. Depois de um rollback, serve; depois do commit, já não está pendente, e B segue adiante.
#
# ## Quem espera por quem
# Uma terceira sessão pergunta ao servidor enquanto B está parado. Qual é o `locktype`: `"row"`, `"tuple"`, `"relation"` ou
# `"transactionid"`?

# %%
nb.ask("02_third_session", "c_looks")
guess = ...  # a locktype: "tuple", "transactionid", "relation" … | um locktype: "tuple", "transactionid", "relation" …

# %%
watched = nb.play("02_third_session")
nb.answer(guess, watched["c_looks"].one("locktype"))
nb.claim("02_third_session", watched)
nb.table(watched, "c_looks")

# %% [markdown] lang="en"
# **Why.** A row lock is a mark in the row itself, which names A's transaction. Whoever meets the mark waits for that
# transaction, so this is the lock that the server knows of.
#
# ## Change one argument: how many sessions
# Each session keeps its document for 0.3 s and commits, without marking it. How long does the last of four wait?
# Then change `sessions`, or set `skip_locked=True`.

# %% [markdown] lang="pt"
# **Por quê.** Um bloqueio de linha é uma marca na própria linha, com o número da transação de A. Quem encontra a marca espera
# por essa transação, e é esse o bloqueio que o servidor conhece.
#
# ## Mude um argumento: quantas sessões
# Cada sessão fica 0,3 s com o seu documento e faz COMMIT, sem marcá-lo. Quanto tempo espera a última de quatro? Depois mude
# `sessions`, ou ponha `skip_locked=True`.

# %%
chain = nb.queue_up(sessions=4, skip_locked=False, work=0.3)
nb.timeline(chain)

# %% lang="en"
longer = nb.queue_up(sessions=6, skip_locked=False, work=0.3)
last = longer["f_asks"].seconds / longer["b_asks"].seconds
print(f"six sessions: the last one waited {last:.1f} times as long as the second")

# %% lang="pt"
longer = nb.queue_up(sessions=6, skip_locked=False, work=0.3)
last = longer["f_asks"].seconds / longer["b_asks"].seconds
print(f"seis sessões: a última esperou {last:.1f} vezes o tempo da segunda")

# %% [markdown] lang="en"
# **Why.** B waits for A's transaction, and holds a place in line that C waits for, and D behind C. Four workers are as fast as
# one. And since nobody marks it, all of them get document 1.
#
# ## When waiting is right
# Two buyers share a balance of 100.00, and there is no second one to take instead. First without a lock.
# Guess `"yes"` or `"no"`.

# %% [markdown] lang="pt"
# **Por quê.** B espera pela transação de A e ocupa um lugar na fila que C espera, e D vem atrás de C. Quatro workers rendem o
# mesmo que um. E, como nenhum marca o documento, todos recebem o documento 1.
#
# ## Quando esperar é o certo
# Dois compradores dividem um saldo de 100.00, e não há outro saldo para usar no lugar. Primeiro, sem bloqueio. Palpite: `"sim"`
# ou `"não"`.

# %%
nb.ask("02_balance_unlocked", "b_spends")
guess = ...  # "yes" or "no" | "sim" ou "não"

# %%
unlocked = nb.play("02_balance_unlocked")
nb.answer(guess, not unlocked["b_spends"].rows)
nb.claim("02_balance_unlocked", unlocked)

# %%
nb.sql("02_balance_waits", "b_reads")
nb.ask("02_balance_waits", "a_commits")
guess = ...  # a balance, as 100.00 | um saldo, como 100.00

# %%
balance = nb.play("02_balance_waits", work={"a_spends": 0.5})
nb.answer(guess, balance["b_reads"].value)
nb.timeline(balance)
nb.claim("02_balance_waits", balance)

# %% [markdown] lang="en"
# **Why.** Without the lock each writes what it has worked out from 100.00, and the second write covers the first. With it B reads
# what A has left.
#
# **What a production queue does.** It never makes workers stand in line for one document while others are free: it passes
# (lesson 03). It keeps plain `FOR UPDATE` for rows that cannot be replaced by another, as a balance, and puts a
# `lock_timeout` on them. Who waits for whom is one query away: `sql/watch.sql`.
#
# **What we simplified.** A's work is a pause of this notebook's; only A's lock makes B wait. Nobody marks his document in the
# chain of four: several waiters on a row that changes are a free race, and lesson 04 runs that one with ten connections.
#
# ## Surprises

# %% [markdown] lang="pt"
# **Por quê.** Sem o bloqueio, cada um grava o que calculou a partir de 100.00, e a segunda gravação cobre a primeira. Com ele,
# B lê o que A deixou.
#
# **O que uma fila de produção faz.** Nunca põe workers em fila por um documento enquanto há outros livres: passa adiante (lição
# 03). Reserva o `FOR UPDATE` simples para linhas que nenhuma outra substitui, como um saldo, e põe um `lock_timeout` nele. Quem
# espera por quem está a uma consulta de distância: `sql/watch.sql`.
#
# **O que simplificamos.** O trabalho de A é uma pausa deste notebook; só o bloqueio de A faz B esperar. Na fileira de quatro,
# ninguém marca o documento: vários à espera de uma linha que muda são uma corrida livre, e a lição 04 faz essa corrida com dez
# conexões.
#
# ## Surpresas

# %%
nb.surprises("02")

# %% [markdown] lang="en"
# **Next:** 03, two words more, and B passes.

# %% [markdown] lang="pt"
# **A seguir:** 03, duas palavras a mais, e B passa.
