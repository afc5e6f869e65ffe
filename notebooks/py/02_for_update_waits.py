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
# # 02 · FOR UPDATE waits
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

nb.begin("02")

# %% [markdown]
# ## B asks for the oldest pending document
# Four documents are pending. A takes the oldest; then B asks, and will not wait longer than two seconds.
# Guess a number, or `"none"`.

# %%
nb.sql("02_lock_timeout", "a_takes", "b_limit")
nb.ask("02_lock_timeout", "b_asks")
guess = ...  # a document's number, or "none"

# %%
limited = nb.play("02_lock_timeout")
nb.answer(guess, limited["b_asks"].value)
nb.timeline(limited)
nb.claim("02_lock_timeout", limited)

# %%
nb.events(limited)

# %% [markdown]
# **Why.** The query finds its rows in order and locks each as it finds it; `LIMIT` counts the rows that it could lock. The
# first row is document 1, so B stands before it and never comes to look at 2, 3 and 4. `lock_timeout` ends the statement with
# 55P03 (`lock_not_available`); it does not send B on to the next row.
#
# ## Without a timeout: what ends the wait?
# Now B sets no limit. A keeps its document for half a second and gives up.

# %%
nb.ask("02_rollback", "a_gives_up")
guess = ...  # a document's number, or "none"

# %%
gives_up = nb.play("02_rollback", work={"a_gives_up": 0.5})
nb.answer(guess, gives_up["b_asks"].value)

# %% [markdown]
# And if A marks the document as its own, and commits?

# %%
nb.sql("02_commit", "a_marks")
nb.ask("02_commit", "b_asks")
guess = ...  # a document's number, or "none"

# %%
commits = nb.play("02_commit", work={"a_commits": 0.5})
nb.answer(guess, commits["b_asks"].value)
nb.timeline(gives_up, commits, titles=("A rolls back", "A marks document 1 and commits"))
nb.claim("02_rollback", gives_up)
nb.claim("02_commit", commits)

# %% [markdown]
# **Why.** B waits for the end of A's transaction, whatever it is. Then it reads the newest version of the row once more and
# asks whether the row still fits. After a rollback it does; after the commit it is no longer pending, and B moves on.
#
# ## Who waits for whom
# A third session asks the server while B hangs. Guess the `locktype`: `"row"`, `"tuple"`, `"relation"` or `"transactionid"`?

# %%
nb.ask("02_third_session", "c_looks")
guess = ...  # a locktype: "tuple", "transactionid", "relation" …

# %%
watched = nb.play("02_third_session")
nb.answer(guess, watched["c_looks"].one("locktype"))
nb.claim("02_third_session", watched)
nb.table(watched, "c_looks")

# %% [markdown]
# **Why.** A row lock is a mark in the row itself, which names A's transaction. Whoever meets the mark waits for that
# transaction, so this is the lock that the server knows of.
#
# ## Change one argument: how many sessions
# Each session keeps its document for 0.3 s and commits, without marking it. How long does the last of four wait?
# *Quanto tempo espera a última de quatro sessões?* Then change `sessions`, or set `skip_locked=True`.

# %%
chain = nb.queue_up(sessions=4, skip_locked=False, work=0.3)
nb.timeline(chain)

# %%
longer = nb.queue_up(sessions=6, skip_locked=False, work=0.3)
last = longer["f_asks"].seconds / longer["b_asks"].seconds
print(f"six sessions: the last one waited {last:.1f} times as long as the second")

# %% [markdown]
# **Why.** B waits for A's transaction, and holds a place in line that C waits for, and D behind C. Four workers are as fast as
# one. And since nobody marks it, all of them get document 1.
#
# ## When waiting is right
# Two buyers share a balance of 100.00, and there is no second one to take instead. First without a lock.
# Guess `"yes"` or `"no"`.

# %%
nb.ask("02_balance_unlocked", "b_spends")
guess = ...  # "yes" or "no"

# %%
unlocked = nb.play("02_balance_unlocked")
nb.answer(guess, "no" if unlocked["b_spends"].rows else "yes")
nb.claim("02_balance_unlocked", unlocked)

# %%
nb.sql("02_balance_waits", "b_reads")
nb.ask("02_balance_waits", "a_commits")
guess = ...  # a balance, as 100.00

# %%
balance = nb.play("02_balance_waits", work={"a_spends": 0.5})
nb.answer(guess, balance["b_reads"].value)
nb.timeline(balance)
nb.claim("02_balance_waits", balance)

# %% [markdown]
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

# %%
nb.surprises("02")

# %% [markdown]
# **Next:** 03, two words more, and B passes.
