"""The receiver: a process of its own, whose ledger says what was executed, whatever becomes of it or of its callers."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest
from defusedxml.common import DTDForbidden

from lab.base.errors import LabError
from lab.drills import process
from lab.drills.process import Child
from lab.receiver import service
from lab.receiver.ledger import AnotherContent, Ledger, Totals
from lab.receiver.service import LONGEST_KEY, Behaviour, serve
from lab.server import schema
from lab.worker.failures import InProgress, NotSent, Rejected, Unanswered
from lab.worker.handler import PostToReceiver
from tests.helpers import execute, fetch

CONTENT = b'{"valor": "101.10"}'
OTHER = b'{"valor": "999.99"}'
KEY = "padrao/NFE-0001"

Open = Callable[..., tuple[Child, PostToReceiver]]


@pytest.fixture
def ledger_file(tmp_path: Path) -> Path:
    return tmp_path / "receiver.sqlite3"


@pytest.fixture
def open_receiver(ledger_file: Path) -> Iterator[Open]:
    """Starts receivers on the same ledger; they end with the test."""
    opened: list[Child] = []

    def start(*options: str, port: int = 0) -> tuple[Child, PostToReceiver]:
        receiver = Child("receiver", "--ledger", str(ledger_file), "--port", str(port), *options, environment={})
        opened.append(receiver)
        return receiver, PostToReceiver(receiver.wait_for("listening")["url"])

    yield start
    for receiver in opened:
        receiver.close()


def totals(ledger_file: Path) -> Totals:
    with closing(Ledger(ledger_file)) as ledger:
        return ledger.totals()


def effects(ledger_file: Path) -> dict[str, int]:
    with closing(Ledger(ledger_file)) as ledger:
        return ledger.effects()


def ask(url: str, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> tuple[int, Any]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def behave(post: PostToReceiver, **wanted: Any) -> int:
    return ask(post.url, "POST", "/behaviour", json.dumps(wanted).encode())[0]


# Executing


def test_a_key_is_executed_once_and_gets_its_first_result_back(ledger_file: Path, open_receiver: Open) -> None:
    _, post = open_receiver()
    assert [post.call(KEY, CONTENT).reference for _ in range(3)] == ["R-000001"] * 3
    assert post.call("padrao/NFE-0002", CONTENT).reference == "R-000002"
    assert totals(ledger_file) == Totals(operations=2, effects=2, refused=2)
    assert totals(ledger_file).duplicates == 0


def test_while_a_call_is_held_it_says_that_it_is_at_it_and_of_no_other_key(open_receiver: Open) -> None:
    receiver, post = open_receiver("--behaviour", '{"hold": "before"}')
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(post.call, KEY, CONTENT)
        receiver.wait_for("holding")
        with pytest.raises(InProgress):
            post.ask(KEY)
        assert post.ask("padrao/NFE-0002") is None
        behave(post, hold="nothing")
        assert call.result(timeout=20).reference == post.ask(KEY) == "R-000001"


def test_without_keys_a_repeated_call_is_executed_again(ledger_file: Path, open_receiver: Open) -> None:
    _, post = open_receiver("--without-keys")
    assert [post.call(KEY, CONTENT).reference for _ in range(2)] == ["R-000001", "R-000002"]
    assert totals(ledger_file) == Totals(operations=1, effects=2, refused=0)
    assert totals(ledger_file).duplicates == 1
    assert post.ask(KEY) == "R-000001"


def test_a_key_with_another_content_is_rejected_and_not_executed(ledger_file: Path, open_receiver: Open) -> None:
    _, post = open_receiver()
    post.call(KEY, CONTENT)
    with pytest.raises(Unanswered, match="409") as refusal:
        post.call(KEY, OTHER)
    assert refusal.value.failure.category == "conteudo"
    assert totals(ledger_file).effects == 1


def test_it_tells_what_it_knows_of_a_key(open_receiver: Open) -> None:
    _, post = open_receiver()
    assert post.ask(KEY) is None
    post.call(KEY, CONTENT)
    assert post.ask(KEY) == "R-000001"


@pytest.mark.parametrize(
    "key", ["a b", " a", "á/ç", "a?b=c#d", "a%2Fb", "a+b", "a\nb", "x\n", "../x", "𐍈" * LONGEST_KEY], ids=ascii
)
def test_a_key_arrives_as_it_was_sent(ledger_file: Path, open_receiver: Open, key: str) -> None:
    _, post = open_receiver()
    post.call("x", OTHER)
    reference = post.call(key, CONTENT).reference
    assert post.ask(key) == reference == "R-000002"
    assert effects(ledger_file) == {"x": 1, key: 1}


def test_the_longest_key_that_the_queue_takes_is_taken(database: str, open_receiver: Open) -> None:
    schema.build(database, 9)
    enqueue = "SELECT sql_semana_12.enfileirar(repeat('k', {}), 'a.xml', '<nfe/>', repeat('á', {}))"
    for too_long in [(201, 200), (200, 201)]:
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            execute(database, enqueue.format(*too_long))
    execute(database, enqueue.format(200, 200))
    keys = "SELECT chave_operacao FROM sql_semana_12.fila_documentos ORDER BY length(chave_operacao) DESC LIMIT 1"
    ((longest,),) = fetch(database, keys)
    assert isinstance(longest, str)
    assert len(longest) == LONGEST_KEY
    _, post = open_receiver()
    assert post.call(longest, CONTENT).reference == post.ask(longest)


@pytest.mark.parametrize("header", ["", "%FF", "%ED%A0%80", "k" * (LONGEST_KEY + 1)])
def test_a_key_that_cannot_be_told_from_another_one_is_refused(
    ledger_file: Path, open_receiver: Open, header: str
) -> None:
    _, post = open_receiver()
    assert ask(post.url, "POST", "/documents", CONTENT, {"Idempotency-Key": header})[0] == 400
    assert ask(post.url, "GET", "/operations", headers={"Idempotency-Key": header})[0] == 400
    assert totals(ledger_file).effects == 0


def test_its_ledger_survives_its_death(ledger_file: Path, open_receiver: Open) -> None:
    receiver, post = open_receiver()
    post.call(KEY, CONTENT)
    receiver.kill()
    with pytest.raises(NotSent):
        post.call(KEY, CONTENT)
    revived, again = open_receiver(port=urlsplit(post.url).port)
    assert again.url == post.url
    assert revived.events[0] == {"event": "listening", "url": post.url, "ledger": str(ledger_file), "effects": 1}
    assert again.call(KEY, CONTENT).reference == "R-000001"
    assert totals(ledger_file) == Totals(operations=1, effects=1, refused=1)


def test_two_ledgers_on_one_file_execute_a_key_once(ledger_file: Path) -> None:
    one, other = Ledger(ledger_file), Ledger(ledger_file)
    assert (one.execute(KEY, CONTENT).repeated, other.execute(KEY, CONTENT).repeated) == (False, True)
    with pytest.raises(AnotherContent):
        other.execute(KEY, OTHER)
    assert one.effects() == {KEY: 1}
    one.close()
    other.close()


def test_two_ledgers_on_one_file_execute_a_key_once_however_many_ask_at_the_same_time(ledger_file: Path) -> None:
    keys, callers = [f"k{number}" for number in range(30)], 8
    ledgers = [Ledger(ledger_file), Ledger(ledger_file)]
    together = threading.Barrier(callers)

    def call(caller: int) -> list[str]:
        together.wait(20)
        return [ledgers[caller % 2].execute(key, CONTENT).reference for key in keys]

    with ThreadPoolExecutor(callers) as pool:
        answers = list(pool.map(call, range(callers)))
    assert answers == [answers[0]] * callers
    assert ledgers[0].effects() == dict.fromkeys(keys, 1)
    assert ledgers[0].totals() == Totals(len(keys), len(keys), refused=(callers - 1) * len(keys))
    for ledger in ledgers:
        ledger.close()


def test_what_it_answered_is_on_disk(ledger_file: Path) -> None:
    with closing(Ledger(ledger_file)) as ledger:
        settings = [ledger._file.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert settings == ["wal", 2]  # 2 is FULL: on disk before the commit returns


@pytest.mark.parametrize("name", ["not/there.sqlite3", "folder", "text"])
def test_a_file_that_cannot_be_its_ledger_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("not a database " * 100)
    with pytest.raises(LabError, match=f"{name} cannot be the receiver's ledger"):
        Ledger(tmp_path / name)


# Misbehaving, as it is told to


def test_failing_it_executes_nothing(ledger_file: Path, open_receiver: Open) -> None:
    _, post = open_receiver("--behaviour", '{"failing": true}')
    with pytest.raises(Unanswered, match="503") as failure:
        post.call(KEY, CONTENT)
    assert failure.value.failure.category == "sistemico"
    assert totals(ledger_file).effects == 0


def test_rejecting_it_executes_nothing(ledger_file: Path, open_receiver: Open) -> None:
    _, post = open_receiver()
    behave(post, rejecting=True)
    with pytest.raises(Rejected, match="422"):
        post.call(KEY, CONTENT)
    assert totals(ledger_file).effects == 0


def test_a_dropped_answer_leaves_the_caller_in_the_dark_and_the_effect_in_the_ledger(
    ledger_file: Path, open_receiver: Open
) -> None:
    _, post = open_receiver()
    behave(post, answer="dropped")
    with pytest.raises(Unanswered) as failure:
        post.call(KEY, CONTENT)
    assert failure.value.failure.category == "conexao"
    assert totals(ledger_file).effects == 1
    assert post.ask(KEY) == "R-000001"


def test_a_slow_one_outlasts_the_callers_patience(ledger_file: Path, open_receiver: Open) -> None:
    receiver, post = open_receiver()
    behave(post, hold="after")
    with pytest.raises(Unanswered) as failure:
        PostToReceiver(post.url, timeout=0.2).call(KEY, CONTENT)
    assert failure.value.failure.category == "sistemico"
    assert receiver.wait_for("holding")["moment"] == "after"
    assert totals(ledger_file).effects == 1
    behave(post, hold="nothing", delay=0.05)
    assert post.call(KEY, CONTENT).reference == "R-000001"


def test_it_can_refuse_to_be_asked(open_receiver: Open) -> None:
    _, post = open_receiver()
    post.call(KEY, CONTENT)
    behave(post, queries=False)
    with pytest.raises(Unanswered, match="503"):
        post.ask(KEY)


@pytest.mark.parametrize(
    "wanted",
    [
        '{"delay": -1}',
        '{"delay": "long"}',
        '{"delay": 1e9}',
        '{"hold": "ever"}',
        '{"queries": 1}',
        '{"x": 1}',
        "[]",
        "{",
    ],
)
def test_a_behaviour_that_it_does_not_know_is_refused(open_receiver: Open, wanted: str) -> None:
    _, post = open_receiver()
    assert ask(post.url, "POST", "/behaviour", wanted.encode())[0] == 400
    with pytest.raises(ValueError, match=r"."):
        Behaviour().changed(json.loads(wanted))


# Guarding itself


def test_it_listens_on_this_machine_only(open_receiver: Open) -> None:
    receiver, _ = open_receiver()
    listening = [each.laddr.ip for each in psutil.Process(receiver.pid).net_connections() if each.status == "LISTEN"]
    assert listening == ["127.0.0.1"]


def test_a_call_without_a_key_or_with_too_much_is_refused(ledger_file: Path, open_receiver: Open) -> None:
    _, post = open_receiver()
    assert ask(post.url, "POST", "/documents", CONTENT)[0] == 400
    assert ask(post.url, "POST", "/documents", b"x" * 10_000_001, {"Idempotency-Key": "k"})[0] == 413
    assert totals(ledger_file).effects == 0


def test_a_404_in_other_words_does_not_mean_that_the_key_is_unknown() -> None:
    with stranger(b"404 Not Found", b"{}") as url, pytest.raises(Unanswered, match="404"):
        PostToReceiver(url).ask(KEY)


@pytest.mark.parametrize("reference", [7, None, ["R-1"], True])
def test_what_is_no_text_is_no_reference(reference: object) -> None:
    with (
        stranger(b"200 OK", json.dumps({"reference": reference}).encode()) as url,
        pytest.raises(Unanswered, match="an answer without a reference") as refusal,
    ):
        PostToReceiver(url).ask(KEY)
    assert refusal.value.failure.category == "sistemico"


@pytest.mark.parametrize("reference", ["R 1", "ação/9", "R" * 200, "", " ", "a\0b", "\ud800", "R" * 201])
def test_any_text_is_a_reference_fit_to_be_kept_or_not(reference: str) -> None:
    with stranger(b"200 OK", json.dumps({"reference": reference}).encode()) as url:
        assert PostToReceiver(url).ask(KEY) == reference


@contextmanager
def stranger(status: bytes, body: bytes) -> Iterator[str]:
    """The address of another service, which answers so to the first request."""

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            head = b"HTTP/1.1 %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(body))
            connection.sendall(head + body)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def test_it_ends_when_asked_to_even_while_it_holds_a_call_back(open_receiver: Open) -> None:
    receiver, post = open_receiver("--behaviour", '{"hold": "before"}')
    with pytest.raises(Unanswered):
        PostToReceiver(post.url, timeout=0.2).call(KEY, CONTENT)
    receiver.wait_for("holding")
    receiver.terminate()
    receiver.drain()


def test_it_ends_when_asked_to_even_while_a_call_takes_its_time(
    open_receiver: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, post = open_receiver("--behaviour", '{"delay": 600}')
    with pytest.raises(Unanswered):
        PostToReceiver(post.url, timeout=0.5).call(KEY, CONTENT)
    receiver.terminate()
    monkeypatch.setattr(process, "SECONDS", 20.0)
    receiver.drain()


def test_a_delay_that_is_taken_back_is_waited_for_no_longer(open_receiver: Open) -> None:
    _, post = open_receiver("--behaviour", '{"delay": 600}')
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(post.call, KEY, CONTENT)
        behave(post, delay=0)
        assert call.result().reference == "R-000001"


def test_any_number_of_calls_may_be_held_back_while_questions_are_answered(
    ledger_file: Path, open_receiver: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "SECONDS", 20.0)
    receiver, post = open_receiver("--behaviour", '{"hold": "before"}')
    patient, calls = PostToReceiver(post.url, timeout=60), 60
    with ThreadPoolExecutor(calls) as pool:
        held = [pool.submit(patient.call, f"k{number}", CONTENT) for number in range(calls)]
        try:
            for _ in held:
                receiver.wait_for("holding")
            assert post.ask(KEY) is None
            assert totals(ledger_file).effects == 0
        finally:
            behave(post, hold="nothing")
        assert len({call.result() for call in held}) == calls


def test_a_port_that_is_taken_is_named(ledger_file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        receiver = Child("receiver", "--ledger", str(ledger_file), "--port", str(port), environment={})
        try:
            with pytest.raises(LabError, match=f"cannot listen on port {port}"):
                receiver.wait_for("listening")
        finally:
            receiver.close()


def test_a_port_is_its_own_before_it_opens_its_ledger(ledger_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as rival:
        rival.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        rival.bind(("127.0.0.1", 0))

        def open_ledger(*_: object, **__: object) -> None:
            with pytest.raises(OSError, match="in use"):
                rival.listen()
            raise LabError("seen")

        monkeypatch.setattr(service, "Ledger", open_ledger)
        with pytest.raises(LabError, match="seen"):
            serve(ledger_file, rival.getsockname()[1], by_key=True, behaviour=Behaviour())


# The work that calls it


@pytest.mark.parametrize(
    "payload",
    [
        "<!DOCTYPE nfe><nfe><valor>1</valor></nfe>",
        '<!DOCTYPE nfe SYSTEM "http://127.0.0.1:1/x"><nfe><valor>1</valor></nfe>',
    ],
)
def test_a_document_with_a_doctype_is_not_read_even_without_entities(payload: str) -> None:
    with pytest.raises(DTDForbidden):
        PostToReceiver("http://127.0.0.1:1").prepare(payload)


@pytest.mark.parametrize("url", ["127.0.0.1:8090", "https://127.0.0.1:1", "", "http://", "ftp://a"])
def test_what_is_no_address_of_a_receiver_is_refused(url: str) -> None:
    with pytest.raises(LabError, match="is no address of a receiver"):
        PostToReceiver(url)
