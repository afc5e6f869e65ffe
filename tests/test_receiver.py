"""The receiver: a process of its own, whose books say what was executed, whatever becomes of it or of its callers."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from lab.child import Child
from lab.effect import PostToReceiver
from lab.errors import LabError
from lab.failure import NotSent, Rejected, Unanswered
from lab.ledger import AnotherContent, Books, Ledger
from lab.receiver import Behaviour

CONTENT = b'{"valor": "101.10"}'
OTHER = b'{"valor": "999.99"}'
KEY = "padrao/NFE-0001"

Open = Callable[..., tuple[Child, PostToReceiver]]


@pytest.fixture
def books(tmp_path: Path) -> Path:
    return tmp_path / "receiver.sqlite3"


@pytest.fixture
def open_receiver(books: Path) -> Iterator[Open]:
    """Starts receivers on the same books; they end with the test."""
    opened: list[Child] = []

    def start(*options: str, port: int = 0) -> tuple[Child, PostToReceiver]:
        receiver = Child("receiver", "--ledger", str(books), "--port", str(port), *options, environment={})
        opened.append(receiver)
        return receiver, PostToReceiver(receiver.wait_for("listening")["url"])

    yield start
    for receiver in opened:
        receiver.close()


def totals(books: Path) -> Books:
    ledger = Ledger(books)
    try:
        return ledger.books()
    finally:
        ledger.close()


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


def test_a_key_is_executed_once_and_gets_its_first_result_back(books: Path, open_receiver: Open) -> None:
    _, post = open_receiver()
    assert [post.call(KEY, CONTENT).reference for _ in range(3)] == ["R-000001"] * 3
    assert post.call("padrao/NFE-0002", CONTENT).reference == "R-000002"
    assert totals(books) == Books(operations=2, effects=2, refused=2)
    assert totals(books).duplicates == 0


def test_without_keys_a_repeated_call_is_executed_again(books: Path, open_receiver: Open) -> None:
    _, post = open_receiver("--without-keys")
    assert [post.call(KEY, CONTENT).reference for _ in range(2)] == ["R-000001", "R-000002"]
    assert totals(books) == Books(operations=1, effects=2, refused=0)
    assert totals(books).duplicates == 1
    assert post.ask(KEY) == "R-000001"


def test_a_key_with_another_content_is_rejected_and_not_executed(books: Path, open_receiver: Open) -> None:
    _, post = open_receiver()
    post.call(KEY, CONTENT)
    with pytest.raises(Unanswered, match="409") as refusal:
        post.call(KEY, OTHER)
    assert refusal.value.failure.category == "conteudo"
    assert totals(books).effects == 1


def test_it_tells_what_it_knows_of_a_key(open_receiver: Open) -> None:
    _, post = open_receiver()
    assert post.ask(KEY) is None
    post.call(KEY, CONTENT)
    assert post.ask(KEY) == "R-000001"


@pytest.mark.parametrize("key", ["a b", "á/ç", "a?b=c#d", "a%2Fb", "x" * 200])
def test_a_key_arrives_as_it_was_sent(open_receiver: Open, key: str) -> None:
    _, post = open_receiver()
    reference = post.call(key, CONTENT).reference
    assert post.ask(key) == reference
    assert post.ask(key + "x") is None


def test_its_books_survive_its_death(books: Path, open_receiver: Open) -> None:
    receiver, post = open_receiver()
    post.call(KEY, CONTENT)
    receiver.kill()
    with pytest.raises(NotSent):
        post.call(KEY, CONTENT)
    _, again = open_receiver(port=urlsplit(post.url).port)
    assert again.url == post.url
    assert again.call(KEY, CONTENT).reference == "R-000001"
    assert totals(books) == Books(operations=1, effects=1, refused=1)


def test_two_ledgers_on_one_file_execute_a_key_once(books: Path) -> None:
    one, other = Ledger(books), Ledger(books)
    assert (one.execute(KEY, CONTENT).repeated, other.execute(KEY, CONTENT).repeated) == (False, True)
    with pytest.raises(AnotherContent):
        other.execute(KEY, OTHER)
    assert one.effects() == {KEY: 1}
    one.close()
    other.close()


# Misbehaving, as it is told to


def test_failing_it_executes_nothing(books: Path, open_receiver: Open) -> None:
    _, post = open_receiver("--behaviour", '{"failing": true}')
    with pytest.raises(Unanswered, match="503") as failure:
        post.call(KEY, CONTENT)
    assert failure.value.failure.category == "sistemico"
    assert totals(books).effects == 0


def test_rejecting_it_executes_nothing(books: Path, open_receiver: Open) -> None:
    _, post = open_receiver()
    behave(post, rejecting=True)
    with pytest.raises(Rejected, match="422"):
        post.call(KEY, CONTENT)
    assert totals(books).effects == 0


def test_a_dropped_answer_leaves_the_caller_in_the_dark_and_the_effect_in_the_books(
    books: Path, open_receiver: Open
) -> None:
    _, post = open_receiver()
    behave(post, answer="dropped")
    with pytest.raises(Unanswered) as failure:
        post.call(KEY, CONTENT)
    assert failure.value.failure.category == "conexao"
    assert totals(books).effects == 1
    assert post.ask(KEY) == "R-000001"


def test_a_slow_one_outlasts_the_callers_patience(books: Path, open_receiver: Open) -> None:
    receiver, post = open_receiver()
    behave(post, hold="after")
    with pytest.raises(Unanswered) as failure:
        PostToReceiver(post.url, timeout=0.2).call(KEY, CONTENT)
    assert failure.value.failure.category == "sistemico"
    assert receiver.wait_for("holding")["moment"] == "after"
    assert totals(books).effects == 1
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


def test_a_call_without_a_key_or_with_too_much_is_refused(books: Path, open_receiver: Open) -> None:
    _, post = open_receiver()
    assert ask(post.url, "POST", "/documents", CONTENT)[0] == 400
    assert ask(post.url, "POST", "/documents", CONTENT, {"Idempotency-Key": "k" * 301})[0] == 400
    assert ask(post.url, "POST", "/documents", b"x" * 10_000_001, {"Idempotency-Key": "k"})[0] == 413
    assert totals(books).effects == 0


def test_a_404_in_other_words_does_not_mean_that_the_key_is_unknown() -> None:
    def answer() -> None:
        connection, _ = stranger.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

    with socket.create_server(("127.0.0.1", 0)) as stranger:
        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(Unanswered, match="404"):
            PostToReceiver(f"http://127.0.0.1:{stranger.getsockname()[1]}").ask(KEY)
        thread.join()


def test_it_ends_when_asked_to_even_while_it_holds_a_call_back(open_receiver: Open) -> None:
    receiver, post = open_receiver("--behaviour", '{"hold": "before"}')
    with pytest.raises(Unanswered):
        PostToReceiver(post.url, timeout=0.2).call(KEY, CONTENT)
    receiver.wait_for("holding")
    receiver.terminate()
    receiver.drain()


def test_a_port_that_is_taken_is_named(books: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        receiver = Child("receiver", "--ledger", str(books), "--port", str(port), environment={})
        try:
            with pytest.raises(LabError, match=f"cannot listen on port {port}"):
                receiver.wait_for("listening")
        finally:
            receiver.close()


@pytest.mark.parametrize("url", ["127.0.0.1:8090", "https://127.0.0.1:1", "", "http://", "ftp://a"])
def test_what_is_no_address_of_a_receiver_is_refused(url: str) -> None:
    with pytest.raises(LabError, match="is no address of a receiver"):
        PostToReceiver(url)
