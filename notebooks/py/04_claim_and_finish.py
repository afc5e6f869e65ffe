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

# %% [markdown]
# # 04 · Claim and finish
#
# Run the cells from top to bottom (Shift-Enter). Where a cell says `guess = ...`, write your guess in place of the three
# dots before you go on; *Run All* works without guesses. The sessions are real connections to a database of this notebook's own.
#
# *Rode as células de cima para baixo (Shift-Enter). Onde houver `guess = ...`, escreva seu palpite no lugar dos três
# pontos antes de seguir; as sessões são conexões reais a um banco só deste notebook.*

# %%
try:
    import lab.notebook as nb
except ImportError:
    raise ImportError(
        "This kernel is not the lab's. Start the notebook with ./lab notebook, or choose as"
        " kernel the Python of the lab's own environment (.lab/venv). / Este kernel não é o do"
        " laboratório. Abra o notebook com ./lab notebook, ou escolha como kernel o Python do"
        " ambiente do laboratório (.lab/venv)."
    ) from None

nb.begin("04")

# %% [markdown]
# ## The claim: one statement
# Choose in a CTE, mark with `UPDATE`, give back with `RETURNING`. A has run it for `worker-a` and not committed yet.

# %%
nb.ask("04_claim", "b_claims")
guess = ...  # a document's number, or "none"

# %%
claims = nb.play("04_claim", work={"a_commits": 0.3, "b_commits": 0.3})
nb.answer(guess, claims["b_claims"].value)
nb.claim("04_claim", claims)
nb.timeline(claims)
nb.table(claims, "a_reads")

# %% [markdown]
# **Why.** Between choosing and marking nobody can come in: it is one statement, and it holds the row's lock from the choice to
# the commit. From then on the mark does what the lock did.
#
# ## Why not SELECT, COMMIT, then UPDATE?
# The same three parts, one after the other.

# %%
nb.sql("04_select_commit_update", "a_chooses", "a_commits")
nb.ask("04_select_commit_update", "b_chooses")
guess = ...  # a document's number, or "none"

# %%
apart = nb.play("04_select_commit_update", work={"a_marks": 0.3})
nb.answer(guess, apart["b_chooses"].value)
nb.claim("04_select_commit_update", apart)
nb.timeline(apart)
nb.table(apart, "a_reads")

# %% [markdown]
# **Why.** A's lock ended with its transaction, and its mark is not written yet. Between the two, document 1 is pending and free.
#
# ## Ten connections, released together
# 200 documents; each session claims until it gets none. First the claim in one statement, then the three parts. Who gets how
# many is chance; only the totals say something. How many claims too many does the second race make?
# *Quantas reservas a segunda corrida faz a mais?*

# %%
guess = ...  # a number of claims

# %%
races = {
    "the claim in one statement": nb.compete(documents=200),
    "SELECT, COMMIT, UPDATE": nb.compete(documents=200, claim="select_commit_update"),
}
nb.answer(guess, races["SELECT, COMMIT, UPDATE"].duplicates)
nb.shares(races)
nb.totals(races)

# %%
nb.observe("04.ten_connections")

# %% [markdown]
# **Why.** In one statement the choice is locked until it is marked. In three, nine others look into every gap.
#
# ## Change one argument: without SKIP LOCKED
# The same claim, and each session works 10 ms on a document inside its transaction. Nothing is taken twice either way; guess
# how many times as long the race takes that waits. *Quantas vezes mais demora a corrida que espera?*

# %%
guess = ...  # times as long

# %%
slow = {
    "SKIP LOCKED": nb.compete(sessions=10, documents=60, claim="skip_locked", work=0.01),
    "FOR UPDATE": nb.compete(sessions=10, documents=60, claim="for_update", work=0.01),
}
ratio = slow["FOR UPDATE"].seconds / slow["SKIP LOCKED"].seconds
nb.answer(guess, round(ratio))
nb.totals(slow)

# %% [markdown]
# **Why.** Without `SKIP LOCKED` all ten stand before the same oldest document, so one works at a time. With it, ten do. The
# ratio is that of one run, on one machine; change `sessions` or `work` and see it move.
#
# ## Work outside, end in a short transaction
# Claim, commit, work, write the outcome.

# %%
nb.ask("04_work_outside", "c_during_work")
guess = ...  # a number of locks

# %%
outside = nb.play("04_work_outside", work={"a_commits": 0.1, "a_finishes": 0.8})
nb.answer(guess, outside["c_during_work"].one("bloqueios_de_a"))
nb.claim("04_work_outside", outside)
nb.timeline(outside)

# %% [markdown]
# **Why.** What keeps B from document 1 is the mark. The dotted stretch of A's lane is its work: no transaction, no lock.
#
# ## A small batch
# The same claim with `LIMIT 10`. A is first; then B asks for as many.

# %%
nb.ask("04_batch", "b_claims")
guess = ...  # a number of documents

# %%
batch = nb.play("04_batch")
nb.answer(guess, len(batch["b_claims"].rows))
nb.claim("04_batch", batch)

# %% [markdown]
# **Why.** `LIMIT` says how many at most, and A was given all there were. They now wait for one consumer, each behind those
# before it (lesson 15, to come, measures how many are too many).
#
# ## Only the owner ends it
# A owns document 1. B sends the very statement that A would send.

# %%
nb.ask("04_outcome", "b_finishes_foreign")
guess = ...  # a number of rows

# %%
ended = nb.play("04_outcome")
nb.answer(guess, len(ended["b_finishes_foreign"].rows))

# %%
nb.sql("04_outcome", "a_finishes", "b_fails")
nb.ask("04_outcome", "a_finishes_again")
guess = ...  # a number of rows

# %%
nb.answer(guess, len(ended["a_finishes_again"].rows))
nb.claim("04_outcome", ended)
nb.table(ended, "c_reads")

# %% [markdown]
# **Why.** The outcome is guarded by id, state and worker. Zero rows is the answer that says: not yours, or not any more; a
# worker has to look at that number. A claim also clears what an earlier attempt left behind:

# %%
nb.ask("04_fields", "a_between")
guess = ...  # the error that is left, or "none"

# %%
fields = nb.play("04_fields")
nb.answer(guess, fields["a_between"].column("ultimo_erro")[0])
nb.claim("04_fields", fields)
nb.table(fields, "a_after")

# %% [markdown]
# **What a production queue does.** Exactly these five steps: claim, commit, work outside, a short transaction for the outcome,
# the next one. Then it needs what is missing here: a worker that dies after its commit leaves its document in `processando`
# for ever (below). That is the lease of lesson 05; and a worker's name is no proof of ownership, which is the token of lesson 06.
#
# **What we simplified.** Work is a pause. A document's outcome is a state, with no effect on the world outside (lesson 09).
#
# ## Surprises

# %%
nb.surprises("04")

# %% [markdown]
# **Next:** 05, the lease: what happens when A does not come back.
