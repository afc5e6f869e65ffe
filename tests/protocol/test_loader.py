"""Lesson 01: files enter the queue one by one; a refusal says why without quoting the file."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from lab.base.errors import LabError, ServerError
from lab.base.paths import DATA, DOCUMENTS, ROOT
from lab.protocol.loader import BOUND, FileOutcome, load, summary

CANARY = "CANARY-5f1d"
EPISODE = [DOCUMENTS / f"nfe-000{number}.xml" for number in (1, 2, 3, 4)]
REFUSALS = {
    "nfe-vazia.xml": "empty",
    "nfe-malformada.xml": "line 3, column 18",
    "nfe-com-doctype.xml": "DOCTYPE",
    "nfe-0002-duplicada.xml": "NFE-0002 is in the queue already",
}


@pytest.fixture
def queue(queue_database: str) -> str:
    """The queue of state 01 without its four documents; returns the conninfo."""
    execute(queue_database, "DELETE FROM sql_semana_12.fila_documentos")
    return queue_database


def execute(conninfo: str, statement: str) -> None:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(statement.encode())


def rows(conninfo: str, columns: str) -> list[tuple[object, ...]]:
    query = f"SELECT {columns} FROM sql_semana_12.fila_documentos ORDER BY documento_id"
    with psycopg.connect(conninfo, client_encoding="utf8") as connection:
        return connection.execute(query.encode()).fetchall()


def texts(conninfo: str) -> list[str]:
    """What xpath finds as text: what a worker will read."""
    path = "array_to_string(xpath('//*[local-name() = ''descricao'']/text()', conteudo_xml), '')"
    return [str(row[0]) for row in rows(conninfo, path)]


def reason(outcome: FileOutcome) -> str:
    assert not outcome.loaded
    assert outcome.reason is not None
    return outcome.reason.en


def refusal(conninfo: str, path: Path) -> str:
    """Load one file, see it refused and the queue unchanged; returns the reason in English."""
    before = rows(conninfo, "documento_id, chave")
    [outcome] = load(conninfo, [path])
    assert rows(conninfo, "documento_id, chave") == before
    return reason(outcome)


def written(folder: Path, content: bytes | str, name: str = "document.xml") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def failing_insert(conninfo: str, sqlstate: str) -> None:
    """Let the server fail with `sqlstate` at NFE-0003, quoting the document as its errors do."""
    execute(
        conninfo,
        f"""
        CREATE FUNCTION sql_semana_12.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NEW.chave = 'NFE-0003' THEN
                RAISE EXCEPTION '{CANARY}' USING ERRCODE = '{sqlstate}', DETAIL = '{CANARY}';
            END IF;
            RETURN NEW;
        END $$;
        """,
    )
    watch(conninfo, "refuse")


def watch(conninfo: str, function: str) -> None:
    execute(
        conninfo,
        "CREATE TRIGGER watch BEFORE INSERT ON sql_semana_12.fila_documentos "
        f"FOR EACH ROW EXECUTE FUNCTION sql_semana_12.{function}()",
    )


# What loads


def test_the_four_documents_of_the_episode_load_with_defaults(queue: str) -> None:
    outcomes = load(queue, EPISODE)
    assert outcomes == [
        FileOutcome(path, f"NFE-000{number}", True, None, None) for number, path in enumerate(EPISODE, 1)
    ]
    assert rows(queue, "chave, nome_arquivo, conteudo_xml::text, status, tentativas") == [
        (
            f"NFE-000{number}",
            f"nfe-000{number}.xml",
            f'<nfe id="NFE-000{number}"><valor>{number}0{number}.{number}0</valor></nfe>',
            "pendente",
            0,
        )
        for number in (1, 2, 3, 4)
    ]


def test_the_good_files_load_beside_the_bad_ones(queue: str) -> None:
    execute(
        queue,
        "INSERT INTO sql_semana_12.fila_documentos (chave, nome_arquivo, conteudo_xml) "
        "VALUES ('NFE-0002', 'before', '<before/>')",
    )
    good = [path for path in sorted(DOCUMENTS.iterdir()) if path.name not in REFUSALS]
    good.remove(DOCUMENTS / "nfe-0002.xml")
    bad = [DOCUMENTS / name for name in REFUSALS]
    mixed = [path for pair in zip(bad, good, strict=False) for path in pair] + good[len(bad) :]
    outcomes = load(queue, mixed)
    assert [outcome.path for outcome in outcomes] == mixed
    assert {outcome.path for outcome in outcomes if outcome.loaded} == set(good)
    for outcome in outcomes:
        if not outcome.loaded:
            assert REFUSALS[outcome.path.name] in reason(outcome)
    assert [row[0] for row in rows(queue, "nome_arquivo")] == [
        "before",
        *(path.name for path in mixed if path in good),
    ]
    assert rows(queue, "conteudo_xml::text")[0] == ("<before/>",)
    assert summary(outcomes) == f"{len(good)} loaded, {len(bad)} refused"


def test_a_byte_order_mark_is_dropped(queue: str) -> None:
    [outcome] = load(queue, [DOCUMENTS / "nfe-com-marca-de-ordem.xml"])
    assert outcome.key == "NFE-0101" and outcome.loaded
    assert texts(queue) == ["maçã, pão e açaí"]
    assert rows(queue, "left(conteudo_xml::text, 1)") == [("<",)]


def test_a_declared_encoding_is_followed(queue: str) -> None:
    [outcome] = load(queue, [DOCUMENTS / "nfe-iso-8859-1.xml"])
    assert outcome.key == "NFE-0102" and outcome.loaded
    assert texts(queue) == ["maçã, pão e feijão"]


@pytest.mark.parametrize(
    ("declared", "codec", "text"),
    [
        ("windows-1252", "cp1252", "“maçã” a 2 €"),
        ("ISO-8859-15", "iso8859-15", "maçã a 2 €"),
        ("iso-8859-1", "latin-1", "maçã"),
        ("us-ascii", "ascii", "maca"),
        ("utf-8", "utf-8", "maçã 🍎"),
        ("latin-1", "latin-1", "a name that Python knows and libxml does not: maçã"),
    ],
)
def test_encodings_load_under_every_usual_name(
    queue: str, tmp_path: Path, declared: str, codec: str, text: str
) -> None:
    document = (
        f"<?xml version='1.0' encoding='{declared}' standalone='yes'?>\r\n"
        f"<nfe id='NFE-1'><descricao>{text}</descricao></nfe>"
    )
    [outcome] = load(queue, [written(tmp_path, document.encode(codec))])
    assert outcome.loaded, outcome.reason
    assert texts(queue) == [text]


def test_a_mark_wins_over_the_declaration(queue: str, tmp_path: Path) -> None:
    utf_16 = DOCUMENTS / "nfe-utf-16.xml"
    document = "<?xml version='1.0' encoding='ISO-8859-1'?><nfe id='NFE-1'><descricao>maçã</descricao></nfe>"
    paths = [
        written(tmp_path, document.encode("utf-8-sig"), "a.xml"),
        written(tmp_path, document.replace("NFE-1", "NFE-2").encode("utf-16"), "b.xml"),
        written(tmp_path, document.replace("NFE-1", "NFE-3").encode("utf-32"), "c.xml"),
    ]
    assert all(outcome.loaded for outcome in load(queue, [utf_16, *paths]))
    assert texts(queue) == ["maçã, pão e limão", "maçã", "maçã", "maçã"]


def test_only_the_declaration_loses_its_encoding(queue: str, tmp_path: Path) -> None:
    quoted = '<?xml version="1.0" encoding="UTF-8"?>'
    document = f"<nfe id='NFE-1'><descricao><![CDATA[{quoted}]]></descricao></nfe>"
    assert load(queue, [written(tmp_path, document)])[0].loaded
    assert rows(queue, "conteudo_xml::text") == [(document,)]


def test_a_real_nfe_is_known_by_the_id_in_its_namespace(queue: str, tmp_path: Path) -> None:
    bare = '<n:NFe xmlns:n="http://www.portalfiscal.inf.br/nfe"><n:infNFe Id="NFe1"/></n:NFe>'
    outcomes = load(queue, [DOCUMENTS / "nfe-com-namespace.xml", written(tmp_path, bare)])
    assert [outcome.loaded for outcome in outcomes] == [True, True]
    assert re.fullmatch(r"NFe\d{44}", str(outcomes[0].key))
    assert outcomes[1].key == "NFe1"


def test_the_access_key_of_the_sample_agrees_with_its_fields() -> None:
    text = (DOCUMENTS / "nfe-com-namespace.xml").read_text("utf-8")
    field = dict(re.findall(r"<(\w+)>([^<]*)</\1>", text))
    match = re.search(r'Id="NFe(\d{44})"', text)
    assert match is not None
    issued = field["dhEmi"]
    assert match[1] == (
        field["cUF"] + issued[2:4] + issued[5:7] + field["CNPJ"] + field["mod"]
        + field["serie"].zfill(3) + field["nNF"].zfill(9) + field["tpEmis"]
        + field["cNF"] + field["cDV"]
    )  # fmt: skip
    assert set(field["CNPJ"] + field["CPF"]) == {"0"}, "no number of a real taxpayer"


# What is refused


def test_a_key_that_is_in_the_queue_is_refused_by_name(queue: str) -> None:
    first, again = load(queue, [DOCUMENTS / "nfe-0002.xml", DOCUMENTS / "nfe-0002-duplicada.xml"])
    assert first.loaded
    assert reason(again) == "NFE-0002 is in the queue already."
    assert again.key == "NFE-0002" and again.sqlstate == "23505"
    assert rows(queue, "nome_arquivo") == [("nfe-0002.xml",)]


def test_loading_again_changes_nothing(queue: str) -> None:
    load(queue, EPISODE)
    before = rows(queue, "documento_id, chave, criado_em")
    assert [outcome.sqlstate for outcome in load(queue, EPISODE)] == ["23505"] * 4
    assert rows(queue, "documento_id, chave, criado_em") == before


@pytest.mark.parametrize(
    "prolog",
    [
        '<!DOCTYPE nfe [<!ENTITY e SYSTEM "file:///does-not-matter">]>',
        '<!DOCTYPE nfe SYSTEM "does-not-matter.dtd">',
        "<!DOCTYPE nfe>",
        "<!-- first --><!DOCTYPE nfe [<!ENTITY e 'inside'>]>",
    ],
)
def test_a_doctype_is_refused_although_the_server_would_store_it(queue: str, tmp_path: Path, prolog: str) -> None:
    document = f"{prolog}<nfe id='NFE-1'/>"
    with psycopg.connect(queue) as connection:
        connection.execute("SELECT xmlparse(DOCUMENT %s)", (document,))
    assert "DOCTYPE" in refusal(queue, written(tmp_path, document))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b" \n", "line 2, column 1"),
        (b"<nfe id='NFE-1'>\n<a></b></nfe>", "line 2, column 6"),
        (b"<nfe id='NFE-1'/><nfe id='NFE-2'/>", "line 1, column 18"),
        (b"<nfe id='NFE-1'>&unknown;</nfe>", "malformed"),
        (b"<nfe id='NFE-1'><p:a/></nfe>", "malformed"),
        (b"<nfe id='NFE-1'>\x01</nfe>", "malformed"),
        (b"<nfe id='NFE-1'>&#0;</nfe>", "malformed"),
        ("<nfe id='NFE-1'>\uffff</nfe>", "malformed"),
        (b"<nfe id='NFE-1'>\0</nfe>", "NUL"),
        ("<nfe id='NFE-1'/>".encode("utf-16-le"), "UTF-16 without a byte-order mark"),
        ("\ufeff\ufeff<nfe id='NFE-1'/>", "malformed"),
        (b"<nfe id='NFE-1'>" + b"<a>" * 3000 + b"</a>" * 3000 + b"</nfe>", "nested too deeply"),
        ("<nfe id='NFE-1'>ã</nfe>".encode("latin-1"), "not UTF-8 (see byte 17)"),
        (b"<?xml version='1.0' encoding='us-ascii'?><nfe id='\xe3'/>", "not ASCII (see byte 51)"),
        (b"\xef\xbb\xbf<nfe id='\xe3'/>", "not UTF-8 (see byte 13)"),
        (b"\xff\xfe<\0n", "not UTF-16-LE (see byte 5)"),
        (b"<?xml version='1.0' encoding='x-nada'?><nfe id='NFE-1'/>", "declares an encoding"),
        (b"<?xml version='1.0' encoding='UTF-16'?><nfe id='NFE-1'/>", "declares an encoding"),
        (b"<?xml version='1.0' encoding='utf-7'?><nfe id='NFE-1'/>", "declares an encoding"),
        (b"<?xml version='1.0' encoding='hex'?><nfe id='NFE-1'/>", "declares an encoding"),
        (b"<?xml version='1.0' encoding='no such'?><nfe id='NFE-1'/>", "malformed"),
        (b"<nfe/>", "no key"),
        (b"<outra id='NFE-1'/>", "no key"),
        (b"<nfe xmlns='urn:other' id='NFE-1'/>", "no key"),
        (b"<nfeProc><NFe><infNFe Id='NFe1'/></NFe></nfeProc>", "no key"),
        (b"<NFe xmlns='http://www.portalfiscal.inf.br/nfe'><infNFe/></NFe>", "no key"),
        (b"<nfe id=''/>", "Its key"),
        (b"<nfe id='NFE 1'/>", "Its key"),
        (b"<nfe id='[red]NFE'/>", "Its key"),
        (b"<nfe id='" + b"1" * 101 + b"'/>", "Its key"),
    ],
)
def test_what_is_no_document_with_a_key_is_refused(queue: str, tmp_path: Path, content: bytes | str, why: str) -> None:
    assert why in refusal(queue, written(tmp_path, content))


def test_paths_that_are_no_readable_file_are_outcomes(queue: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.xml"
    os.mkfifo(pipe)
    loop = tmp_path / "loop.xml"
    loop.symlink_to(loop)
    assert "no such file" in refusal(queue, tmp_path / "missing.xml")
    assert "folder" in refusal(queue, tmp_path)
    assert "not a regular file" in refusal(queue, pipe)
    assert "ELOOP" in refusal(queue, loop)
    assert "not valid Unicode" in refusal(queue, tmp_path / os.fsdecode(b"\xe3.xml"))


def test_a_file_that_may_not_be_read_is_an_outcome(queue: str, tmp_path: Path) -> None:
    path = written(tmp_path, "<nfe id='NFE-1'/>")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this account reads everything")
    assert "EACCES" in refusal(queue, path)


def test_a_file_over_the_bound_is_refused(queue: str, tmp_path: Path) -> None:
    frame = "<nfe id='NFE-1'><descricao>{}</descricao></nfe>"
    room = BOUND - len(frame.format(""))
    assert "larger than 10 MB" in refusal(queue, written(tmp_path, frame.format("x" * (room + 1))))
    assert load(queue, [written(tmp_path, frame.format("x" * room))])[0].loaded


def test_a_character_that_the_database_lacks_is_refused(queue: str, tmp_path: Path) -> None:
    failing_insert(queue, "22P05")
    assert "use a database in UTF8" in refusal(queue, written(tmp_path, "<nfe id='NFE-0003'/>"))


def test_a_constraint_that_the_loader_does_not_know_refuses_one_document(queue: str) -> None:
    failing_insert(queue, "23514")
    outcomes = load(queue, EPISODE)
    assert [outcome.loaded for outcome in outcomes] == [True, True, False, True]
    assert "SQLSTATE 23514" in reason(outcomes[2])


# What stops the load


@pytest.mark.parametrize("gone", ["SCHEMA sql_semana_12", "TABLE sql_semana_12.fila_documentos"])
def test_without_a_queue_the_reader_is_told_how_to_build_it(queue: str, gone: str) -> None:
    execute(queue, f"DROP {gone} CASCADE")
    with pytest.raises(LabError, match=r"\./lab psql -f sql/01_queue\.sql"):
        load(queue, EPISODE)


def test_a_server_that_cannot_be_reached_is_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"cannot be reached.*\./lab up"):
        load(f"host={tmp_path} port=1", EPISODE)


def test_a_server_without_libxml_is_named_as_such(queue: str) -> None:
    failing_insert(queue, "0A000")
    with pytest.raises(ServerError, match="without libxml"):
        load(queue, EPISODE)


def test_a_lost_connection_says_how_many_went_in_and_loading_again_is_safe(queue: str) -> None:
    execute(
        queue,
        """
        CREATE FUNCTION sql_semana_12.vanish() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NEW.chave = 'NFE-0003' THEN
                PERFORM pg_terminate_backend(pg_backend_pid());
            END IF;
            RETURN NEW;
        END $$;
        """,
    )
    watch(queue, "vanish")
    with pytest.raises(ServerError, match=r"lost after 2 of 4 files.*none enters twice"):
        load(queue, EPISODE)
    assert rows(queue, "chave") == [("NFE-0001",), ("NFE-0002",)]
    execute(queue, "DROP TRIGGER watch ON sql_semana_12.fila_documentos")
    assert [outcome.loaded for outcome in load(queue, EPISODE)] == [False, False, True, True]


def test_an_error_of_the_server_stops_the_load_by_its_sqlstate(queue: str) -> None:
    failing_insert(queue, "53100")
    with pytest.raises(LabError, match=r"SQLSTATE 53100.* after 2 of 4 files"):
        load(queue, EPISODE)


# What is said


@pytest.mark.parametrize(
    "content",
    [
        f"<nfe id='NFE-1'>\n{CANARY}</outra>",
        f"<nfe id='NFE-1'>&{CANARY};</nfe>",
        f"<!DOCTYPE {CANARY} SYSTEM '{CANARY}'><nfe id='NFE-1'/>",
        f"<?xml version='1.0' encoding='{CANARY}'?><nfe id='NFE-1'/>",
        f"<{CANARY}/>",
        f"<nfe id='{CANARY} '/>",
        f"<nfe id='NFE-1'>{CANARY}\0</nfe>",
        f"<nfe id='NFE-1'>{'<a>' * 3000}{CANARY}{'</a>' * 3000}</nfe>",
        f"<nfe id='NFE-1'>{CANARY}ã</nfe>".encode("latin-1"),
    ],
)
def test_no_outcome_repeats_the_document(queue: str, tmp_path: Path, content: bytes | str) -> None:
    [outcome] = load(queue, [written(tmp_path, content)])
    assert not outcome.loaded
    assert CANARY not in repr(outcome)


@pytest.mark.parametrize("sqlstate", ["23514", "22000"])
def test_no_refusal_by_the_server_repeats_the_document(queue: str, sqlstate: str) -> None:
    failing_insert(queue, sqlstate)
    assert CANARY not in repr(load(queue, EPISODE))


@pytest.mark.parametrize("sqlstate", ["0A000", "42501", "53100", "08006"])
def test_no_error_of_the_server_repeats_the_document(queue: str, sqlstate: str) -> None:
    failing_insert(queue, sqlstate)
    with pytest.raises(LabError) as raised:
        load(queue, EPISODE)
    assert CANARY not in str(raised.value)
    chained = (raised.value.__cause__, raised.value.__context__)
    assert chained == (None, None), "a traceback would show it"


def test_reasons_and_summary_speak_the_readers_language(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_LANG", "pt_BR")
    outcomes = load(queue, [EPISODE[0], *(DOCUMENTS / name for name in REFUSALS)])
    assert [str(outcome.reason) for outcome in outcomes[1:4]] == [
        "O arquivo está vazio.",
        "O XML está malformado: veja a linha 3, coluna 18.",
        "Tem um DOCTYPE, que pode trazer outros arquivos: remova-o.",
    ]
    assert summary(outcomes) == "2 carregados, 3 recusados"
    assert summary(outcomes[:2]) == "1 carregado, 1 recusado"


# What the checkout must keep


def test_the_documents_are_the_bytes_that_were_written() -> None:
    first_bytes = {
        "nfe-0001.xml": b'<nfe id="NFE-0001"><valor>101.10</valor></nfe>',
        "nfe-com-marca-de-ordem.xml": b"\xef\xbb\xbf<?xml ",
        "nfe-iso-8859-1.xml": b'<?xml version="1.0" encoding="ISO-8859-1"?>\n',
        "nfe-utf-16.xml": b"\xff\xfe<\0?\0",
    }
    for name, expected in first_bytes.items():
        assert (DOCUMENTS / name).read_bytes().startswith(expected), name
    for path in EPISODE:
        assert path.stat().st_size == 46, "an editor's newline would be stored with the document"
    assert b"feij\xe3o" in (DOCUMENTS / "nfe-iso-8859-1.xml").read_bytes()


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
def test_git_keeps_documents_byte_for_byte_and_the_launcher_in_lf() -> None:
    paths = ["data/documents/nfe-utf-16.xml", "lab", "data/expected/02_x/y.txt"]
    shown = subprocess.run(
        ["git", "-C", str(ROOT), "check-attr", "text", "eol", "--", *paths],
        capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert f"{paths[0]}: text: unset" in shown
    assert f"{paths[1]}: eol: lf" in shown
    assert f"{paths[2]}: eol: lf" in shown


# The glossary, which translates names by itself


def glossary() -> list[dict[str, str]]:
    with (DATA / "glossary.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("language", ["pt", "en"])
def test_a_glossary_name_is_an_identifier_and_stands_for_one_thing(language: str) -> None:
    names = [entry[language] for entry in glossary()]
    assert [name for name, times in Counter(names).items() if times > 1] == []
    assert [name for name in names if not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", name)] == []


def test_a_glossary_entry_has_one_short_line_of_meaning_in_each_language() -> None:
    entries = glossary()
    assert set(entries[0]) == {"pt", "en", "meaning", "meaning_pt"}
    for meaning in ("meaning", "meaning_pt"):
        assert [e["pt"] for e in entries if not 0 < len(e[meaning]) <= 100] == []
    assert [e["pt"] for e in entries if e["meaning"] == e["meaning_pt"]] == []


def test_no_english_name_is_another_entrys_portuguese_name() -> None:
    portuguese = {entry["pt"]: entry["en"] for entry in glossary()}
    clashes = [e["en"] for e in glossary() if portuguese.get(e["en"], e["en"]) != e["en"]]
    assert clashes == []


def test_every_column_of_the_queue_is_in_the_glossary(queue: str) -> None:
    known = {entry["pt"] for entry in glossary()}
    with psycopg.connect(queue) as connection:
        cursor = connection.execute(sql.SQL("SELECT * FROM sql_semana_12.fila_documentos"))
    assert cursor.description is not None
    assert {column.name for column in cursor.description} <= known


def test_no_english_name_is_reserved_by_the_server(queue: str) -> None:
    with psycopg.connect(queue) as connection:
        reserved = connection.execute("SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T')").fetchall()
    assert {entry["en"] for entry in glossary()}.isdisjoint(word for (word,) in reserved)
