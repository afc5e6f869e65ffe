"""One source of the protocol: a change of it reaches scripts, take-home file, drills and prices (test_take_home compares catalogs)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from lab.base import paths
from lab.base.errors import LabError
from lab.base.sql_text import without_comments
from lab.protocol import history, source, take_home
from lab.protocol.history import Change
from lab.server import schema

MARKED = {
    "audit": {"reservar", "mudar", "concluir_lote", "registrar_etapa", "substituir_conteudo"},
    "defence reserva": {"recuperar"},
    "defence token": {"travar", "concluir_lote", "renovar_lote"},
    "defence linhas": {"registrar_etapa"},
    "defence etapa": {"mudar"},
}


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of sql/ that everything is read from and written to."""
    shutil.copytree(paths.SQL, tmp_path / "sql")
    monkeypatch.setattr(paths, "SQL", tmp_path / "sql")
    monkeypatch.setattr(paths, "PROTOCOL", tmp_path / "sql" / "protocol")
    return tmp_path / "sql"


def edit(path: Path, old: str, new: str) -> None:
    """Replace the first place of a text in a file."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def written(files: list[Path]) -> set[str]:
    return {path.name for path in files}


# In step


def test_the_numbered_scripts_are_written_from_the_source() -> None:
    assert source.check() == [], "run ./lab generate"


def test_all_sql_lists_the_scripts_of_the_last_state_without_the_labs_clock() -> None:
    listed = re.findall(r"^\\ir (\S+)$", (paths.SQL / "all.sql").read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == [path.name for path in schema.upgrades()]


# One change


def test_a_line_of_several_editions_is_changed_once(copy: Path) -> None:
    edit(copy / "protocol" / "reservar.sql", "v_versoes BIGINT[];", "v_versoes BIGINT[] NOT NULL := '{}';")
    edit(copy / "protocol" / "reservar.sql", "v_documentos BIGINT[];", "v_documentos BIGINT[] := '{}';")
    assert written(source.write_scripts()) == {
        "reservar.sql", "05_lease.sql", "06_token.sql", "08_failures.sql", "09_effects.sql", "10_operators.sql",
    }  # fmt: skip
    assert source.check() == []
    for lesson in (5, 6, 8, 9, 10):
        text = next(copy.glob(f"{lesson:02}_*.sql")).read_text(encoding="utf-8")
        assert text.count("v_documentos BIGINT[] := '{}';") == 1
        assert text.count("v_versoes BIGINT[] NOT NULL := '{}';") == (lesson > 5), "a line that lesson 06 brought"
    assert "v_documentos BIGINT[] := '{}';" in take_home.protocol("pt", "fila", {})
    assert "v_documentos BIGINT[] := '{}';" in "".join(source.without("audit", schema.latest()))


def test_a_new_lesson_gets_its_hunks_by_itself(copy: Path) -> None:
    script = copy / "11_novo.sql"
    script.write_text(
        "-- 11 novo\nCOMMENT ON SCHEMA sql_semana_12 IS 'queue lab, state 11';\n\n"
        "CREATE OR REPLACE FUNCTION sql_semana_12.destino;\n\nCREATE OR REPLACE FUNCTION sql_semana_12.nova;\n",
        encoding="utf-8",
    )
    nova = (
        "CREATE OR REPLACE FUNCTION sql_semana_12.nova()\nRETURNS VOID\nLANGUAGE plpgsql\nAS $$ BEGIN NULL; END $$;\n"
    )
    (copy / "protocol" / "nova.sql").write_text(nova, encoding="utf-8")
    edit(copy / "protocol" / "destino.sql", "ELSE 'concluido'", "WHEN p_etapa = 'obtido' THEN 'concluido'")
    assert written(source.write_scripts()) == {"destino.sql", "nova.sql", "11_novo.sql"}
    assert source.check() == []
    assert list(source.find("destino").editions) == [11, 9]
    assert list(source.find("nova").editions) == [11]
    assert "WHEN p_etapa = 'obtido'" in script.read_text(encoding="utf-8") and nova.strip() in script.read_text(
        encoding="utf-8"
    )
    # Its author goes on: what the lesson changes is found anew, and lesson 09 stays.
    edit(copy / "protocol" / "destino.sql", "    RETURN CASE", "    RETURN CASE -- by stage")
    assert written(source.write_scripts(lesson=11)) == {"destino.sql", "11_novo.sql"}
    assert source.check() == []


@pytest.mark.parametrize("where", ["newest", "context"])
def test_a_hunk_that_no_longer_fits_says_where(copy: Path, where: str) -> None:
    """Neither the source nor the script has the lines any more."""
    for path in (copy / "protocol" / "destino.sql", copy / "09_effects.sql"):
        edit(path, "ELSE 'concluido'", "ELSE 'pronto'")
    assert source.check() == []
    for path in (copy / "protocol" / "renovar.sql", copy / "10_operators.sql"):
        edit(path, "renovacoes = fila.renovacoes + 1" if where == "newest" else "    v_fim TIMESTAMPTZ;", "    NULL;")
    if where == "newest":
        with pytest.raises(
            LabError, match=r"(?s)protocol/renovar.sql: these lines of a hunk of lesson 10 stand 0 times.*renovacoes"
        ):
            source.check()
    else:
        with pytest.raises(
            LabError, match=r"(?s)protocol/renovar.sql: these lines of a hunk of lesson 07 stand 0 times.*v_fim"
        ):
            source.check()


# Mutants


@pytest.mark.parametrize("name", [each.name for each in source.sources() if len(each.changes) > 1])
def test_without_a_hunk_the_scripts_are_out_of_step(copy: Path, name: str) -> None:
    path = copy / "protocol" / f"{name}.sql"
    whole = path.read_text(encoding="utf-8")
    found = source.find(name)
    for number, change in enumerate(found.changes):
        for hunk in change.hunks:
            fewer = [each for each in change.hunks if each is not hunk]
            changes = [*found.changes[:number], Change(change.lesson, tuple(fewer)), *found.changes[number + 1 :]]
            path.write_text(whole[: whole.index("-- History, ")] + history.written(changes), encoding="utf-8")
            assert _is_out_of_step(), hunk


def _is_out_of_step() -> bool:
    """Whether something would be written, or does not fit."""
    try:
        return bool(source.check())
    except LabError as error:
        return "stand" in str(error)


def test_a_history_of_other_lessons_than_the_scripts_is_refused(copy: Path) -> None:
    edit(copy / "protocol" / "destino.sql", "-- @lesson 09", "-- @lesson 08")
    with pytest.raises(
        LabError, match=r"destino.sql and the numbered scripts .* creates destino: 09; lessons in its history: 08"
    ):
        source.check()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("-- @lesson 09", "-- @lesson 09\n-- @lesson", r"destino.sql:\d+: this line is no part of a history"),
        (
            "    RETURN CASE",
            "    -- @defense x\n    RETURN CASE",
            r"destino.sql:\d+: there is no such mark: -- @defense x",
        ),
        (
            "sql_semana_12.destino(",
            "sql_semana_12.destinos(",
            "must create one function or view, and that must be named destino",
        ),
    ],
)
def test_what_cannot_be_read_is_named_by_file_and_line(copy: Path, old: str, new: str, said: str) -> None:
    edit(copy / "protocol" / "destino.sql", old, new)
    with pytest.raises(LabError, match=said):
        source.check()


# Marks


@pytest.mark.parametrize("mark", MARKED)
def test_a_mark_takes_out_what_it_stands_at(mark: str) -> None:
    lesson = schema.latest() if mark == "audit" else 9
    taken = {each.name for each in source.sources() if each.without(mark, lesson)}
    assert taken == MARKED[mark]
    assert len(source.without(mark, lesson)) == len(taken)


def test_every_audit_is_marked() -> None:
    texts = {each.name: history.text(each.newest) for each in source.sources()}
    assert {name for name, text in texts.items() if "INSERT INTO auditoria" in text} == MARKED["audit"]
    assert not [text for text in source.without("audit", schema.latest()) if "INTO auditoria" in text]


@pytest.mark.parametrize(("mark", "name"), [(mark, name) for mark, names in MARKED.items() for name in sorted(names)])
def test_without_its_mark_nothing_is_taken_out(copy: Path, mark: str, name: str) -> None:
    path = copy / "protocol" / f"{name}.sql"
    kept = [line for line in path.read_text(encoding="utf-8").splitlines(True) if f"-- @{mark}" not in line]
    path.write_text("".join(kept), encoding="utf-8")
    assert source.check() == [], "a mark is no part of an edition"
    if len(MARKED[mark]) == 1:
        with pytest.raises(LabError, match=f"Nothing is marked `-- @{mark}`"):
            source.without(mark, 9)
    else:
        lesson = schema.latest() if mark == "audit" else 9
        assert len(source.without(mark, lesson)) == len(MARKED[mark]) - 1


def test_marks_and_history_reach_no_reader() -> None:
    scripts = [path.read_text(encoding="utf-8") for path in schema.upgrades()]
    for text in (*scripts, source.whole(), take_home.protocol("en", "queue", {})):
        assert "-- @" not in text.replace("-- @pt ", "") and "-- History" not in text


# What lessons changed


def test_a_difference_is_what_the_lessons_between_changed() -> None:
    shown = source.difference("renovar", "07", "10").splitlines()
    assert [line for line in shown if line[0] in "+-"] == [
        "--- renovar after lesson 07",
        "+++ renovar after lesson 10",
        "-    SET reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, v_fim))",
        "+    SET reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, v_fim)), renovacoes = fila.renovacoes + 1",
    ]
    assert source.difference("renovar", "7", "9") == ""
    assert "\n+FUNCTION sql_semana_12.renovar(" in source.difference("renovar", "05", "06")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("reserva", "06", "09"), "no function or view reserva. Did you mean reservar?.* travar_para_operador"),
        (("reservar", "06", "77"), "No lesson 77 has a script .* reservar was written in: 05, 06, 08, 09"),
        (("reservar", "six", "09"), "No lesson six"),
        (("reservar", "09", "06"), "does not come before"),
    ],
)
def test_wrong_names_are_answered_with_what_there_is(asked: tuple[str, str, str], said: str) -> None:
    with pytest.raises(LabError, match=said):
        source.difference(*asked)


def test_what_is_made_names_its_schema_and_reads_back_as_the_source() -> None:
    own = {each.name for each in source.sources()} | {"fila_documentos", "auditoria", "posse"}
    for each in source.sources():
        for edition in each.editions.values():
            text = history.text(edition)
            made = source.qualified(text)
            assert source.plain(made) == text
            if each.kind == "FUNCTION":
                assert "SET search_path = pg_catalog, pg_temp\n" in made
                body = without_comments(made.partition("$$")[2])
                bare = re.findall(r"(?<![.\w'])(\w+)(?=\s*\()|\b(?:FROM|JOIN|INTO|UPDATE)\s+(\w+)(?![.\w])", body)
                assert {name for pair in bare for name in pair} & own == set(), each.name


def test_a_name_in_a_comment_or_a_string_stays() -> None:
    text = "FUNCTION x()\nSET search_path = sql_semana_12, pg_temp\nAS $$\n-- mudar(1) auditoria\nSELECT 'mudar(', mudar(1), a.mudar\n$$"
    assert "-- mudar(1) auditoria\nSELECT 'mudar(', sql_semana_12.mudar(1), a.mudar\n" in source.qualified(text)
