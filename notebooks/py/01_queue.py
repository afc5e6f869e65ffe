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
# # 01 · The queue
#
# Run the cells from top to bottom (Shift-Enter). Where a cell says `guess = ...`, write your guess in place of the three
# dots before you go on; *Run All* works without guesses. The queue is rebuilt in a database of this notebook's own.
#
# *Rode as células de cima para baixo (Shift-Enter). Onde houver `guess = ...`, escreva seu palpite no lugar dos três
# pontos antes de seguir; a fila é recriada em um banco só deste notebook.*

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

nb.begin("01")

# %% [markdown]
# ## What is in the queue
# One script builds it. The table carries the document, its state, and who is working on it; the partial index holds only the
# rows that a worker may claim, in the order in which they are claimed.

# %%
nb.script("01_queue.sql", "CREATE TABLE", "CREATE INDEX")

# %%
nb.run_script("01_queue.sql")

# %%
nb.observe("01.built")

# %% [markdown]
# **Why.** Workers look for pending rows only. An index of those alone stays as small as the work that is left, however many
# documents are finished.
#
# ## What guards the entrance
# `chave` is unique. Guess the SQLSTATE (five characters) with which the server refuses a second NFE-0001.

# %%
nb.ask("01_duplicate_key", "a_inserts")
guess = ...  # an SQLSTATE, or "accepted"

# %%
twice = nb.play("01_duplicate_key", work={"b_processes": 0.5})
nb.answer(guess, twice["a_inserts"].sqlstate)

# %% [markdown]
# The key was refused. Then A takes document 1, works on it for half a second, and B comes. Guess `"yes"` or `"no"`.

# %%
nb.sql("01_duplicate_key", "a_processes")
nb.ask("01_duplicate_key", "b_processes")
guess = ...  # "yes" or "no"

# %%
nb.answer(guess, "no" if twice["b_processes"].rows else "yes")
nb.timeline(twice)
nb.table(twice, "b_processes")

# %%
nb.claim("01_duplicate_key", twice)

# %% [markdown]
# **Why.** A unique key compares rows when they are inserted. It says nothing about how often one row is worked on, and
# `tentativas` is 2 now: two workers processed the same document. What keeps them apart are the lessons 02 to 04.
#
# ## Files at the door
# `data/documents` holds twelve files: good ones in several encodings, and some that should never get in. The queue is
# emptied first. How many of the twelve go in? *Quantos dos doze entram?*

# %%
nb.query("TRUNCATE fila_documentos")
guess = ...  # a number

# %%
loaded = nb.load("*.xml")
nb.answer(guess, sum(loaded["loaded"] == "yes"))
loaded.sort_values("loaded", kind="stable")

# %% [markdown]
# **Why.** Each file goes in by itself, so a bad one does not take the others with it; `nfe-0002-duplicada.xml` comes before
# `nfe-0002.xml` in the alphabet, so the second is the duplicate. The loader reads the byte-order mark, then the declared
# encoding, and sends text without either: the server would refuse the mark. It also refuses a DOCTYPE, which the server
# would take. Change the pattern (`"nfe-0*.xml"`) and run the two cells again.

# %%
nb.observe("01.files", "01.byte_order_mark")

# %% [markdown]
# ## Back to the start
# `sql/reset.sql` is the episode's restore of the initial state: every document back to `pendente`.

# %%
nb.script("reset.sql", "UPDATE")
nb.observe("01.reset")

# %% [markdown]
# **Why.** It is one `UPDATE`, and asks nobody whose row it is. In this lesson nobody owns one.
#
# **What a production queue does.** It keeps the unique key, and gives every document a second key for the effects of its
# processing (lesson 09). It checks files before they reach the database, and logs reasons, never content. It has no reset:
# putting rows back to `pendente` while workers own them is forbidden from lesson 05 on; lesson 10 counts the harm.
#
# **What we simplified.** Four documents of one line each. The XML lies in the queue row; lesson 14 (to come) measures what that costs.
#
# ## Surprises
# Met by people in real life, and run here.

# %%
nb.surprises("01")

# %% [markdown]
# **Next:** 02, where A holds a document and B asks for one.
