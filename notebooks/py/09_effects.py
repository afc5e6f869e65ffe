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
# # 09 · Effects
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

nb.begin("09")

# %% [markdown]
# ## Work inside the database
# A books a value in another table and finishes, in one transaction. Its connection is cut before the `COMMIT`.

# %%
nb.sql("09_inside", "a_books", "a_finishes", "c_kills")
nb.ask("09_inside", "c_reads")
guess = ...  # a number of entries

# %%
inside = nb.play("09_inside")
nb.answer(guess, inside["c_reads"].one("lancamentos"))
nb.claim("09_inside", inside)
nb.table(inside, "c_counts")

# %% [markdown]
# **Why.** What can be rolled back needs nothing of what follows: work and finish are one transaction. The rest of this lesson is
# about what cannot.
#
# ## Work outside: unknown to the queue
# A writes down that it is about to call, calls, and is never heard of again. B takes over and finishes, just like that.

# %%
nb.sql("09_unknown", "a_records", "c_recovers", "b_claims")
nb.ask("09_unknown", "b_finishes_blindly")
guess = ...  # row, none or error

# %%
unknown = nb.play("09_unknown")
blind = unknown["b_finishes_blindly"]
nb.answer(guess, "error" if blind.sqlstate else "row" if blind.rows else "none")
nb.ownership(unknown)
nb.sql("09_unknown", "b_records", "b_finishes")
nb.claim("09_unknown", unknown)
nb.table(unknown, "c_reads")

# %% [markdown]
# **Why.** The lease says that A is late, never that its call was not executed. Two things outlive A: the stage, which says that a
# call may be out, and the key of the operation, the same at every attempt, by which the receiver can be asked.
#
# ## When no attempt is left
# Three documents had one attempt, and it is over.

# %%
nb.sql("09_exhausted", "a_calls_second", "a_calls_third", "a_obtains_third")
nb.ask("09_exhausted", "c_recovers")
guess = ...  # falhou, conciliacao or concluido

# %%
exhausted = nb.play("09_exhausted")
nb.answer(guess, exhausted["c_recovers"].column("status")[1])
nb.claim("09_exhausted", exhausted)
nb.table(exhausted, "c_reads")

# %% [markdown]
# **Why.** "No attempt left" says nothing about the world outside; the stage does. What was never called may fail, what has its
# result is finished, and of the one between the two only the receiver knows, so people have to ask.
#
# ## Now real ones are killed
# Four documents, a receiver in a process of its own with a ledger of its own, and workers (`./lab worker`) that are killed with
# SIGKILL at the worst moments. What counts is what stands in the queue's tables and the receiver's ledger when all have ended.
# A worker is killed after its call. How many effects does the receiver execute for the four documents?
# *Quantos efeitos o receptor executa para os quatro documentos?*

# %%
guess = ...  # a number of effects

# %%
kills = nb.drill("kill_before_commit", "kill_after_claim", "kill_before_call", "kill_after_call")
nb.answer(guess, kills["kill_after_call"].effects)
nb.claim("09.killed_workers", kills)
nb.outcomes(kills)

# %% [markdown]
# **Why.** Before the commit the server rolls the claim back. After it the lease ends, and the worker that takes over looks at the stage:
# not called, so it calls; unknown, so it asks. (The lab's clock is moved past the lease, so that no worker waits for it.)
#
# ## A true zombie
# SIGSTOP stops a worker just before its call; another one takes over and finishes everything; SIGCONT. The worker knows of nothing:
# it sends its call. What stops it? *O que o impede?*

# %%
guess = ...  # token, key or none

# %%
zombies = nb.drill("zombie", "zombie_after_call")
sent = zombies["zombie"]
twice = sent.effects > sent.documents
nb.answer(guess, "none" if twice else "key" if sent.repeated_calls else "token")
nb.claim("09.zombies", zombies)
nb.outcomes(zombies)

# %% [markdown]
# **Why.** A fence in the database cannot stop a call that is on its way: it is the receiver that knows the key and gives the first
# result back. The token then refuses what the zombie writes.
#
# ## Change one argument
# The same zombie, and a receiver that knows no keys. Then stop it elsewhere: `locked`, `claimed`, `called`, `obtained`; or kill it.

# %%
guess = ...  # a number of effects

# %%
keyless = nb.interrupt("calling", killed=False, keys=False)
nb.answer(guess, keyless["calling"].effects)
nb.outcomes(keyless)

# %% [markdown]
# ## Take the defences away
# One at a time, in the situation that each is made for; what is taken from the protocol is taken from a copy of it. A cell is the
# number of documents damaged. First the stage: a worker is killed after its call, and the receiver knows no keys, but can be asked.
# Of four documents, how many are damaged without the stage? *De quatro documentos, quantos são danificados sem a etapa?*

# %%
guess = ...  # a number of documents

# %%
live = nb.defences("stage")
nb.answer(guess, live.row("stage").without_it.total)
nb.claim("09.defence_matrix", live)
nb.damage(live)

# %% [markdown]
# And all of them, as recorded in `data/expected/09_effects/defence_matrix.json`: not run now.
# `nb.damage(nb.defences())` holds them live, which takes a minute or so.
# *Todas, como foram gravadas; `nb.damage(nb.defences())` roda todas ao vivo, em um minuto ou mais.*

# %%
from lab.drills.ablation import recorded

nb.damage(recorded())

# %% [markdown]
# **Why.** None of them does another's work. Lease and recovery find what is orphaned. The token fences the table, the key the world
# outside. The stage replaces a blind call by a question, which is all there is where a receiver knows no keys. Zero rows, obeyed,
# keep a worker from calling for what it has lost. The heartbeat tells slow from dead. The savepoint keeps one document's failure its own.
#
# **What a production queue does.** The same stages and one key an operation, sent with every attempt. It asks before it calls
# again, keeps keys for longer than documents (lesson 20, to come), and gives what cannot be known to people (lesson 10).
#
# **What we simplified.** One receiver, on the same machine; it keeps its ledger for ever. A call has one effect and no reversal.
# In the scenarios for psql what the receiver answers is written into the script (`R-000001`); the drills ask a real one.
#
# ## Surprises

# %%
nb.surprises("09")

# %% [markdown]
# **Next:** 10, operators: pause, resume, confirm, requeue, and who may do what.
