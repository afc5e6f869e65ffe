"""The tenant is in every key, every statement and every call, so that the same functions run where rows lie by tenant (Citus)."""

from __future__ import annotations

import re

import pytest

from lab.base.sql_text import statements
from lab.protocol import source
from lab.server import schema
from tests.helpers import fetch

TABLES = ("fila_documentos", "auditoria")
# The settings are of the whole installation: the one table without a tenant.
SETTINGS = "configuracao"
THE_LABS_OWN = "relogio_do_laboratorio"
# Any tenant's: an arm of its own, for one server only.
ANY = ["reservar: FROM fila_documentos"]


@pytest.fixture(scope="module")
def latest(module_database: str) -> str:
    """The conninfo of a database with the queue in its latest state."""
    schema.build(module_database, schema.latest())
    return module_database


def functions() -> dict[str, str]:
    """The body of each function of the newest edition, without comments."""
    return {
        each.name: re.sub(r"--[^\n]*", "", "\n".join(line.text for line in each.newest))
        for each in source.sources()
        if each.kind == "FUNCTION"
    }


def touching(body: str) -> list[str]:
    """The statements of a function that read or write one of the tables."""
    inner = body.partition("\nBEGIN\n")[2]
    return [
        each.text
        for each in statements(inner)
        if re.search(rf"\b(FROM|JOIN|UPDATE|INTO)\s+({'|'.join(TABLES)})\b", each.text)
    ]


def without_tenant(statement: str) -> list[str]:
    """The places of the tables in a statement, by the name they go by there, that no condition on their tenant, nor a key, binds."""
    wrong = []
    for verb, table, alias in re.findall(
        rf"\b(FROM|JOIN|UPDATE|INTO)\s+({'|'.join(TABLES)})\b(?:\s+AS\s+(\w+))?", statement
    ):
        if verb == "INTO":
            columns = statement.partition(table)[2].partition(")")[0]
            bound = "inquilino" in columns
        else:
            mine = rf"(?<![\w.])(?:{alias or table}\.)?inquilino" if not alias else rf"\b{alias}\.inquilino"
            after = re.split(r"\b(?:WHERE|ON)\b", statement, maxsplit=1)
            bound = len(after) > 1 and re.search(rf"{mine}\s*=|=\s*{mine}\b", after[1]) is not None
        if not bound:
            wrong.append(f"{verb} {table}{' AS ' + alias if alias else ''}")
    return wrong


def broken(bodies: dict[str, str]) -> list[str]:
    """Where a statement of a function leaves the tenant out."""
    return [
        f"{name}: {place}" for name, body in bodies.items() for each in touching(body) for place in without_tenant(each)
    ]


def volatile_in_set(bodies: dict[str, str], volatile: set[str]) -> list[str]:
    """The volatile functions that an UPDATE's SET calls, once a row."""
    return [
        f"{name}: {called}"
        for name, body in bodies.items()
        for each in touching(body)
        for clause in re.findall(r"\bSET\b(.*?)\b(?:FROM|WHERE)\b", each, re.DOTALL)
        for called in re.findall(r"\b(\w+)\(", clause)
        if called in volatile
    ]


def test_every_key_holds_the_tenant(latest: str) -> None:
    keys = fetch(
        latest,
        "SELECT indrelid::REGCLASS || ' ' || indexrelid::REGCLASS, array_agg(attname::TEXT) FROM pg_index"
        " INNER JOIN pg_class AS c ON c.oid = indrelid"
        " INNER JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)"
        " WHERE relnamespace = 'sql_semana_12'::REGNAMESPACE AND indisunique AND relname <> %s GROUP BY 1",
        SETTINGS,
    )
    assert len(keys) == 3
    assert [name for name, columns in keys if "inquilino" not in str(columns)] == []
    foreign = fetch(
        latest, "SELECT conname FROM pg_constraint WHERE connamespace = 'sql_semana_12'::REGNAMESPACE AND contype = 'f'"
    )
    assert foreign == []


def test_every_table_but_the_settings_has_a_tenant(latest: str) -> None:
    without = fetch(
        latest,
        "SELECT relname FROM pg_class AS c WHERE relnamespace = 'sql_semana_12'::REGNAMESPACE AND relkind = 'r'"
        " AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid AND attname = 'inquilino' AND attnotnull)",
    )
    assert sorted(without) == [(SETTINGS,), (THE_LABS_OWN,)]


def test_every_function_that_takes_a_document_takes_its_tenant(latest: str) -> None:
    """And null, which is any, where the caller knows none."""
    given = fetch(
        latest,
        "SELECT proname FROM pg_proc WHERE pronamespace = 'sql_semana_12'::REGNAMESPACE AND proargnames && ARRAY['p_documento',"
        " 'p_documentos', 'p_chave'] AND NOT proargnames && ARRAY['p_inquilino', 'p_inquilinos'] AND provolatile = 'v'",
    )
    assert given == []


def test_every_statement_names_the_tenant_of_each_table_it_touches() -> None:
    bodies = functions()
    assert sum(len(touching(body)) for body in bodies.values()) > 20
    assert broken(bodies) == ANY


def test_no_update_calls_what_is_volatile_in_its_set(latest: str) -> None:
    rows = fetch(
        latest,
        "SELECT proname FROM pg_proc WHERE provolatile = 'v' AND pronamespace <> 'information_schema'::REGNAMESPACE",
    )
    assert volatile_in_set(functions(), {str(name) for (name,) in rows}) == []


@pytest.mark.parametrize(
    ("function", "old", "new", "place"),
    [
        ("travar", "AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)", "", "FROM fila_documentos AS fila"),
        (
            "mudar",
            "\n    WHERE inquilino = p_posse.inquilino AND documento_id",
            "\n    WHERE documento_id",
            "UPDATE fila_documentos",
        ),
        ("concluir_lote", "INTO auditoria (inquilino, documento_id", "INTO auditoria (documento_id", "INTO auditoria"),
        ("devolver", "WHERE auditoria.inquilino = v_posse.inquilino AND", "WHERE", "FROM auditoria"),
    ],
)
def test_a_statement_that_leaves_the_tenant_out_is_found(function: str, old: str, new: str, place: str) -> None:
    bodies = functions()
    assert bodies[function].count(old) == 1
    bodies[function] = bodies[function].replace(old, new)
    assert sorted(broken(bodies)) == sorted([*ANY, f"{function}: {place}"])


def test_a_clock_read_in_a_set_is_found(latest: str) -> None:
    bodies = functions()
    bodies["mudar"] = bodies["mudar"].replace("versao = v_versao,", "versao = nextval('x'),", 1)
    assert volatile_in_set(bodies, {"nextval"}) == ["mudar: nextval"]
