"""A queue of a production-like mix of states, and the ways of indexing what is due in it.

It is a table of the experiment's own beside the queue, with the queue's columns: no index of the queue is touched.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg

from lab.base.errors import CannotRunHere
from lab.base.language import say
from lab.measure.buffers import explain
from lab.measure.rounds import Measured, Seen, Way, compare
from lab.server import schema
from lab.server.session import SessionPins

STATE = 10
QUICK, FULL = 100_000, 1_000_000  # rows
BYTES_A_ROW = 700  # with its indexes, and once more for what the changes leave; seen 430 and 520
TABLE = "fila_medida"
CHANGES = 200  # documents claimed in a run that prices a change of state
BATCH = 10

# In percent: most of a queue is history, and what is due is the newest of it.
MIX = {
    "concluido": 97.3,
    "falhou": 0.8,
    "cancelado": 0.4,
    "conciliacao": 0.3,
    "pausado": 0.1,
    "processando": 0.1,
    "pendente": 1.0,
}

FORMS: Mapping[str, str] = {
    "none": "",
    "full": f"CREATE INDEX medida_idx ON {TABLE} (status, disponivel_em, documento_id)",
    "partial": f"CREATE INDEX medida_idx ON {TABLE} (disponivel_em, documento_id) WHERE status = 'pendente'",
    "covering": f"CREATE INDEX medida_idx ON {TABLE} (disponivel_em, documento_id) INCLUDE (inquilino, versao) WHERE status = 'pendente'",
}
# As in reservar.
DUE = f"""\
SELECT inquilino, documento_id, versao
FROM {TABLE}
WHERE status = 'pendente' AND disponivel_em <= (SELECT relogio())
ORDER BY disponivel_em, documento_id
FOR NO KEY UPDATE SKIP LOCKED
LIMIT {BATCH}"""


@contextmanager
def filled(conninfo: str, rows: int) -> Iterator[psycopg.Connection]:
    """Build the queue, and beside it the experiment's table with so many rows and no index but the key's; drop it at the end.

    Raises CannotRunHere, before anything is made, if the server's disk (seen where it is this machine's) has too little room.
    """
    schema.build(conninfo, STATE)
    with SessionPins(statement_timeout="10min").psycopg_connection(conninfo, "lab/experiment") as connection:
        _insist_on_room(connection, rows)
        shares = list(MIX.values())
        bounds = [round(rows * sum(shares[: number + 1]) / 100) for number in range(len(shares))]
        state = " ".join(f"WHEN n <= {bound} THEN '{name}'" for name, bound in zip(MIX, bounds, strict=True))
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}".encode())
        try:
            connection.execute(
                f"CREATE TABLE {TABLE} (LIKE fila_documentos INCLUDING DEFAULTS INCLUDING STORAGE)"
                " WITH (autovacuum_enabled = off, fillfactor = 80)".encode()
            )
            connection.execute(
                f"INSERT INTO {TABLE} (documento_id, chave, nome_arquivo, conteudo_xml, status, disponivel_em, chave_operacao,"
                " tentativas, versao, iniciado_em, concluido_em, reservado_ate)"
                " SELECT n, 'NFE-' || lpad(n::TEXT, 8, '0'), 'nfe-' || n || '.xml',"
                " '<nfe id=\"NFE-00000001\"><valor>101.10</valor></nfe>',"  # parsed once
                f" CASE {state} END, relogio() - (({rows} - n) * INTERVAL '1 second'), 'padrao/NFE-' || lpad(n::TEXT, 8, '0'),"
                f" (n <= {bounds[-2]})::INTEGER, 2 * (n <= {bounds[-2]})::INTEGER,"
                f" CASE WHEN n <= {bounds[-2]} THEN relogio() END, CASE WHEN n <= {bounds[0]} THEN relogio() END,"
                f" CASE WHEN n > {bounds[-3]} AND n <= {bounds[-2]} THEN relogio() - INTERVAL '1 second' END"
                f" FROM generate_series(1, {rows}) AS n".encode()
            )
            connection.execute(f"ALTER TABLE {TABLE} ADD PRIMARY KEY (inquilino, documento_id)".encode())
            connection.execute(f"VACUUM (ANALYZE) {TABLE}".encode())
            yield connection
        finally:
            if not connection.closed:
                connection.execute(f"DROP TABLE IF EXISTS {TABLE}".encode())


def index(connection: psycopg.Connection, form: str) -> int:
    """Make this form the table's only index besides its key; returns its size in bytes."""
    connection.execute(b"DROP INDEX IF EXISTS medida_idx")
    if FORMS[form]:
        connection.execute(FORMS[form].encode())
    row = connection.execute("SELECT coalesce(pg_relation_size(to_regclass('medida_idx')), 0)").fetchone()
    assert row
    return int(row[0])


def write_costs(conninfo: str, connection: psycopg.Connection, rounds: int, seen: Seen = lambda line: None) -> Measured:
    """What a change of state costs under each form, in interleaved rounds: WAL bytes (own_wal), and how many are heap-only.

    In a run some of the documents that are due, each on a page with room, become processando, one statement each.
    """
    due = f"SELECT documento_id FROM {TABLE} WHERE status = 'pendente' ORDER BY disponivel_em, documento_id"
    some = [number for (number,) in connection.execute(due.encode())][::5][:CHANGES]

    def prepare(form: str) -> None:
        connection.execute(f"UPDATE {TABLE} SET status = 'pendente' WHERE documento_id = ANY(%s)".encode(), [some])
        index(connection, form)
        connection.execute(f"VACUUM {TABLE}".encode())

    written = 0

    def run() -> int:
        nonlocal written
        written = 0
        with SessionPins().psycopg_connection(conninfo, "lab/run") as worker:
            for number in some:
                change = (
                    f"UPDATE {TABLE} SET status = 'processando', tentativas = tentativas + 1, versao = versao + 1"
                    " WHERE inquilino = 'padrao' AND documento_id = %s"
                )
                written += explain(worker, change, [number]).wal_bytes
        return len(some)

    ways = [
        Way(form, run, lambda form=form: prepare(form), figures=lambda: {"own_wal": (written / len(some), "B")})  # type: ignore[misc]
        for form in ("none", "full", "partial")
    ]
    return compare(conninfo, ways, rounds, tables=[TABLE], seen=seen)


def _insist_on_room(connection: psycopg.Connection, rows: int) -> None:
    row = connection.execute(
        "SELECT CASE WHEN pg_has_role('pg_read_all_settings', 'MEMBER') THEN current_setting('data_directory') END"
    ).fetchone()
    folder = Path(row[0]) if row and row[0] else None
    needed = rows * BYTES_A_ROW
    try:
        free = shutil.disk_usage(folder).free if folder else None
    except OSError:  # the server is on another machine, or its folder is not ours to look into
        return
    if free is not None and free < 2 * needed:
        mb, there = round(2 * needed / 1e6), round(free / 1e6)
        raise CannotRunHere(
            say(
                f"{rows:,} rows want {mb:,} MB of disk, and {there:,} MB are free.",
                f"{rows:_} linhas pedem {mb:_} MB de disco, e há {there:_} MB livres.".replace("_", "."),
            )
        )
