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
# # 03 · SKIP LOCKED passes
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

nb.begin("03")

# %% [markdown]
# ## The same two sessions, two words more
# A takes the oldest document and works on it. B asks with the same query, and a `lock_timeout` of two seconds as before.

# %%
nb.ask("03_passes", "b_asks")
guess = ...  # a document's number, or "none"

# %%
passes = nb.play("03_passes", work={"b_ends": 0.5, "a_ends": 1.0})
nb.answer(guess, passes["b_asks"].value)
nb.claim("03_passes", passes)
nb.timeline(
    nb.play("02_lock_timeout"),
    passes,
    titles=("FOR UPDATE (lesson 02)", "FOR UPDATE SKIP LOCKED"),
)

# %% [markdown]
# **Why.** The query still finds document 1 first. It cannot lock it at once, so it drops it and goes on; the first row that it
# can lock is document 2. No time passes, and no timeout is needed.
#
# ## Change one argument
# Four sessions, each with 0.3 s of work in its transaction. Waiting they take turns, passing they work side by side.

# %%
nb.timeline(
    nb.queue_up(sessions=4, skip_locked=False, work=0.3),
    nb.queue_up(sessions=4, skip_locked=True, work=0.3),
    titles=("skip_locked=False", "skip_locked=True"),
)

# %% [markdown]
# And six sessions for four documents? Guess what the sixth gets. *E seis sessões para quatro documentos? O que a sexta recebe?*

# %%
guess = ...  # a document's number, or "none"

# %%
six = nb.queue_up(sessions=6, skip_locked=True, work=0.3)
nb.answer(guess, six["f_asks"].value)
nb.timeline(six)

# %% [markdown]
# ## Zero rows is not an empty queue
# A locks all four.

# %%
nb.ask("03_all_locked", "b_asks")
guess = ...  # a document's number, or "none"

# %%
locked = nb.play("03_all_locked")
nb.answer(guess, locked["b_asks"].value)
nb.ask("03_all_locked", "b_counts")
guess = ...  # the number of documents a plain count finds

# %%
nb.answer(guess, locked["b_counts"].value)
nb.claim("03_all_locked", locked)

# %% [markdown]
# **Why.** `SKIP LOCKED` passes what it cannot lock, so zero rows may mean empty, locked, or taken. One query tells
# which; here three are locked by A and one is processed by C.

# %%
nb.sql("03_why_zero", "b_explains")
why = nb.play("03_why_zero")
nb.claim("03_why_zero", why)
nb.table(why, "b_explains")

# %% [markdown]
# ## How to lose the whole queue at once
# A forgets `LIMIT`, and reads only the first row of the answer.

# %%
nb.ask("03_no_limit", "a_takes")
guess = ...  # a number of rows

# %%
greedy = nb.play("03_no_limit")
nb.answer(guess, greedy["a_takes"].value)
nb.claim("03_no_limit", greedy)
nb.events(greedy)

# %% [markdown]
# **Why.** `FOR UPDATE` locks each row that the query returns, read or not.
#
# ## How to hold nothing at all
# Now A forgets `BEGIN`.

# %%
nb.ask("03_autocommit", "b_asks")
guess = ...  # a document's number, or "none"

# %%
forgets = nb.play("03_autocommit", work={"b_asks": 0.5})
nb.answer(guess, forgets["b_asks"].value)
nb.claim("03_autocommit", forgets)
nb.timeline(forgets)

# %% [markdown]
# **Why.** A row lock lasts as long as its transaction. Without `BEGIN` that is one statement, and the lock was gone before A
# began to work: no light bar in the picture.
#
# ## The third way: NOWAIT

# %%
nb.ask("03_nowait", "b_asks")
guess = ...  # a document's number, or "none"

# %%
refused = nb.play("03_nowait", work={"a_ends": 0.5})
nb.answer(guess, refused["b_asks"].value)
nb.claim("03_nowait", refused)
nb.timeline(refused)

# %% [markdown]
# **Why.** Document 1 comes first, and `NOWAIT` ends the statement at the first row that it cannot lock. It says that this row is
# busy, and looks for no other.
#
# ## A report that skips
# A locks two of the four documents. How many does a report with `SKIP LOCKED` count?
# *A bloqueia dois dos quatro documentos. Quantos um relatório com `SKIP LOCKED` conta?*

# %%
guess = ...  # a number of documents

# %%
reported = nb.play("03_report")
nb.answer(guess, reported["b_reports"].value)
nb.claim("03_report", reported)

# %% [markdown]
# **Why.** A locked row is as real as any other. A plain `SELECT` counts it, and waits for nobody.
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

# %%
nb.surprises("03")

# %% [markdown]
# **Next:** 04, where a claim outlives its lock.
