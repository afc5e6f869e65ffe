"""The receiver: a small HTTP service outside the database, which executes documents and keeps a ledger of its own.

    POST /documents     executes the document, once a key
    GET  /operations    what it knows of a key: 200 with the reference, 202 with in_progress: true, or 404 with known: false
    POST /behaviour     how it shall behave from now on, as JSON: see Behaviour

The key stands in the header Idempotency-Key, percent-encoded: every letter of it arrives, which an address does not promise.
Each answer has an id of its own in the header X-Request-Id. It says on stdout, one JSON object a line, where it listens, when it
holds a call back, and the id of each answer that is a refusal. It listens on this machine only.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import unquote

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from lab.base.errors import LabError
from lab.base.language import say
from lab.receiver.ledger import AnotherContent, Ledger

HOST = "127.0.0.1"
KEY_HEADER = "Idempotency-Key"
RESPONSE_HEADER = "X-Request-Id"
LONGEST_KEY = 401  # letters: a tenant and a document's own key, 200 each at most, and the slash between them
NO_KEY = f"{KEY_HEADER} must hold the key, percent-encoded UTF-8 of at most {LONGEST_KEY} letters"
BOUND = 10_000_000  # bytes of a document, as the loader has it
LONGEST_DELAY = 600.0  # seconds

Answer = Literal["given", "dropped"]
Hold = Literal["nothing", "before", "after"]


@dataclass(frozen=True)
class Behaviour:
    """How the receiver behaves.

    delay: seconds it takes before it executes. failing: it answers 503 and executes nothing. rejecting: it answers 422 and
    executes nothing. answer: "dropped" executes, and then cuts the connection. hold: "before" or "after" executing, a call waits
    until the receiver is told to hold nothing. queries: whether it answers what it knows of a key (else 503).
    """

    delay: float = 0.0
    failing: bool = False
    rejecting: bool = False
    answer: Answer = "given"
    hold: Hold = "nothing"
    queries: bool = True

    def changed(self, wanted: object) -> Behaviour:
        """This behaviour with what the JSON object `wanted` names; raises ValueError for what it does not know."""
        if not isinstance(wanted, dict) or not wanted.keys() <= self.__dict__.keys():
            raise ValueError(say("unknown behaviour", "comportamento desconhecido"))
        new = replace(self, **wanted)
        delay_is_good = type(new.delay) in (int, float) and 0 <= new.delay <= LONGEST_DELAY
        flags_are_good = all(isinstance(flag, bool) for flag in (new.failing, new.rejecting, new.queries))
        if not (delay_is_good and flags_are_good and new.answer in get_args(Answer) and new.hold in get_args(Hold)):
            raise ValueError(say("a value that the behaviour does not take", "um valor que o comportamento não aceita"))
        return new


class Receiver:
    """The service on a ledger; `behaviour` is how it starts."""

    def __init__(self, ledger: Ledger, behaviour: Behaviour) -> None:
        self._ledger = ledger
        self._behaviour = behaviour
        self._changed = asyncio.Condition()
        self._in_progress = Counter[str]()  # calls that are not executed yet, by key

    def application(self) -> Starlette:
        """The service as an ASGI application."""
        return Starlette(
            routes=[
                Route("/documents", self._receive, methods=["POST"]),
                Route("/operations", self._tell, methods=["GET"]),
                Route("/behaviour", self._behave, methods=["POST"]),
            ]
        )

    def headline(self) -> dict[str, object]:
        """Which ledger it keeps, and what is in it: that of an older queue says so before it answers for it."""
        return {"ledger": str(self._ledger.path), "effects": self._ledger.totals().effects}

    async def release(self) -> None:
        """Let every call go on that waits."""
        await self._become(replace(self._behaviour, hold="nothing", delay=0.0))

    async def _receive(self, request: Request) -> Response:
        key = _key(request)
        if key is None:
            return _refusal(400, NO_KEY)
        content = bytearray()
        async for chunk in request.stream():
            content += chunk
            if len(content) > BOUND:
                return _refusal(413, "too large")
        return await self._execute(key, bytes(content))

    async def _execute(self, key: str, content: bytes) -> Response:
        now = self._behaviour
        if now.failing:
            return _refusal(503, "out of order")
        if now.rejecting:
            return _refusal(422, "not accepted")
        with self._at_it(key):
            await self._take_its_time(now.delay)
            await self._hold_back("before")
            try:
                receipt = await run_in_threadpool(self._ledger.execute, key, content)
            except AnotherContent:
                return _refusal(409, "this key was executed with another content")
        await self._hold_back("after")
        if now.answer == "dropped":
            # Promised and not sent: the server can only cut the connection.
            return StreamingResponse(_nothing(), headers={"Content-Length": "1", RESPONSE_HEADER: _new_id()})
        answer = {"reference": receipt.reference, "repeated": receipt.repeated}
        return _answer(answer, 200 if receipt.repeated else 201)

    def _tell(self, request: Request) -> Response:
        if not self._behaviour.queries:
            return _refusal(503, "queries are not answered")
        key = _key(request)
        if key is None:
            return _refusal(400, NO_KEY)
        in_progress = key in self._in_progress  # asked first: what ends in between is known then
        reference = self._ledger.reference(key)
        if reference is None and in_progress:
            return _answer({"in_progress": True}, 202)
        if reference is None:
            # It says so in so many words: any web server answers 404 to a mistyped address.
            return _answer({"known": False}, 404)
        return _answer({"reference": reference})

    @contextmanager
    def _at_it(self, key: str) -> Iterator[None]:
        """Count a call of this key as in progress."""
        self._in_progress[key] += 1
        try:
            yield
        finally:
            self._in_progress[key] -= 1
            if not self._in_progress[key]:
                del self._in_progress[key]

    async def _behave(self, request: Request) -> Response:
        try:
            behaviour = self._behaviour.changed(await request.json())
        except ValueError:
            return _refusal(400, "not a behaviour")
        await self._become(behaviour)
        return _answer(behaviour.__dict__)

    async def _become(self, behaviour: Behaviour) -> None:
        async with self._changed:
            self._behaviour = behaviour
            self._changed.notify_all()

    # A call that waits holds no thread, so that any number of them may, and questions are still answered.

    async def _take_its_time(self, delay: float) -> None:
        """Wait for the delay, or until a shorter one is wanted."""
        with suppress(TimeoutError):
            async with asyncio.timeout(delay), self._changed:
                await self._changed.wait_for(lambda: self._behaviour.delay < delay)

    async def _hold_back(self, moment: Hold) -> None:
        async with self._changed:
            if self._behaviour.hold != moment:
                return
            _tell_event("holding", moment=moment)
            await self._changed.wait_for(lambda: self._behaviour.hold != moment)


def serve(ledger_file: Path, port: int, *, by_key: bool, behaviour: Behaviour) -> None:
    """Run the receiver until SIGTERM or SIGINT.

    ledger_file: its ledger, made if it is not there. port: 0 for any free one; which, it says. by_key: see Ledger.
    Raises LabError if the port is taken, or the file cannot be its ledger.
    """
    with closing(_listener(port)) as listener, closing(Ledger(ledger_file, by_key=by_key)) as ledger:
        server = _Server(Receiver(ledger, behaviour))
        with suppress(KeyboardInterrupt):  # the signal, which uvicorn raises again once it has ended
            server.run(sockets=[listener])


def _listener(port: int) -> socket.socket:
    """A socket that listens already: two may bind one port, and only the first of them may listen."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise LabError(
            say(
                f"The receiver cannot listen on port {port} ({error.strerror}). Choose another one: --port NNNN",
                f"O receptor não consegue escutar na porta {port} ({error.strerror}). Escolha outra: --port NNNN",
            )
        ) from error
    return listener


class _Server(uvicorn.Server):
    """Uvicorn, which says where it listens once it does, and holds no call back when it has to end."""

    def __init__(self, receiver: Receiver) -> None:
        # Nothing is logged: an address carries the key, and an error could carry the document.
        super().__init__(
            uvicorn.Config(receiver.application(), log_config=None, log_level="critical", access_log=False)
        )
        self._receiver = receiver

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        assert sockets
        url = f"http://{HOST}:{sockets[0].getsockname()[1]}"
        _tell_event("listening", url=url, **self._receiver.headline())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._receiver.release()
        await super().shutdown(sockets)


def _key(request: Request) -> str | None:
    """The key of a call or a question; None if it has none, or none that can be told from another one."""
    try:
        key = unquote(request.headers.get(KEY_HEADER, ""), errors="strict")
    except UnicodeDecodeError:
        return None
    return key if 1 <= len(key) <= LONGEST_KEY else None


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


def _answer(content: dict[str, Any], status: int = 200) -> Response:
    return JSONResponse(content, status, {RESPONSE_HEADER: _new_id()})


def _refusal(status: int, why: str) -> Response:
    answer = _answer({"error": why}, status)
    _tell_event("refused", response=answer.headers[RESPONSE_HEADER], status=status)
    return answer


def _new_id() -> str:
    """An id for an answer: it tells nothing of the call, and stands in the log of the caller too."""
    return secrets.token_hex(6)


def _tell_event(event: str, **facts: object) -> None:
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()
