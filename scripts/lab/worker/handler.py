"""The work on a document: read it safely, and post it to the receiver under its key."""

from __future__ import annotations

import http.client
import json
import socket
import time
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from defusedxml.ElementTree import fromstring

from lab.base.errors import LabError
from lab.base.language import say
from lab.worker.failures import BadDocument, InProgress, NotSent, Unanswered, classify, of_status

NFE = "{http://www.portalfiscal.inf.br/nfe}"
LONGEST_ANSWER = 65_536  # bytes
LONGEST_ID = 64  # characters, as escaped


@dataclass(frozen=True)
class Answer:
    """What the receiver answers to a call: its reference, and whether it had executed the key before.

    A reference that the queue cannot keep (blank, unprintable, more than 200 characters) is a result all the same, for people.
    """

    reference: str
    repeated: bool = False


class Work(Protocol):
    """What a worker does with a document: the one part that is yours to replace.

    `prepare` works on the payload alone. `call` does what cannot be undone, once for each key. `ask` says what became of a key.
    Work that is not `outside` is over when it is prepared: nothing is called, asked, or staged.
    """

    @property
    def outside(self) -> bool:
        """Whether it calls the outside."""

    def prepare(self, payload: str) -> bytes:
        """What is to be sent. Raises BadDocument, or what `failures.classify` knows."""

    def call(self, key: str, content: bytes) -> Answer:
        """Have it executed. Raises NotSent, Unanswered (InProgress if it is at it already) or Rejected."""

    def ask(self, key: str) -> str | None:
        """The reference of what was executed under this key, None if nothing was. Raises Unanswered, InProgress if it is at it."""


@dataclass(frozen=True)
class PostToReceiver:
    """The lab's own work: the document's value is posted to the receiver (url), which has `timeout` seconds for its whole answer."""

    url: str
    timeout: float = 10.0
    outside = True

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme != "http" or not parts.hostname:
            raise LabError(
                say(
                    f"{self.url} is no address of a receiver: it looks like http://127.0.0.1:8090",
                    f"{self.url} não é endereço de um receptor: ele se parece com http://127.0.0.1:8090",
                )
            )

    def prepare(self, payload: str) -> bytes:
        """The document's value as the receiver takes it."""
        root = fromstring(payload, forbid_dtd=True)
        found = root.find("valor") if root.tag == "nfe" else root.find(f".//{NFE}vNF")
        try:
            value = Decimal("" if found is None else found.text or "")
        except InvalidOperation:
            raise BadDocument("it has no value that is a number") from None
        if not value.is_finite():
            raise BadDocument("it has no value that is a number")
        return json.dumps({"valor": str(value)}).encode()

    def call(self, key: str, content: bytes) -> Answer:
        status, answer, response = self._exchange("POST", "/documents", content, _key(key))
        if status in (202, 409) and answer.get("in_progress") is True:
            raise InProgress(response)
        if status not in (200, 201):
            raise of_status(status, response)
        return Answer(_reference(answer, response), answer.get("repeated") is True)

    def ask(self, key: str) -> str | None:
        status, answer, response = self._exchange("GET", "/operations", headers=_key(key))
        if status == 404 and answer.get("known") is False:
            return None
        if status in (202, 409) and answer.get("in_progress") is True:
            raise InProgress(response)
        if status != 200:
            raise Unanswered("sistemico", f"HTTP {status}", response)
        return _reference(answer, response)

    def _exchange(
        self, method: str, path: str, content: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any], str | None]:
        """One request on a connection of its own: the answer's status, content and id. Raises NotSent or Unanswered."""
        parts = urlsplit(self.url)
        deadline = time.monotonic() + self.timeout
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=self.timeout)
        try:
            connection.connect()
        except OSError as error:
            raise NotSent("conexao", f"the receiver is not there: {type(error).__name__}", _advice(self.url)) from None
        connection.sock = _Timed(connection.sock, deadline)
        response_id = None
        try:
            connection.request(method, path, content, headers or {})
            response = connection.getresponse()
            response_id = _response_id(response)
            body = response.read(LONGEST_ANSWER)
            if response.length:  # promised, and not sent
                raise http.client.IncompleteRead(body)
        except (OSError, http.client.HTTPException) as error:
            failure = classify(error)
            raise Unanswered(failure.category, failure.reason, response_id) from None
        finally:
            connection.close()
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        return response.status, answer if isinstance(answer, dict) else {}, response_id


def _key(key: str) -> dict[str, str]:
    """The header that carries a key: an address, which proxies log and routers cut, does not."""
    return {"Idempotency-Key": quote(key)}


def _response_id(response: http.client.HTTPResponse) -> str | None:
    """The id that the receiver gave its answer, for the log: short, and escaped, as it is not ours."""
    return quote(response.getheader("X-Request-Id", ""), safe=":")[:LONGEST_ID] or None


class _Timed(socket.socket):
    """The socket with a deadline (of time.monotonic) over all that comes and goes, as its own timeout is one for each read."""

    def __init__(self, of: socket.socket, deadline: float) -> None:
        super().__init__(fileno=of.detach())
        self._deadline = deadline

    def sendall(self, *arguments: Any) -> None:
        self._look_at_the_clock()
        super().sendall(*arguments)

    def recv_into(self, *arguments: Any) -> int:
        self._look_at_the_clock()
        return super().recv_into(*arguments)

    def _look_at_the_clock(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.settimeout(left)


def _advice(url: str) -> str:
    return say(
        f"No receiver answers at {url}; the documents are put off, none is lost. Start one: ./lab receiver",
        f"Nenhum receptor responde em {url}; os documentos foram adiados, nenhum se perdeu. Inicie um: ./lab receiver",
    )


def _reference(answer: dict[str, Any], response: str | None) -> str:
    """The reference in an answer, fit to be kept or not; raises Unanswered where there is none."""
    reference = answer.get("reference")
    if not isinstance(reference, str):
        raise Unanswered("sistemico", "an answer without a reference", response)
    return reference
