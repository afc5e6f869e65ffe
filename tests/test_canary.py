"""Secrets stay where they belong: a canary in documents and in passwords appears nowhere else that anything of ours writes."""

from __future__ import annotations

import io
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from unittest.mock import patch

import psutil
import psycopg
import pytest
from psycopg import sql

from lab.base import paths
from lab.cli import app
from lab.lessons import registry, report
from lab.lessons.lesson import CheckResult, LessonResult, Observed
from lab.scenario import transcript
from lab.scenario.player import play
from lab.scenario.stage import ScenarioResult
from lab.server import schema, temp_databases
from lab.server.conninfo import NAMING_VARIABLES
from lab.server.embedded import EmbeddedServer
from lab.server.session import SCHEMA
from lab.worker import worker
from lab.worker.client import Claim, Queue
from lab.worker.transactional import finish_together
from lab.worker.worker import Options
from tests.helpers import execute, parsed, short_home
from tests.worker.pretended import Pretended

SECONDS = 60.0
STATE = 10
PAYLOAD = "CANARIO-DOCUMENTO-7d2c"
PASSWORD = "CANARIO-SENHA-7d2c"  # of the role in LAB_DSN
WRONG_PASSWORD = "CANARIO-ERRADA-7d2c"
UNREADABLE = "CANARIO-ILEGIVEL-7d2c"  # a part of a LAB_DSN whose password holds an unescaped @ and /

# Where the documents may be, and where the password of the lab's own server is kept.
DOCUMENTS_LIE_IN = ("/data/base/", "/data/pg_wal/")
PASSFILE = "/passfile"

# Documents that the server takes, each of which fails in its own way, or not at all. CONTENT is what they are, to the server.
DOCUMENTS = {
    "BOM-1": f"<nfe><valor>1</valor><descricao>{PAYLOAD}</descricao></nfe>",
    "BOM-2": f"<nfe><valor>2</valor><descricao>{PAYLOAD}</descricao></nfe>",
    "BOM-3": f"<nfe><valor>3</valor><descricao>{PAYLOAD}</descricao></nfe>",
    "BOM-4": f"<nfe><valor>4</valor><descricao>{PAYLOAD}</descricao></nfe>",
    "BOM-5": f"<nfe><valor>5</valor><descricao>{PAYLOAD}</descricao></nfe>",
    "SEM-NUMERO": f"<nfe><valor>{PAYLOAD}</valor></nfe>",
    "DOIS": f"<nfe/>{PAYLOAD}<nfe/>",
    "PREFIXO": f"<nfe><{PAYLOAD}:valor>1</{PAYLOAD}:valor></nfe>",
}
# Files that the loader refuses, or the server, and one that goes in.
FILES = {
    "bom.xml": f"<nfe id='BOM-6'><valor>6</valor><d>{PAYLOAD}</d></nfe>",
    "de-novo.xml": f"<nfe id='BOM-6'><valor>7</valor><d>{PAYLOAD}</d></nfe>",
    "malformado.xml": f"<nfe id='BOM-7'>\n<valor>{PAYLOAD}</outro>",
    "entidade.xml": f"<nfe id='BOM-7'>&{PAYLOAD};</nfe>",
    "doctype.xml": f"<!DOCTYPE {PAYLOAD}><nfe id='BOM-7'/>",
    "codificacao.xml": f"<?xml version='1.0' encoding='{PAYLOAD}'?><nfe id='BOM-7'/>",
    "sem-chave.xml": f"<{PAYLOAD}/>",
    "controle.xml": f"<nfe id='BOM-7'>{PAYLOAD}\x01</nfe>",
    "profundo.xml": f"<nfe id='BOM-7'>{'<a>' * 3000}{PAYLOAD}{'</a>' * 3000}</nfe>",
}
# What the receiver answers, one call after the other: refusals, faults and nonsense, which all quote the document.
QUOTED = json.dumps({"error": PAYLOAD}).encode()
ANSWERS = [(503, QUOTED), (409, QUOTED), (422, QUOTED), (200, PAYLOAD.encode()), (200, b'{"reference": "R-1"}')]


@dataclass
class Scene:
    """A server of its own on which everything of ours is run; `written` is all that it wrote, by place."""

    home: Path
    server: EmbeddedServer
    said: dict[str, bytes] = field(default_factory=dict)
    processes: set[str] = field(default_factory=set)
    written: dict[str, bytes] = field(default_factory=dict)

    def dsn(self, database: str = "lab", password: str = PASSWORD) -> str:
        return f"postgresql://canario:{password}@127.0.0.1:{self.server.passfile.port()}/{database}"

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("LAB_DSN", *NAMING_VARIABLES)}
        ours = {"PYTHONPATH": str(paths.ROOT / "scripts"), "COLUMNS": "200", "LAB_HOME": str(self.home)}
        return {**kept, **ours, "TMPDIR": str(self.home / "tmp"), **variables}

    def lab(self, *arguments: str, **variables: str) -> int:
        """Run a command to its end, in this process, which is the faster for it; returns its status."""
        handler = signal.getsignal(signal.SIGTERM)
        try:
            with (
                patch.dict(os.environ, self.environment(variables), clear=True),
                patch.object(tempfile, "tempdir", str(self.home / "tmp")),
                patch.object(sys, "argv", ["lab", *arguments]),
                redirect_stdout(io.StringIO()) as output,
                redirect_stderr(io.StringIO()) as errors,
                pytest.raises(SystemExit) as ended,
            ):
                app.main()
        finally:
            signal.signal(signal.SIGTERM, handler)
        self._keep(" ".join(["lab", *arguments[:2]]), output.getvalue().encode(), errors.getvalue().encode())
        return int(ended.value.code or 0)

    @contextmanager
    def started(self, *arguments: str, **variables: str) -> Iterator[Running]:
        """A command that runs while the block does; it is killed at its end, if it has not ended by then."""
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "lab", *arguments],
            env=self.environment(variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        running = Running(process, self.processes)
        try:
            yield running
        finally:
            process.kill()
            rest, errors = process.communicate(timeout=SECONDS)
            self._keep(" ".join(["lab", *arguments[:3]]), running.heard + rest, errors)

    def inside(self, name: str, text: str) -> None:
        self.said[f"output: {name}"] = text.encode()

    def _keep(self, name: str, output: bytes, errors: bytes) -> None:
        number = sum(place.startswith(f"output: {name} ") for place in self.said) // 2 + 1
        self.said[f"output: {name} {number} stdout"] = output
        self.said[f"output: {name} {number} stderr"] = errors


@dataclass
class Running:
    """A command at work; `heard` is what was read of it so far, `seen` the command lines of all processes meanwhile."""

    process: subprocess.Popen[bytes]
    seen: set[str]
    heard: bytes = b""

    def hear(self, event: str) -> dict[str, str]:
        """Read on to an event."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.heard += line
            said: dict[str, str] = json.loads(line)
            if said["event"] == event:
                self.seen |= command_lines()
                return said
        raise AssertionError(f"it ended before {event}")


def command_lines() -> set[str]:
    """What everybody on this machine can read of the processes."""
    return {" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])}


@contextmanager
def quoting_receiver() -> Iterator[str]:
    """A receiver whose answers quote the document; returns its address."""
    answers = iter(ANSWERS)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status, body = next(answers)
            self.send_response(status, PAYLOAD)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    service = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{service.server_port}"
    finally:
        service.shutdown()
        thread.join()
        service.server_close()


# -- everything of ours that writes


def roles_and_databases(scene: Scene) -> None:
    assert scene.lab("up") == 0
    with psycopg.connect(scene.server.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE ROLE canario LOGIN SUPERUSER")
        connection.execute("CREATE DATABASE outro")
        temp_databases.set_password(connection, "canario", PASSWORD)
    schema.build(scene.dsn(), STATE)


def loader_runs(scene: Scene) -> None:
    folder = scene.home.parent / f"{scene.home.name}-files"  # the documents themselves: no place of ours
    folder.mkdir()
    try:
        for name, text in FILES.items():
            (folder / name).write_text(text, encoding="utf-8")
        (folder / "latin.xml").write_bytes(f"<nfe id='BOM-7'>{PAYLOAD}ã</nfe>".encode("latin-1"))
        assert scene.lab("load", *(str(file) for file in sorted(folder.iterdir())), LAB_DSN=scene.dsn()) == 1
        own = {"PGHOST": "127.0.0.1", "PGPORT": str(scene.server.passfile.port()), "PGUSER": "lab", "PGDATABASE": "lab"}
        passfile = {"PGPASSFILE": str(scene.server.passfile.path)}
        assert scene.lab("load", str(folder / "de-novo.xml"), **own, **passfile) == 1
        # A server that refuses a document in words of the document's own.
        execute(
            scene.dsn(),
            f"SET search_path = {SCHEMA}; CREATE FUNCTION recusar() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION '%', NEW.conteudo_xml USING DETAIL = NEW.conteudo_xml, ERRCODE = '58030'; END $$;"
            " CREATE TRIGGER recusar BEFORE INSERT ON fila_documentos FOR EACH ROW EXECUTE FUNCTION recusar()",
        )
        (folder / "novo.xml").write_text(f"<nfe id='BOM-8'><d>{PAYLOAD}</d></nfe>", encoding="utf-8")
        assert scene.lab("load", str(folder / "novo.xml"), LAB_DSN=scene.dsn()) == 1
        execute(scene.dsn(), f"DROP FUNCTION {SCHEMA}.recusar CASCADE")
    finally:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def enqueue(scene: Scene, tenant: str, documents: Mapping[str, str]) -> None:
    """Bring in documents of a tenant of their own, so that nobody else claims them; also what enfileirar itself refuses."""
    with psycopg.connect(scene.dsn(), autocommit=True) as connection:
        for key, text in documents.items():
            enqueued = sql.SQL("SELECT documento_id FROM {}.enfileirar(%s, 'canario.xml', '<nfe/>', %s)")
            connection.execute(enqueued.format(sql.Identifier(SCHEMA)), [key, tenant])
            filled = sql.SQL("UPDATE {}.fila_documentos SET conteudo_xml = %s::XML WHERE chave = %s")
            connection.execute(filled.format(sql.Identifier(SCHEMA)), [text, key])


def work_raises(scene: Scene) -> None:
    """A worker in this process, whose work fails in the words of its document; some by the server's own."""

    def ask_the_server(payload: str) -> bytes:
        with psycopg.connect(scene.dsn(), autocommit=True) as connection:
            connection.execute("SELECT xmlparse(DOCUMENT %s)", [f"<a>{payload}"])
        return b""

    def is_no_number(payload: str) -> bytes:
        with psycopg.connect(scene.dsn(), autocommit=True) as connection:
            connection.execute("SELECT %s::NUMERIC", [payload])
        return b""

    def raises(error: type[Exception]) -> object:
        def prepare(payload: str) -> bytes:
            raise error(f"{PAYLOAD} {payload}")

        return prepare

    prepares = [ask_the_server, is_no_number, *map(raises, (ValueError, OSError, RuntimeError, KeyError))]
    for prepare in prepares:
        enqueue(scene, "levanta", {f"PROVA-{secrets.token_hex(4)}": f"<nfe>{PAYLOAD}</nfe>"})
        pretended = Pretended()
        pretended.prepare = prepare  # type: ignore[assignment, method-assign]
        options = Options("worker-p", rounds=1, batch=50, beat=0.0, tenant="levanta")
        with redirect_stdout(io.StringIO()) as output, redirect_stderr(output):
            worker.make(scene.dsn(), pretended, options).run()
        scene.inside(f"worker whose work raises {len(scene.said)}", output.getvalue())


def work_inside(scene: Scene) -> None:
    """Work in the finishing transaction, refused by the server in words of the document."""

    def book(connection: psycopg.Connection, claim: Claim) -> None:
        connection.execute("SELECT %s::NUMERIC", [claim.payload])

    for savepoints in (True, False):
        enqueue(scene, "dentro", {f"DENTRO-{savepoints}": f"<nfe>{PAYLOAD}</nfe>"})
        queue = Queue(scene.dsn(), "lab/worker-i")
        try:
            finish_together(queue, queue.claim("worker-i", 5, 30, "dentro"), book, savepoints=savepoints)
        finally:
            queue.close()


def worker_meets_a_quoting_receiver(scene: Scene) -> None:
    enqueue(scene, "citado", DOCUMENTS)
    with quoting_receiver() as url:
        once = ("worker", "--receiver", url, "--tenant", "citado", "--once", "--batch", "50")
        assert scene.lab(*once, LAB_DSN=scene.dsn()) == 0


def workers_killed_and_cut_off(scene: Scene) -> None:
    """One loses its connections while it works, one is killed after its call; the receiver is told nonsense."""
    books = str(scene.home / "receiver.sqlite3")
    with scene.started("receiver", "--ledger", books, "--port", "0", LAB_DSN=scene.dsn()) as receiver:
        url = receiver.hear("listening")["url"]
        at = ("--receiver", url, "--tenant", "corte", "--once", "--batch", "2")
        enqueue(scene, "corte", {f"CORTE-{number}": DOCUMENTS["BOM-1"] for number in range(4)})
        with scene.started("worker", "--name", "worker-c", *at, "--stop-at", "calling", LAB_DSN=scene.dsn()) as cut:
            cut.hear("at")
            ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name LIKE 'lab/worker-c%'"
            execute(scene.dsn(), ended)
            assert cut.process.stdin
            cut.process.stdin.write(b"\n")
            cut.process.stdin.flush()
            cut.hear("database_lost")
            cut.hear("stopped")
        with scene.started("worker", "--name", "worker-k", *at, "--stop-at", "called", LAB_DSN=scene.dsn()) as killed:
            killed.hear("at")
            killed.process.kill()
        receiver.process.send_signal(signal.SIGTERM)
        receiver.process.wait(SECONDS)


def commands_run(scene: Scene) -> None:
    outro = scene.dsn("outro")
    scene.lab("status")
    scene.lab("doctor")
    assert scene.lab("env") == 0
    assert scene.lab("top", "--times", "1", LAB_DSN=scene.dsn()) == 0
    assert scene.lab("check-permissions", LAB_DSN=scene.dsn()) in (0, 1)
    assert scene.lab("run", "01", "--json", str(scene.home / "run.json"), LAB_DSN=outro) == 0
    assert scene.lab("drill", "kill_after_claim", LAB_DSN=outro) == 0
    for dsn in (scene.dsn(password=WRONG_PASSWORD), f"postgresql://lab:a@b/{UNREADABLE}@db/{UNREADABLE}"):
        assert scene.lab("doctor", LAB_DSN=dsn) == 1
        assert scene.lab("worker", "--once", LAB_DSN=dsn) == 1


def a_play_quotes_documents(scene: Scene) -> None:
    """A scenario in which the server refuses a document in its own words: its transcript and its JSON."""
    told = parsed(
        "-- @step a_parses A errors 2200M\n"
        "SELECT xmlparse(DOCUMENT '<a>' || conteudo_xml::TEXT) FROM fila_documentos WHERE chave = 'BOM-1';\n"
        "-- @step a_casts A errors 22P02\n"
        "SELECT conteudo_xml::TEXT::NUMERIC FROM fila_documentos WHERE chave = 'BOM-1';\n"
    )
    played = play(told, scene.dsn())
    assert played.failure is None
    scene.said["transcript: golden"] = transcript.golden(played).encode()
    lesson = registry.find("01")
    result = ScenarioResult(played, "")
    claim = CheckResult(lesson.checks[0], Observed(True, "", ""), (told.name,))
    run = report.as_json([LessonResult(lesson, [claim], [result], 0.0)], {}, "", 0.0)
    scene.said["transcript: JSON"] = json.dumps(run).encode()


# -- every place that is searched


def places(scene: Scene) -> dict[str, bytes]:
    """All that was written, by place: outputs, transcripts, process lists, files, rows, statements that the server shows."""
    found = {**scene.said, **rows(scene, "in the end")}
    found["process list"] = "\n".join(scene.processes).encode()
    for root in {scene.home, scene.server.base}:
        for file in root.rglob("*"):
            if file.is_file():
                found[f"file: {file.relative_to(root.parent)}"] = file.read_bytes()
    with psycopg.connect(scene.server.conninfo(), autocommit=True) as connection:
        shown = connection.execute("SELECT query FROM pg_stat_activity").fetchall()
        found["statements"] = "\n".join(row[0] or "" for row in shown).encode()
    return found


def rows(scene: Scene, moment: str) -> dict[str, bytes]:
    """Every table and view of the queue as text, but for the column of the documents."""
    found = {}
    for database in ("lab", "outro"):
        with psycopg.connect(scene.server.conninfo(database), autocommit=True) as connection:
            names = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
            for (table,) in connection.execute(names, [SCHEMA]).fetchall():
                each = sql.SQL("SELECT (to_jsonb(t) - 'conteudo_xml')::TEXT FROM {} AS t")
                told = connection.execute(each.format(sql.Identifier(SCHEMA, table)))
                found[f"rows: {database} {table} {moment}"] = "\n".join(row[0] for row in told).encode()
    return found


def where(written: Mapping[str, bytes], secret: str) -> list[str]:
    """The places in which a secret stands."""
    return sorted(place for place, text in written.items() if secret.encode() in text)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with short_home() as home:
        (home / "tmp").mkdir()
        told = Scene(home, EmbeddedServer(home))
        try:
            roles_and_databases(told)
            loader_runs(told)
            for failing in (work_raises, work_inside, worker_meets_a_quoting_receiver):
                failing(told)
                told.said |= rows(told, f"after {failing.__name__}")  # a later attempt takes the errors away
            a_play_quotes_documents(told)
            workers_killed_and_cut_off(told)
            commands_run(told)
            told.written = places(told)
            yield told
        finally:
            told.server.down()


# -- the claims


def test_a_document_stands_in_its_column_only(scene: Scene) -> None:
    elsewhere = [place for place in where(scene.written, PAYLOAD) if not any(lie in place for lie in DOCUMENTS_LIE_IN)]
    assert elsewhere == []


def test_a_password_stands_in_the_passfile_only(scene: Scene) -> None:
    own = scene.server.passfile.password()
    assert [place for place in where(scene.written, own) if not place.endswith(PASSFILE)] == []
    for password in (PASSWORD, WRONG_PASSWORD, UNREADABLE):
        assert where(scene.written, password) == []


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("output: lab load", "line 2, column"),
        ("output: lab load", "BOM-6"),
        ("output: lab worker", '"category": "conteudo"'),
        ("output: lab worker", '"category": "sistemico"'),
        ("output: lab worker", '"event": "database_lost"'),
        ("output: lab worker", '"event": "called"'),
        ("output: lab worker", "LAB_DSN"),
        ("output: lab receiver", "listening"),
        ("output: lab drill", "kill_after_claim"),
        ("output: lab doctor", "password"),
        ("output: lab env", "PGPASSFILE"),
        ("output: lab top", "PostgreSQL"),
        ("output: lab check-permissions", "enfileirar"),
        ("output: lab run", "01"),
        ("output: worker whose work raises", '"event": "failed"'),
        ("transcript: golden", "2200M"),
        ("transcript: JSON", "a_casts"),
        ("process list", "worker-k"),
        ("file: ", "ready to accept connections"),
        ("file: ", '"lessons"'),
        ("file: ", "SQLite format 3"),
        ("rows: lab fila_documentos", "SQLSTATE 2200M"),
        ("rows: lab fila_documentos", "HTTP 422"),
        ("rows: lab fila_documentos", "HTTP 503"),
        ("rows: lab fila_documentos", "malformed XML"),
        ("rows: lab fila_documentos", "ValueError"),
        ("rows: lab auditoria", "falha conteudo"),
        ("rows: outro auditoria", "reserva vencida"),
        ("statements", "pg_stat_activity"),
    ],
)
def test_what_is_searched_holds_what_was_to_happen(place: str, text: str, scene: Scene) -> None:
    assert [name for name in where(scene.written, text) if name.startswith(place)]


def test_the_search_finds_a_canary_that_is_planted(scene: Scene) -> None:
    """The control: planted in each kind of place, it is found there; and the documents do hold it."""
    assert any("/data/pg_wal/" in place for place in where(scene.written, PAYLOAD))
    assert [place for place in where(scene.written, scene.server.passfile.password()) if place.endswith(PASSFILE)]
    planted = "CANARIO-PLANTADO-7d2c"
    (scene.home / "esquecido").write_text(planted)
    with scene.started("psql", "-c", f"SELECT '{planted}'") as asked:
        asked.process.wait(SECONDS)
    scene.lab("nonsense", planted)
    with scene.started("worker", "--name", planted) as started:
        started.hear("started")
    with psycopg.connect(scene.server.conninfo(), autocommit=True) as connection:
        connection.execute("SET log_statement = 'all'")
        connection.execute(
            f"UPDATE {SCHEMA}.fila_documentos SET ultimo_erro = '{planted}' WHERE documento_id = 1".encode()
        )
        found = where(places(scene), planted)
    for place in ("file: ", "output: lab psql", "output: lab worker", "process list", "rows: lab fila_documentos"):
        assert [name for name in found if name.startswith(place)], place
    assert [name for name in found if name.endswith("/log")]
    assert [name for name in found if name == "statements"]
