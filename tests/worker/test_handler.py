"""The call to the receiver, and what is read of a document for it."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from contextlib import suppress

import pytest

from lab.worker.failures import Unanswered
from lab.worker.handler import PostToReceiver


def test_a_receiver_that_drips_has_no_more_time_than_one_that_answers() -> None:
    class Dripping(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            with suppress(OSError):
                self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
                while not over.wait(0.1):
                    self.request.sendall(b" ")

    over = threading.Event()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Dripping) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        longest = threading.Timer(10, over.set)
        longest.start()
        started = time.monotonic()
        with pytest.raises(Unanswered, match="timeout"):
            PostToReceiver(f"http://127.0.0.1:{server.server_address[1]}", timeout=0.5).call("k", b"x")
        assert time.monotonic() - started < 5
        over.set()
        longest.cancel()
        server.shutdown()


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        ('<nfe id="NFE-0001"><valor>101.10</valor></nfe>', "101.10"),
        (
            '<NFe xmlns="http://www.portalfiscal.inf.br/nfe"><infNFe><total><ICMSTot><vNF>7.50</vNF></ICMSTot></total></infNFe></NFe>',
            "7.50",
        ),
    ],
)
def test_the_value_of_a_document_is_read(payload: str, value: str) -> None:
    assert json.loads(PostToReceiver("http://127.0.0.1:1").prepare(payload)) == {"valor": value}


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        ("X-Request-Id: a-1\r\n", "a-1"),
        (f"X-Request-Id: <\x1b[31m{'x' * 99}\r\n", f"%3C%1B%5B31m{'x' * 52}"),
        ("", None),
    ],
)
def test_the_id_of_an_answer_is_kept_short_and_escaped(header: str, kept: str | None) -> None:
    class Refusing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(f"HTTP/1.1 503 -\r\n{header}Content-Length: 0\r\n\r\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(Unanswered) as caught:
            PostToReceiver(f"http://127.0.0.1:{server.server_address[1]}").call("k", b"x")
        server.shutdown()
    assert caught.value.failure.response == kept
