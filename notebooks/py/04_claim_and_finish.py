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
# # 04 · Claim and finish
#
# Run the cells from top to bottom (Shift-Enter). Where a cell says `guess = ...`, first write your guess in place of the three
# dots; *Run All* works without guesses. The sessions are real connections to a database of this notebook's own.

# %% [markdown] lang="pt"
# # 04 · Reservar e concluir
#
# Rode as células de cima para baixo (Shift-Enter). Onde houver `guess = ...`, escreva antes o seu palpite no lugar dos três
# pontos; *Run All* funciona sem palpites. As sessões são conexões reais a um banco só deste notebook.

# %% lang="en"
import lab.notebook as nb  # No module named 'lab'? Open this notebook with ./lab notebook

nb.begin("04", lang="en")

# %% lang="pt"
import lab.notebook as nb  # No module named 'lab'? Abra este notebook com ./lab notebook

nb.begin("04", lang="pt")

# %% [markdown] lang="en"
# ## The claim: one statement
# Choose in a CTE, mark with `UPDATE`, give back with `RETURNING`. A has run it for `worker-a` and not committed yet.

# %% [markdown] lang="pt"
# ## A reserva: um só comando
# Escolher numa CTE, marcar com `UPDATE`, devolver com `RETURNING`. A rodou o comando pelo `worker-a` e ainda não fez COMMIT.

# %%
nb.ask("04_claim", "b_claims")
guess = ...  # a document's number, or "none" | o número de um documento, ou "nenhum"

# %%
claims = nb.play("04_claim", work={"a_commits": 0.3, "b_commits": 0.3})
nb.answer(guess, claims["b_claims"].value)
nb.claim("04_claim", claims)
nb.timeline(claims)
nb.table(claims, "a_reads")

# %% [markdown] lang="en"
# **Why.** Between choosing and marking nobody can come in: it is one statement, and it holds the row's lock from the choice to
# the commit. From then on the mark does what the lock did.
#
# ## Why not SELECT, COMMIT, then UPDATE?
# The same three parts, one after the other.

# %% [markdown] lang="pt"
# **Por quê.** Entre escolher e marcar ninguém entra: é um só comando, e ele segura o bloqueio da linha da escolha até o commit.
# Daí em diante, a marca faz o que o bloqueio fazia.
#
# ## Por que não SELECT, COMMIT e depois UPDATE?
# As mesmas três partes, uma depois da outra.

# %%
nb.sql("04_select_commit_update", "a_chooses", "a_commits")
nb.ask("04_select_commit_update", "b_chooses")
guess = ...  # a document's number, or "none" | o número de um documento, ou "nenhum"

# %%
apart = nb.play("04_select_commit_update", work={"a_marks": 0.3})
nb.answer(guess, apart["b_chooses"].value)
nb.claim("04_select_commit_update", apart)
nb.timeline(apart)
nb.table(apart, "a_reads")

# %% [markdown] lang="en"
# **Why.** A's lock ended with its transaction, and its mark is not written yet. Between the two, document 1 is pending and free.
#
# ## Ten connections, released together
# 200 documents; each session claims until it gets none. First the claim in one statement, then the three parts. Who gets how
# many is chance; only the totals say something. How many claims too many does the second race make?

# %% [markdown] lang="pt"
# **Por quê.** O bloqueio de A acabou com a transação, e a marca ainda não foi gravada. Entre uma coisa e outra, o documento 1
# está pendente e livre.
#
# ## Dez conexões, largando juntas
# São 200 documentos; cada sessão reserva até não receber nenhum. Primeiro a reserva em um comando, depois as três partes. Quem
# recebe quantos é sorte; só os totais dizem algo. Quantas reservas a segunda corrida faz a mais?

# %%
guess = ...  # a number of claims | um número de reservas

# %% lang="en"
races = {
    "the claim in one statement": nb.compete(documents=200),
    "SELECT, COMMIT, UPDATE": nb.compete(documents=200, claim="select_commit_update"),
}
nb.answer(guess, races["SELECT, COMMIT, UPDATE"].duplicates)
nb.shares(races)
nb.totals(races)

# %% lang="pt"
races = {
    "a reserva em um comando": nb.compete(documents=200),
    "SELECT, COMMIT, UPDATE": nb.compete(documents=200, claim="select_commit_update"),
}
nb.answer(guess, races["SELECT, COMMIT, UPDATE"].duplicates)
nb.shares(races)
nb.totals(races)

# %%
nb.observe("04.ten_connections")

# %% [markdown] lang="en"
# **Why.** In one statement the choice is locked until it is marked. In three, nine others look into every gap.
#
# ## Change one argument: without SKIP LOCKED
# The same claim, and each session works 10 ms on a document inside its transaction. Nothing is taken twice either way; guess
# how many times as long the race takes that waits.

# %% [markdown] lang="pt"
# **Por quê.** Num só comando, o que foi escolhido fica bloqueado até ser marcado. Em três, outras nove sessões espiam por toda
# brecha.
#
# ## Mude um argumento: sem SKIP LOCKED
# A mesma reserva, e cada sessão trabalha 10 ms num documento dentro da transação. Nada é pego duas vezes, de um jeito ou do
# outro; quantas vezes mais demora a corrida que espera?

# %%
guess = ...  # times as long | quantas vezes

# %%
slow = {
    "SKIP LOCKED": nb.compete(sessions=10, documents=60, claim="skip_locked", work=0.01),
    "FOR UPDATE": nb.compete(sessions=10, documents=60, claim="for_update", work=0.01),
}
ratio = slow["FOR UPDATE"].seconds / slow["SKIP LOCKED"].seconds
nb.answer(guess, round(ratio))
nb.totals(slow)

# %% [markdown] lang="en"
# **Why.** Without `SKIP LOCKED` all ten stand before the same oldest document, so one works at a time. With it, ten do. The
# ratio is that of one run, on one machine; change `sessions` or `work` and see it move.
#
# ## Work outside, end in a short transaction
# Claim, commit, work, write the outcome.

# %% [markdown] lang="pt"
# **Por quê.** Sem `SKIP LOCKED`, as dez param diante do mesmo documento mais antigo, e só uma trabalha por vez. Com ele,
# trabalham as dez. A razão é a de uma corrida, em uma máquina; mude `sessions` ou `work` e veja como ela varia.
#
# ## Trabalhe fora, termine em uma transação curta
# Reservar, fazer COMMIT, trabalhar, gravar o resultado.

# %%
nb.ask("04_work_outside", "c_during_work")
guess = ...  # a number of locks | um número de bloqueios

# %%
outside = nb.play("04_work_outside", work={"a_commits": 0.1, "a_finishes": 0.8})
nb.answer(guess, outside["c_during_work"].one("bloqueios_de_a"))
nb.claim("04_work_outside", outside)
nb.timeline(outside)

# %% [markdown] lang="en"
# **Why.** What keeps B from document 1 is the mark. The dotted stretch of A's lane is its work: no transaction, no lock.
#
# ## A small batch
# The same claim with `LIMIT 10`. A is first; then B asks for as many.

# %% [markdown] lang="pt"
# **Por quê.** O que mantém B longe do documento 1 é a marca. O trecho pontilhado da faixa de A é o trabalho: sem transação, sem
# bloqueio.
#
# ## Um lote pequeno
# A mesma reserva com `LIMIT 10`. A vem primeiro; depois B pede a mesma quantidade.

# %%
nb.ask("04_batch", "b_claims")
guess = ...  # a number of documents | um número de documentos

# %%
batch = nb.play("04_batch")
nb.answer(guess, len(batch["b_claims"].rows))
nb.claim("04_batch", batch)

# %% [markdown] lang="en"
# **Why.** `LIMIT` says how many at most, and A was given all there were. They now wait for one consumer, each behind those
# before it (lesson 15, to come, measures how many are too many).
#
# ## Only the owner ends it
# A owns document 1. B sends the very statement that A would send.

# %% [markdown] lang="pt"
# **Por quê.** `LIMIT` diz quantos no máximo, e A recebeu todos os que havia. Agora eles esperam por um só consumidor, cada um
# atrás dos anteriores (a lição 15, por vir, mede quantos são demais).
#
# ## Só o dono conclui
# A é dono do documento 1. B envia exatamente o comando que A enviaria.

# %%
nb.ask("04_outcome", "b_finishes_foreign")
guess = ...  # a number of rows | um número de linhas

# %%
ended = nb.play("04_outcome")
nb.answer(guess, len(ended["b_finishes_foreign"].rows))

# %%
nb.sql("04_outcome", "a_finishes", "b_fails")
nb.ask("04_outcome", "a_finishes_again")
guess = ...  # a number of rows | um número de linhas

# %%
nb.answer(guess, len(ended["a_finishes_again"].rows))
nb.claim("04_outcome", ended)
nb.table(ended, "c_reads")

# %% [markdown] lang="en"
# **Why.** The outcome is guarded by id, state and worker. Zero rows is the answer that says: not yours, or not any more; a
# worker has to look at that number. A claim also clears what an earlier attempt left behind:

# %% [markdown] lang="pt"
# **Por quê.** A gravação do resultado exige id, estado e worker no WHERE. Zero linhas é a resposta que diz: não é seu, ou
# deixou de ser; o worker tem de olhar esse número. A reserva também limpa o que uma tentativa anterior deixou:

# %%
nb.ask("04_fields", "a_between")
guess = ...  # the error that is left, or "none" | o erro que sobra, ou "nenhum"

# %%
fields = nb.play("04_fields")
nb.answer(guess, fields["a_between"].column("ultimo_erro")[0])
nb.claim("04_fields", fields)
nb.table(fields, "a_after")

# %% [markdown] lang="en"
# **What a production queue does.** Exactly these five steps: claim, commit, work outside, a short transaction for the outcome,
# the next one. Then it needs what is missing here: a worker that dies after its commit leaves its document in `processando`
# for ever (below). That is the lease of lesson 05; and a worker's name is no proof of ownership, which is the token of lesson 06.
#
# **What we simplified.** Work is a pause. A document's outcome is a state, with no effect on the world outside (lesson 09).
#
# ## Surprises

# %% [markdown] lang="pt"
# **O que uma fila de produção faz.** Exatamente estes cinco passos: reservar, fazer COMMIT, trabalhar fora, uma transação curta
# para o resultado, o próximo. E precisa do que ainda falta aqui: um worker que morre depois do COMMIT deixa o documento em
# `processando` para sempre (abaixo). Disso cuida a reserva com prazo da lição 05; e o nome de um worker não prova que ele é o
# dono: disso cuida o token da lição 06.
#
# **O que simplificamos.** O trabalho é uma pausa. O resultado de um documento é um estado, sem efeito no mundo externo (lição
# 09).
#
# ## Surpresas

# %%
nb.surprises("04")

# %% [markdown] lang="en"
# **Next:** 05, the lease: what happens when A does not come back.

# %% [markdown] lang="pt"
# **A seguir:** 05, a reserva com prazo: o que acontece quando A não volta.
