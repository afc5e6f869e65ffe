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
# # 05 · Lease
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

nb.begin("05")

# %% [markdown]
# ## A worker dies after its commit
# From here on the claim is a function, `reservar`, and writes a deadline. Time passes on the lab's own clock, which can be moved.
# A day after A's death B asks for ten documents.

# %%
nb.sql("05_orphan", "a_claims", "c_kills", "c_moves")
nb.ask("05_orphan", "b_claims")
guess = ...  # a number of documents

# %%
orphan = nb.play("05_orphan")
nb.answer(guess, len(orphan["b_claims"].rows))
nb.claim("05_orphan", orphan)
nb.table(orphan, "c_looks")

# %% [markdown]
# **Why.** The mark outlives the worker; that was its purpose. A deadline is no lock and stops nobody. It only tells whoever
# looks that the worker is late.
#
# ## Who is late?
# The status says how many are in work, and says the same whoever is dead:

# %%
deadline = nb.play("05_deadline")
nb.sql("05_deadline", "c_moves")
nb.table(deadline, "c_status")

# %%
nb.ask("05_deadline", "c_after")
guess = ...  # a number of orphans

# %%
nb.answer(guess, deadline["c_after"].one("orfaos"))
nb.claim("05_deadline", deadline)
nb.table(deadline, "c_after")

# %% [markdown]
# **Why.** A status is what somebody wrote; a dead worker writes nothing more. A deadline was written beforehand, and passes by
# itself. That view is the query to put on a wall: waiting, running, orphaned, and how late the latest is.
#
# ## Everything back to pendente
# A is dead, B alive and within its time. The operator puts everything back.

# %%
nb.ask("05_blanket", "o_resets")
guess = ...  # a number of leases

# %%
blanket = nb.play("05_blanket")
nb.answer(guess, blanket["o_resets"].column("ainda_valia").count("t"))
nb.claim("05_blanket", blanket)
nb.ownership(blanket)
nb.table(blanket, "o_resets")

# %% [markdown]
# **Why.** `processando` says that somebody works, not that he is late, so B's document went back with A's. See B's lane: it worked
# to the end, and its finish changed zero rows, since C has the document.
#
# ## Recovery as a policy
# Who is late, how many at a time, how many attempts, and why: all of it is said in the call.

# %%
nb.ask("05_recover", "o_recovers")
guess = ...  # a document's number

# %%
recover = nb.play("05_recover")
nb.answer(guess, recover["o_recovers"].value)
nb.claim("05_recover", recover)
nb.table(recover, "o_looks")

# %% [markdown]
# **Why.** B was never asked. Document 1 keeps its attempts, so that one that kills its workers does not come back for ever.
#
# ## How long a lease?
# A worker dies at once; recovery looks every ten seconds. For how many seconds does its document wait? Change the leases, or
# `every`. *Por quantos segundos o documento espera? Mude os prazos.*

# %%
guess = ...  # seconds, with the lease of an hour

# %%
import pandas as pd

from lab.experiments import clock_skew

delays = {
    length: round(clock_skew.recovery_delay(nb.stage(), length, every="10 seconds") / 10) * 10
    for length in ("30 seconds", "5 minutes", "1 hour")
}
nb.answer(guess, delays["1 hour"])
pd.DataFrame({"seconds until recovered": delays}).rename_axis("lease")

# %%
nb.observe("05.lease_length")

# %% [markdown]
# **Why.** Nobody sees the death, only the deadline: the document waits for its lease to end, and then for the next look.
#
# ## Workers whose clocks are wrong
# Three workers, one two hours slow, one two hours fast, take sixty documents. First each computes its deadlines itself; how many
# leases have ended as soon as they are written? *Quantas reservas já nascem vencidas?*

# %%
guess = ...  # a number of leases

# %%
clocks = {
    "the workers' clocks": clock_skew.deadlines(nb.stage(), own_clocks=True),
    "the database's clock": clock_skew.deadlines(nb.stage(), own_clocks=False),
}
nb.answer(guess, clocks["the workers' clocks"].born_expired)
pd.DataFrame([vars(seen) for seen in clocks.values()], index=list(clocks))

# %%
nb.observe("05.skewed_clocks")

# %% [markdown]
# **Why.** A worker says for how long, never until when; and who is late is judged by the same clock that set the deadline.
#
# ## Which of the database's clocks?

# %%
nb.sql("05_frozen_now", "a_begin", "a_reads", "b_reads", "a_reads_again")
nb.ask("05_frozen_now", "a_compares")
guess = ...  # by now(): yes or no

# %%
frozen = nb.play("05_frozen_now")
nb.answer(guess, frozen["a_compares"].one("futuro_pelo_now"))
nb.claim("05_frozen_now", frozen)
nb.table(frozen, "a_counts")

# %% [markdown]
# **Why.** `now()` names the moment at which the transaction began, so that all its statements agree on one time. Whoever waits for
# something inside a transaction needs the clock that goes on.
#
# **What a production queue does.** One clock, the database's; a deadline with every claim; a recovery job that runs every few
# seconds; and the view on a wall. What is still missing: A may only have been slow. When it comes back, its name is still a
# valid guard wherever the same name holds the document. That is the token of lesson 06.
#
# **What we simplified.** A death is a connection cut, or silence. A lease too short is the subject of lesson 07.
#
# ## Surprises

# %%
nb.surprises("05")

# %% [markdown]
# **Next:** 06, the token: what A may still do when it comes back late.
