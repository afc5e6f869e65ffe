"""Empty a queue, by pgbench or by the lab's own workers, and count in its tables that nothing was done twice or left out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psycopg
from psycopg import sql

from lab.base import config, wait
from lab.base.errors import LabError
from lab.base.language import say
from lab.protocol import source
from lab.server import psql, schema
from lab.server.binaries import find_program
from lab.server.psql import libpq_environment
from lab.server.session import SCHEMA, SessionPins
from lab.worker import worker
from lab.worker.handler import Answer
from lab.worker.worker import Options

SECONDS = 120.0  # more than any emptying takes: one that lasts longer has failed
FIRST_WITH = {"inquilino": 5, "disponivel_em": 8, "chave_operacao": 9}  # the state that brings the column
AUDITED = 6  # the first state with an audit
PAYLOAD = "xmlparse(DOCUMENT format('<nfe id=\"NFE-%s\"><valor>101.10</valor></nfe>', n))"  # of document n


@dataclass(frozen=True)
class Load:
    """How a queue is emptied: each of `clients` makes `claims` claims of `batch` documents each."""

    clients: int
    claims: int
    batch: int = 1

    @property
    def documents(self) -> int:
        """How many documents that takes, exactly: every claim finds a whole batch, since no other takes more than its share."""
        return self.clients * self.claims * self.batch


class Field:
    """The queue in a state, in a database of its own: filled, emptied and checked, again and again.

    Its clock and its tokens are those of production, not the lab's own. `audited` is whether its functions write an audit.
    """

    def __init__(self, conninfo: str, state: int) -> None:
        self.conninfo = conninfo
        self.state = state
        self.audited = state >= AUDITED
        psql.run_scripts(conninfo, *(each for each in schema.upgrades() if int(each.name[:2]) <= state))

    def fill(self, documents: int, tenants: str = "'padrao'") -> None:
        """Fill it anew with pending documents; `tenants` is an SQL expression of their number n.

        The checkpoint comes first, so that emptying finds every page written since: no full-page image blurs the WAL.
        """
        columns = {
            "chave": "'NFE-' || lpad(n::TEXT, 8, '0')",
            "nome_arquivo": "'nfe-' || n || '.xml'",
            "conteudo_xml": PAYLOAD,
            "criado_em": "clock_timestamp() - INTERVAL '1 hour'",
            "inquilino": tenants,
            "disponivel_em": "clock_timestamp() - INTERVAL '1 hour'",
            "chave_operacao": "'padrao/NFE-' || lpad(n::TEXT, 8, '0')",
        }
        there = {name: of for name, of in columns.items() if FIRST_WITH.get(name, 0) <= self.state}
        tables = ["fila_documentos", *(["auditoria"] if self.state >= AUDITED else [])]
        with self.connection() as connection:
            connection.execute("CHECKPOINT")
            connection.execute(f"TRUNCATE {', '.join(tables)} RESTART IDENTITY".encode())
            connection.execute(
                f"INSERT INTO fila_documentos ({', '.join(there)}) SELECT {', '.join(there.values())}"
                f" FROM generate_series(1, {documents}) AS n".encode()
            )
            connection.execute(f"VACUUM (ANALYZE) {', '.join(tables)}".encode())

    def take_out_the_audit(self) -> None:
        """Write no audit any more: its statements go from the functions."""
        with self.connection() as connection:
            for statement in source.without("audit", self.state):
                connection.execute(statement.encode())
        self.audited = False

    def connection(self) -> psycopg.Connection:
        """A connection of the measurement's own."""
        return SessionPins().psycopg_connection(self.conninfo, "lab/bench")

    def seconds(self) -> float:
        """From the first claim to the last finish, as the documents themselves tell it by the database's clock."""
        return float(
            str(self.one("SELECT extract(epoch FROM max(concluido_em) - min(iniciado_em)) FROM fila_documentos"))
        )

    def one(self, query: str) -> object:
        """The one value that a query gives."""
        with self.connection() as connection:
            row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]

    def check(self, documents: int) -> None:
        """Raise LabError, and so void the run, unless every document was claimed once and finished once, and nothing else was."""
        wanted = {"documents": documents, "finished": documents, "attempts": documents}
        seen = (
            "SELECT json_build_object('documents', count(*), 'finished', count(*) FILTER (WHERE status = 'concluido'),"
            " 'attempts', sum(tentativas)) FROM fila_documentos"
        )
        self._compare("queue", seen, wanted)
        if self.audited:
            changes = (
                "SELECT json_build_object('claims', count(*) FILTER (WHERE (de, para) = ('pendente', 'processando')),"
                " 'finishes', count(*) FILTER (WHERE (de, para) = ('processando', 'concluido')),"
                " 'first', count(*) FILTER (WHERE versao = 1), 'second', count(*) FILTER (WHERE versao = 2),"
                " 'all', count(*), 'tokens', count(DISTINCT token_reserva)) FROM auditoria"
            )
            names = ("claims", "finishes", "first", "second", "tokens")
            self._compare("audit", changes, dict.fromkeys(names, documents) | {"all": 2 * documents})

    def _compare(self, where: str, query: str, wanted: dict[str, int]) -> None:
        seen = self.one(query)
        if seen != wanted:
            raise LabError(
                say(
                    f"The run is void, and no figure of it counts: in the {where} there are {seen}, and there should be {wanted}.",
                    f"A execução é nula, e nenhum número dela vale: há {seen} ({where}), e deveria haver {wanted}.",
                )
            )


def to_disk(field: Field) -> tuple[float, float]:
    """WAL bytes and fsyncs of the whole server so far."""
    bytes_ = field.one("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
    fsyncs = field.one(
        "SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'"
        if int(str(field.one("SHOW server_version_num"))) >= 180000
        else "SELECT wal_sync FROM pg_stat_wal"
    )
    return float(str(bytes_)), float(str(fsyncs))


# -- by pgbench


def by_pgbench(field: Field, load: Load, script: str, *, last: str = "", settings: str = "") -> float:
    """Run a script in pgbench, once for each claim of each client; then, for each client, `last`. Returns documents a second.

    settings: given to the server for these sessions, as libpq's `options`. Variables hold over a client's runs: `batch`, and
    `documents` and `tokens`, at first empty arrays. Raises LabError if pgbench is not here, or if a statement failed.
    """
    program = find_program("pgbench")
    if program is None:
        raise LabError(
            say(
                "pgbench was not found: `./lab doctor` says where it looks.",
                "O pgbench não foi encontrado: veja `./lab doctor`.",
            )
        )
    turns = f"\\if :left > 0\n{script}\\else\n{last}\\endif\n\\set left :left - 1\n" if last else script
    variables = {"left": load.claims, "batch": load.batch, "documents": "{}", "tokens": "{}"}
    with tempfile.TemporaryDirectory(prefix="queue-lab-") as folder:
        file = Path(folder) / "script.sql"
        file.write_text(turns, encoding="utf-8")
        command = [str(program), "--no-vacuum", "--protocol=prepared", f"--file={file}"]
        command += [f"--client={load.clients}", f"--jobs={min(load.clients, os.cpu_count() or 1)}"]
        command += [f"--transactions={load.claims + bool(last)}"]
        command += [f"--define={name}={value}" for name, value in variables.items()]
        done = subprocess.run(
            command,
            env=config.for_process(
                **libpq_environment(field.conninfo) | {"PGOPTIONS": f"-c search_path={SCHEMA} {settings}"}
            ),
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["?"])[-1]
        raise LabError(f"pgbench: {said}")
    _wait_for_the_end(field)
    (runs,) = re.findall(r"^tps = ([\d.]+)", done.stdout, flags=re.MULTILINE)
    return float(runs) * load.documents / (load.clients * (load.claims + bool(last)))


# What a worker sends, to the same functions in the same order. pgbench keeps no rows, so the ids and tokens come as arrays; the
# payload is read, as a worker does.
CLAIM = """\
SELECT
    coalesce(array_agg(documento_id) FILTER (WHERE resultado = 'reservado'), '{}') AS documents,
    coalesce(array_agg(token_reserva) FILTER (WHERE resultado = 'reservado'), '{}') AS tokens,
    sum(length(conteudo_xml::TEXT)) AS payload
FROM concluir_e_reservar(:documents::BIGINT[], :tokens::BIGINT[], NULL, 'pgbench', :batch)
\\gset
"""
FINISH = "SELECT count(*) FROM concluir_lote(:documents::BIGINT[], :tokens::BIGINT[]);\n"


# -- by workers


@dataclass(frozen=True)
class Nothing:
    """Work that is no work, so that what remains is the cost of claiming and finishing."""

    outside = False

    def prepare(self, payload: str) -> bytes:
        """Nothing to be sent."""
        return b""

    def call(self, key: str, content: bytes) -> Answer:
        """Never called."""
        raise NotImplementedError

    def ask(self, key: str) -> str | None:
        """Never asked."""
        raise NotImplementedError


def by_workers(field: Field, load: Load) -> float:
    """Let real workers do it, each a process with its heartbeat and its log; they are released together once all are up.

    Returns the seconds of processor time that they took in all, without their start.
    Raises LabError if one fails, or if what they said they finished is not every document once.
    """
    with tempfile.TemporaryDirectory(prefix="queue-lab-") as folder, ExitStack() as last:
        logs = [Path(folder) / f"worker-{number}.log" for number in range(load.clients)]
        workers = [_start(field, load, log, last) for log in logs]
        for each in workers:
            _expect(each, "ready\n")
        for each in workers:
            assert each.stdin is not None
            each.stdin.write(b"\n")
            each.stdin.flush()
        seconds = 0.0
        for each in workers:
            _, said = each.communicate(timeout=SECONDS)
            if each.returncode != 0:
                status, reason = each.returncode, said.decode().strip()
                raise LabError(
                    say(
                        f"A worker of the benchmark ended with status {status}: {reason}",
                        f"Um worker do benchmark terminou com status {status}: {reason}",
                    )
                )
            seconds += float(said)
        finished = sum(log.read_text(encoding="utf-8").count('"event": "finished"') for log in logs)
    if finished != load.documents:
        raise LabError(
            say(
                f"The run is void: the workers say that they finished {finished} documents of {load.documents}.",
                f"A execução é nula: os workers dizem ter concluído {finished} documentos de {load.documents}.",
            )
        )
    _wait_for_the_end(field)
    return seconds


def _start(field: Field, load: Load, log: Path, last: ExitStack) -> subprocess.Popen[bytes]:
    process = last.enter_context(
        subprocess.Popen(
            [sys.executable, "-P", "-m", "lab.measure.drain", log.stem, str(load.claims), str(load.batch)],
            env=config.for_lab_process(LAB_DSN=field.conninfo),
            stdin=subprocess.PIPE,
            stdout=last.enter_context(log.open("wb")),
            stderr=subprocess.PIPE,
        )
    )
    last.callback(process.kill)
    return process


def _expect(process: subprocess.Popen[bytes], word: str) -> None:
    stream: IO[bytes] | None = process.stderr
    assert stream is not None
    if (said := stream.readline().decode()) != word:
        reason = f"{said}{stream.read().decode()}".strip()
        raise LabError(
            say(f"A worker of the benchmark does not start: {reason}", f"Um worker do benchmark não sobe: {reason}")
        )


def main(arguments: Sequence[str]) -> None:
    """One worker, as a process: name, claims, batch.

    On stderr it says that it is ready, waits for a line to begin, and says in the end how many seconds of processor time it took.
    """
    name, claims, batch = arguments
    options = Options(name, batch=int(batch), rounds=int(claims))
    made = worker.make(config.value("LAB_DSN") or "", Nothing(), options)
    sys.stderr.write("ready\n")
    sys.stderr.flush()
    sys.stdin.readline()
    started = time.process_time()
    made.run()
    sys.stderr.write(f"{time.process_time() - started}\n")


def _wait_for_the_end(field: Field) -> None:
    """Wait until the sessions of the run have ended: only then are their statistics complete."""
    others = sql.SQL(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
        " AND pid <> pg_backend_pid()"
    )
    with field.connection() as connection:
        if not wait.until(lambda: connection.execute(others).fetchone() == (0,), SECONDS):
            raise LabError(say("The sessions of a run did not end.", "As sessões de uma execução não terminaram."))


if __name__ == "__main__":
    main(sys.argv[1:])
