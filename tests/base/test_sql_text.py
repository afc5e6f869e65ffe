"""SQL read as text: statements, what they define, their comments."""

from __future__ import annotations

import pytest

from lab.base import paths
from lab.base.sql_text import body, onward, parts, statement_end, statements, without_comments

SCRIPT = r"""-- the head of the file

\set ON_ERROR_STOP on
SET a = ';';

-- Why this is.
CREATE OR REPLACE FUNCTION s.f(p TEXT DEFAULT ';')
RETURNS TEXT
LANGUAGE plpgsql
AS $$
BEGIN
    RETURN 'a;b'; -- it's; fine
END
$$;
CREATE VIEW s.v AS SELECT 1 /* ; */ AS "a;b";
"""


def test_statements_end_at_semicolons_that_are_no_part_of_them() -> None:
    found = statements(SCRIPT)
    assert [SCRIPT[each.start : each.end] for each in found] == [each.text for each in found]
    assert [each.text.split()[0] for each in found] == ["SET", "CREATE", "CREATE"]
    assert [each.comment for each in found] == ["", "-- Why this is.\n", ""]
    assert [each.begins("CREATE", "OR") for each in found] == [False, True, False]


def test_a_definition_is_known_by_kind_and_name() -> None:
    function, view = (each.definition for each in statements(SCRIPT)[1:])
    assert function and (function.kind, function.name) == ("FUNCTION", "f")
    assert SCRIPT[function.start :].startswith("FUNCTION s.f(")
    assert view and (view.kind, view.name) == ("VIEW", "v")


@pytest.mark.parametrize(
    ("statement", "kind", "name"),
    [
        ("create table if not exists s.t (a INTEGER)", "TABLE", "t"),
        ("CREATE INDEX IF NOT EXISTS i ON s.t (a)", "INDEX", "i"),
        ("CREATE SEQUENCE s.q AS BIGINT NO CYCLE", "SEQUENCE", "q"),
        ("CREATE OR REPLACE FUNCTION s.f", "FUNCTION", "f"),
    ],
)
def test_what_a_statement_creates(statement: str, kind: str, name: str) -> None:
    (found,) = statements(f"{statement};")
    assert found.definition and (found.definition.kind, found.definition.name) == (kind, name)


def test_the_lexer_leaves_out_nothing_of_any_script() -> None:
    for path in paths.SQL.rglob("*.sql"):
        text = path.read_text(encoding="utf-8")
        assert all(text[each.start : each.end] == each.text for each in statements(text)), path


def test_parts_words_and_bodies() -> None:
    assert parts("CREATE TABLE t (a NUMERIC(2, 1), -- one, two\n b TEXT DEFAULT ',')") == [
        "a NUMERIC(2, 1)",
        "b TEXT DEFAULT ','",
    ]
    assert without_comments("a -- b\nc") == "a \nc"
    assert body("DO $do$ BEGIN NULL; END $do$").strip() == "BEGIN NULL; END"
    assert onward("IF 'GRANT' = a THEN -- GRANT\n GRANT SELECT\n ON t", "GRANT") == "GRANT SELECT ON t"
    assert onward("SELECT 'GRANT'", "GRANT") == ""
    assert statement_end(["a", "SELECT ';'", "FROM t;", "b;"], 1) == 3
