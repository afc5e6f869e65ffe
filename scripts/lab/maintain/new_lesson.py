"""`lab new NN name`: the skeleton of a lesson in both languages, with a check that fails until it is written."""

from __future__ import annotations

import re
from pathlib import Path

from lab.base import paths
from lab.base.errors import LabError
from lab.base.language import say
from lab.lessons import registry
from lab.server import schema

# Stands wherever an author has to write; `lab check` names the files that still hold it.
TO_WRITE = "TO WRITE"
CASE = "first"

SCRIPT = '''\
"""Lesson {number}: TO WRITE."""

from __future__ import annotations

from lab.base.facts import Fact
from lab.base.language import Text
from lab.base.language import say
from lab.lessons.lesson import Lesson, Observed
from lab.scenario.result import Play, whole

lesson = Lesson(
    __file__,
    minutes=10,
    question=Text("TO WRITE: the question that the learner has?", "TO WRITE: a pergunta de quem aprende?"),
    answer=Text("TO WRITE: what they will have seen", "TO WRITE: o que terão visto"),
    psql_only=Text("yes", "sim"),
)


# One check a scenario: sql/{name}/{number}_{case}.sql. What one scenario cannot show is an experiment: @lesson.experiment.
@lesson.scenario("{case}")
def {case}(play: Play) -> Observed:
    got = whole(play["b_asks"].one("documento_id"))
    return Observed(
        got == 0,  # TO WRITE: the number; it must be another one if the claim is false
        "B got document {{got}}",
        "B recebeu o documento {{got}}",
        facts={{"got": Fact(got)}},  # a quantity has its unit, too: Fact(play["b_asks"].seconds, "s")
    )
'''

SCENARIO = """\
-- TO WRITE: the claim, in one sentence.
-- @pt TO WRITE: a afirmação, em uma frase.
-- @step a_begin A
BEGIN;
-- @step a_takes A
-- TO WRITE: what A does, and why.
-- @pt TO WRITE: o que A faz, e por quê.
SELECT documento_id
FROM fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
LIMIT 1
FOR UPDATE SKIP LOCKED;
-- @step b_begin B
BEGIN;
-- @step b_asks B
-- TO WRITE: the question to the reader?
-- @pt TO WRITE: a pergunta a quem lê?
SELECT documento_id
FROM fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
LIMIT 1
FOR UPDATE SKIP LOCKED;
-- @step b_ends B
ROLLBACK;
-- @step a_ends A
ROLLBACK;
"""

STEP = """\
-- {number} {short}: TO WRITE: the question?
-- @pt TO WRITE: a pergunta?
--
-- Needs  sql/all.sql
-- Run    psql -X -f sql/{name}.sql          (again whenever you like: it rolls back)
-- See    TO WRITE: what there is to see.
-- @pt Precisa de sql/all.sql. Pode rodar de novo quando quiser: ele desfaz tudo.
-- @pt Veja TO WRITE: o que há para ver.
--
-- This lesson changes no schema: it may be run in every state from the latest upgrade on. (One that does is written like
-- script {latest}: see CONTRIBUTING.)
-- @pt Esta lição não altera o esquema: pode rodar em qualquer estado a partir da última atualização.

\\set ON_ERROR_STOP on
\\setenv PSQL_PAGER ''
SET client_min_messages = warning;
SET "lab.de" = '{latest}';
SET "lab.para" = '99';
\\ir require_state.sql

BEGIN;

SELECT
    status,
    count(*) AS documentos
FROM sql_semana_12.fila_documentos
GROUP BY status
ORDER BY status;

ROLLBACK;
"""

NOTEBOOK = """\
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
# # {number} · TO WRITE
#
# Run the cells from top to bottom (Shift-Enter). Where a cell says `guess = ...`, first write your guess in place of the three
# dots; *Run All* works without guesses. The sessions are real connections to a database of this notebook's own.

# %% [markdown] lang="pt"
# # {number} · TO WRITE, em português
#
# Rode as células de cima para baixo (Shift-Enter). Onde houver `guess = ...`, escreva antes o seu palpite no lugar dos três
# pontos; *Run All* funciona sem palpites. As sessões são conexões reais a um banco só deste notebook.

# %% lang="en"
import lab.notebook as nb  # No module named 'lab'? Open this notebook with ./lab notebook

nb.begin("{number}", lang="en")

# %% lang="pt"
import lab.notebook as nb  # No module named 'lab'? Abra este notebook com ./lab notebook

nb.begin("{number}", lang="pt")

# %% [markdown] lang="en"
# ## TO WRITE

# %% [markdown] lang="pt"
# ## TO WRITE, em português

# %%
nb.sql("{number}_{case}", "a_takes")
nb.ask("{number}_{case}", "b_asks")
guess = ...  # a document's number, or "none" | o número de um documento, ou "nenhum"

# %%
played = nb.play("{number}_{case}")
nb.answer(guess, played["b_asks"].value)
nb.timeline(played)
nb.claim("{number}_{case}", played)

# %% [markdown] lang="en"
# **Why.** TO WRITE
#
# ## Surprises

# %% [markdown] lang="pt"
# **Por quê.** TO WRITE, em português
#
# ## Surpresas

# %%
nb.surprises("{number}")
"""

TEST = '''\
"""Lesson {number}: its checks, on this server."""

from __future__ import annotations

from lab.scenario.stage import Stage
from tests.helpers import check_lesson


def test_every_check_of_lesson_{number}_passes(stage: Stage) -> None:
    check_lesson("{name}", stage)
'''


def make(number: str, short: str) -> list[Path]:
    """Write the skeleton of lesson NN_short; returns the files.

    Raises LabError for a number or a name that does not fit or is taken; then nothing is written.
    """
    if not re.fullmatch(r"\d\d", number) or not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", short):
        raise LabError(
            say(
                "A lesson has two digits and a name in lower case: ./lab new 22 name_of_it",
                "Uma lição tem dois dígitos e um nome em minúsculas: ./lab new 22 nome_dela",
            )
        )
    if taken := [name for name in registry.names() if name[:2] == number or name[3:] == short]:
        raise LabError(
            say(
                f"{taken[0]} is there already; take another number and name.",
                f"{taken[0]} já existe; escolha outro número e outro nome.",
            )
        )
    name = f"{number}_{short}"
    texts = {
        paths.ROOT / "scripts" / f"{name}.py": SCRIPT,
        paths.SQL / f"{name}.sql": STEP,
        paths.SQL / name / f"{number}_{CASE}.sql": SCENARIO,
        paths.ROOT / "notebooks" / "py" / f"{name}.py": NOTEBOOK,
        paths.ROOT / "tests" / "lessons" / f"test_{name}.py": TEST,
    }
    if there := [path for path in texts if path.exists()]:
        first = there[0].relative_to(paths.ROOT)
        raise LabError(say(f"{first} is there already; nothing was written.", f"{first} já existe; nada foi gravado."))
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        told = text.format(number=number, short=short, name=name, case=CASE, latest=f"{schema.latest():02}")
        path.write_text(told, encoding="utf-8")
    return list(texts)
