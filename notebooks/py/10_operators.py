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
# # 10 · Operators
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

nb.begin("10")

# %% [markdown]
# ## Document 1 is to be put out of the way
# An operator, O, looks first: `examinar` shows version, attempts, worker, lease, stage and key, and changes nothing. A is at
# work. Then A's lease ends, and O sends the very same command again.

# %%
nb.sql("10_pause", "o_examines")
nb.ask("10_pause", "o_pauses")
guess = ...  # a number of rows

# %%
paused = nb.play("10_pause")
nb.answer(guess, len(paused["o_pauses"].rows))
nb.table(paused, "o_examines")

# %%
nb.ask("10_pause", "o_pauses_orphan")
guess = ...  # a number of rows

# %%
nb.answer(guess, len(paused["o_pauses_orphan"].rows))
nb.ask("10_pause", "a_finishes")
guess = ...  # a number of rows

# %%
nb.answer(guess, len(paused["a_finishes"].rows))
nb.claim("10_pause", paused)
nb.ownership(paused)
nb.events(paused)

# %% [markdown]
# **Why.** While a lease lives, its worker may be in the middle of a call: the document may not be taken away. Once it has ended,
# the pause voids the token, as a take-over does, and whatever A still sends fits no row.
#
# ## "Just set everything back to pendente"
# Two workers live, two documents in work. An operator thinks that the queue hangs, and types the `UPDATE` of `reset.sql`.
# *Dois workers vivos, dois documentos em andamento, e alguém digita o `UPDATE` do `reset.sql`.*

# %%
nb.sql("10_blind_reset", "o_recovers", "o_pauses", "o_resets")
nb.ask("10_blind_reset", "o_counts")
guess = ...  # a number of effects

# %%
blind = nb.play("10_blind_reset")
nb.answer(guess, blind["o_counts"].one("efeitos"))
nb.claim("10_blind_reset", blind)
nb.table(blind, "o_audits")

# %% [markdown]
# **Why.** The `UPDATE` asks for a state, and a state does not say who lives. `recuperar` asks for the deadline and took nothing.
# The audit shows two claims of document 1 and nothing between them: who did it, and why, is lost.
#
# ## As it was seen, or not at all
# O looks at document 1: `pendente`, version 0. While O ponders, A tries it and fails; it is `pendente` again.

# %%
nb.sql("10_commands", "o_gives_no_reason")
nb.ask("10_commands", "o_pauses_what_was_seen")
guess = ...  # a number of rows

# %%
commands = nb.play("10_commands")
nb.answer(guess, len(commands["o_pauses_what_was_seen"].rows))
nb.claim("10_commands", commands)
nb.table(commands, "o_audits")

# %% [markdown]
# **Why.** The state is the same, the document is not: one attempt more, and an error to read. A version never comes back, so a
# command that names it acts on what was seen, or on nothing. Sent twice, it acts once.
#
# ## A result that people found
# A was about to call, got no answer, and could not ask.

# %%
nb.ask("10_reconcile", "o_examines")
guess = ...  # the operation key

# %%
found = nb.play("10_reconcile")
nb.answer(guess, found["o_examines"].one("chave_operacao"))
nb.claim("10_reconcile", found)
nb.table(found, "o_examines_again")

# %% [markdown]
# **Why.** The key is the one name that queue and receiver share, and it is the same at every attempt. What was found is confirmed
# with its reference, by the version that was seen: a second confirmation changes nothing.
#
# ## Who may do what
# Four roles: the application enqueues, the worker runs the protocol, the operator commands, the reader reads. Each then tries
# everything else in the schema: every function; reading, changing, emptying and locking every table. How many of these
# attempts get through? *Quantas dessas tentativas passam?*

# %%
guess = ...  # a number of attempts

# %%
tried = nb.facts("10.permissions")
nb.answer(guess, tried["tried"] - tried["refused"] if tried else "not run")

# %% [markdown]
# **Why.** A worker that may `UPDATE` the table can skip every guard of it. So it may not touch the table: it may call functions,
# which run as their owner (`SECURITY DEFINER`), with a fixed `search_path`, and revoked from everyone else.
#
# ## Before a deployment
# `./lab check-permissions` does all that the protocol asks of the service accounts, on a document and a tenant of its own, and
# rolls it back. Meanwhile another worker asks for the four live documents. How many does it get?
# *Enquanto isso, outro worker pede os quatro documentos vivos. Quantos recebe?*

# %%
guess = ...  # a number of documents

# %%
checked = nb.facts("10.check_permissions")
nb.answer(guess, checked.get("claimed", "not run"))

# %% [markdown]
# **Why.** The row it works on is its own and never committed, so no session meets it. And a missing grant is named before the first
# document needs it.
#
# Revoke another grant, or two, and see what the check says. *Revogue outro direito, ou dois, e veja o que a verificação diz.*

# %%
import psycopg

from lab.base.errors import LabError
from lab.protocol import permissions

with nb.stage().connection() as owner, owner.transaction(force_rollback=True):
    try:
        owner.execute("REVOKE EXECUTE ON FUNCTION renovar FROM sql_semana_12_worker")
        print(*permissions.check(owner).missing, sep="\n")
    except (LabError, psycopg.errors.UndefinedObject) as reason:
        print(reason)  # where this user may not make roles

# %% [markdown]
# **What a production queue does.** It gives people commands, not `UPDATE`; it shows them the row before; it writes down who and
# why. Its service accounts are members of such roles, and the check runs in the pipeline. `./lab top` shows the view `situacao`.
#
# **What we simplified.** Who commands is a text that the caller gives: a real system takes it from the login. Roles know no
# tenants here. The reader sees payloads too. In the scenarios for psql what people find at the receiver (`R-4711`) is written into the
# script; the drills of lesson 09 ask a real one.
#
# ## Surprises

# %%
nb.surprises("10")

# %% [markdown]
# **Next:** 11, races (to come): what else goes wrong when two come at once.
