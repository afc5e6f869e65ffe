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
# # 07 · The heartbeat
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

nb.begin("07")

# %% [markdown]
# ## The work is longer than the lease
# The work takes eight minutes, the lease lasts six. Time passes on the lab's clock, which a session moves on. A is well,
# and at work. No worker has crashed.

# %%
nb.sql("07_too_short", "a_claims", "c_waits", "c_recovers", "b_claims", "a_acts", "a_finishes")
nb.ask("07_too_short", "c_counts")
guess = ...  # a number of effects

# %%
short = nb.play("07_too_short")
nb.answer(guess, short["c_counts"].one("efeitos"))
nb.claim("07_too_short", short)
nb.ownership(short)
nb.events(short)

# %% [markdown]
# **Why.** From outside, slow and dead look alike. The token refuses A's finish, so the table is right; but the effect was out in
# the world before. A fence guards the row, not the world.
#
# ## The same work, renewed
# H is A's heartbeat: a second connection, which does nothing but call `renovar` with A's token.

# %%
nb.sql("07_renewed", "h_beats", "c_waits_more", "c_recovers")
nb.ask("07_renewed", "b_claims")
guess = ...  # a document's number

# %%
renewed = nb.play("07_renewed")
nb.answer(guess, renewed["b_claims"].one("documento_id"))
nb.claim("07_renewed", renewed)
nb.ownership(renewed)
nb.table(renewed, "c_counts")

# %% [markdown]
# **Why.** A deadline is a promise that can be renewed. Each beat says "alive" to every session that looks at the row, so the lease need
# not guess how long the work takes.
#
# ## Whose renewal counts?
# The renewal asks for document and token, as every outcome does. Five renewals: one by the owner, four by others or too late.

# %%
nb.ask("07_only_owner", "a_renews_late")
guess = ...  # how many rows it changes

# %%
owner = nb.play("07_only_owner")
nb.answer(guess, len(owner["a_renews_late"].rows))
nb.claim("07_only_owner", owner)
nb.events(owner)

# %% [markdown]
# **Why.** Zero rows is an order: stop, the document is not yours. A heartbeat that ignores it is of no use. (A lease that has
# passed may still be renewed as long as no worker took the document over: lesson 06 shows why that is safe.)
#
# ## Not for ever
# The heartbeat has a connection, perhaps a thread, of its own. So it goes on beating when the work hangs.

# %%
nb.ask("07_maximum", "h_beats_at_12")
guess = ...  # yes or no

# %%
longest = nb.play("07_maximum")
nb.answer(guess, longest["h_beats_at_12"].one("no_limite"))
nb.ask("07_maximum", "h_beats_at_15")
guess = ...  # a number of rows

# %%
nb.answer(guess, len(longest["h_beats_at_15"].rows))
nb.claim("07_maximum", longest)
nb.ownership(longest)

# %% [markdown]
# **Why.** `renovar` never sets a deadline beyond `iniciado_em + tempo_maximo()`. At minute 12 it asked for five minutes and got
# three; from minute 15 on it gets nothing, and the recovery takes the document like any other that is late.
#
# ## How long a lease?
# Long enough for the work, or it runs twice; no longer, or a dead worker's document lies idle. So measure. One worker takes 400
# documents through the queue; its work is a sleep of 3 ms as a rule, and five times that for one in a hundred. One half of the
# documents gives the leases, the other half is to judge them. The budget is the time that 99 of 100 works take, and a margin for
# network and scheduling. But first: how many of 200 outlive a lease of the median?
# *De 200 documentos, quantos passam de um prazo igual à mediana?*

# %%
guess = ...  # a number of documents

# %%
import pandas as pd

from lab.experiments import lease_budget

measured = lease_budget.measure(nb.stage().conninfo, documents=400)
planned, judged = measured.halves
leases = {
    "median": lease_budget.percentile(planned.held, 50),
    "95 of 100": lease_budget.percentile(planned.held, 95),
    "the budget": planned.lease,
    "ten times the budget": 10 * planned.lease,
}
rows = []
for name, lease in leases.items():
    rows.append((name, f"{1000 * lease:.1f} ms", judged.overruns(lease)))
nb.answer(guess, judged.overruns(leases["median"]))
columns = ["lease", "lease lasts", "documents that outlast it"]
pd.DataFrame(rows, columns=columns).set_index("lease")

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(8.3, 2.6), layout="constrained")
axes.hist([1000 * seconds for seconds in judged.held], bins=60, color="#9bbbd6")
red = "#c0392b"
top = axes.get_xaxis_transform()
for name, lease in list(leases.items())[:3]:
    axes.axvline(1000 * lease, color=red, linewidth=1.2)
    axes.text(1000 * lease, 0.96, f" {name}", transform=top, va="top", size=8, color=red)
axes.set_xlim(right=1150 * max(planned.lease, *judged.held))
axes.set_xlabel("ms from claim to finish, by the database's clock")
axes.set_ylabel("documents")
axes.yaxis.set_major_locator(plt.MaxNLocator(integer=True))
axes.spines[["top", "right"]].set_visible(False)

# %%
nb.observe("07.budget")

# %% [markdown]
# **Why.** A lease without a heartbeat has to cover the longest work. With one it has to cover a few beats, so that one lost
# beat costs nothing: beat every third of the lease, and let the maximum run time bound the work.
#
# **What a production queue does.** A lease of a minute or so, a heartbeat on a connection of its own, the worker stopped as soon as
# a beat changes no row, and an effect that bears being asked for twice all the same (lesson 09).
#
# **What we simplified.** The lab moves its clock; no session waits for eight minutes. The measured work sleeps.
#
# ## Surprises

# %%
nb.surprises("07")

# %% [markdown]
# **Next:** 08, failures: what is worth trying again, and when.
