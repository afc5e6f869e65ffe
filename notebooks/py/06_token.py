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
# # 06 · The token
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

nb.begin("06")

# %% [markdown]
# ## Two processes of one name
# Lesson 05 guards an outcome by id, state and worker name. A, which is `worker-a`, stalls; its lease ends; `worker-a` is
# restarted, and the new process, B, takes the document. Then the old one wakes up.

# %%
nb.sql("06_same_name", "c_waits", "c_recovers", "b_claims")
nb.ask("06_same_name", "a_finishes")
guess = ...  # a number of rows

# %%
named = nb.play("06_same_name")
nb.answer(guess, len(named["a_finishes"].rows))
nb.claim("06_same_name", named)
nb.table(named, "c_reads")

# %% [markdown]
# **Why.** The guard asks what the row says of its owner, and both say the same of themselves. B had found the document bad; its
# failure changed no row, and B must think that it is no longer the owner.
#
# ## The same story with a token
# Now every claim takes a number from a sequence, and outcomes name that number. B bears A's name again.

# %%
nb.sql("06_late_writes", "b_claims")
nb.ask("06_late_writes", "a_finishes")
guess = ...  # a number of rows

# %%
fenced = nb.play("06_late_writes")
nb.answer(guess, len(fenced["a_finishes"].rows))
nb.ownership(fenced)
nb.claim("06_late_writes", fenced)
nb.events(fenced)

# %% [markdown]
# **Why.** The recovery has voided token 1, and B's claim has put 2 in its place. Nothing that A knows fits the row any more, no
# matter how late A comes, and whether it finishes, fails or renews. Zero rows is its order to stop.
#
# ## By your WHERE clause
# Seven guards, each tried in five situations; each time a late worker writes that it failed. A cell is the number of rows it
# changed. In how many of the five does `id + status + worker` let it through? *Em quantas das cinco situações a escrita passa?*

# %%
guess = ...  # a number from 0 to 5

# %%
table = nb.truth_table()
through = table[table["guard"] == "… AND worker = …"].iloc[0, 1:6]
nb.answer(guess, sum(cell != "0" for cell in through))
table.set_index("guard")

# %%
nb.observe("06.truth_table", "06.token_and_version")

# %% [markdown]
# **Why.** State, name and attempt describe the row, and a row can come to look the same twice. A token names one claim. So does
# a version that is never reset; but it moves with every change, so its owner must be told of each one or locks itself out.
#
# ## Change one argument: your own WHERE clause
# Many trust the deadline: "I write only while the lease holds." But whose lease? A worker may put in what its claim gave it:
# `documento_id`, `worker_id`, `tentativas`, `versao`, `token_reserva`. *Teste a cláusula da sua fila.*

# %%
by_id = "documento_id = %(documento_id)s"
nb.truth_table(
    f"{by_id} AND reservado_ate > relogio()",
    f"{by_id} AND worker_id = %(worker_id)s AND reservado_ate > relogio()",
    f"{by_id} AND status = 'processando' AND token_reserva = %(token_reserva)s",
)

# %% [markdown]
# **Why.** The deadline that A finds in the row is B's. The last clause is that of the lab's functions: token and state.
#
# ## Late, but not taken over
# A's lease ended half a minute ago, and no recovery has come by. A renews.

# %%
nb.sql("06_not_taken_over", "c_looks")
nb.ask("06_not_taken_over", "a_renews")
guess = ...  # a number of rows

# %%
late = nb.play("06_not_taken_over")
nb.answer(guess, len(late["a_renews"].rows))
nb.claim("06_not_taken_over", late)
nb.table(late, "c_reads")

# %% [markdown]
# **Why.** A deadline tells others when they may take over; it takes nothing away by itself. As long as the token stands, no other
# worker has had the document, so there is nothing to destroy. If the recovery comes at the same moment, the row's lock decides.
#
# ## What the audit says
# Document 1 has seen a good deal: what is written down of it?

# %%
nb.sql("06_audit", "a_renews", "a_reads")
nb.ask("06_audit", "c_audits")
guess = ...  # a number of rows

# %%
audited = nb.play("06_audit")
nb.answer(guess, len(audited["c_audits"].rows))
nb.claim("06_audit", audited)
nb.table(audited, "c_audits")

# %% [markdown]
# **Why.** A renewal moves a deadline and a refused write moves nothing: neither is a change of state. The audit is where a refused
# worker learns what became of its token (or that its finish had got through, and only the answer was lost):

# %%
nb.sql("06_audit", "a_asks")
nb.table(audited, "a_asks")

# %% [markdown]
# **What a production queue does.** It fences every write of an outcome and every heartbeat by a token from one place, looks at the
# number of rows changed, and leaves one row of audit a change. A fence guards the database only: what A sent to
# the outside world before it was refused has been sent (lesson 09).
#
# **What we simplified.** Time passes on the lab's clock. The truth table writes one outcome, a failure; a restarted worker is a
# session of the same name. The crash below is a killed server; a promoted standby was not tried.
#
# ## Surprises

# %%
nb.surprises("06")

# %% [markdown]
# **Next:** 07, the heartbeat: how a worker keeps a document longer than one lease, and for how long it may.
