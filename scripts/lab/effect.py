"""The work on a document: read it safely, and post it to the receiver under its key."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from defusedxml.ElementTree import fromstring

from lab.errors import LabError
from lab.failure import BadDocument, NotSent, Unanswered, classify, of_status
from lab.language import say

NFE = "{http://www.portalfiscal.inf.br/nfe}"
LONGEST_ANSWER = 65_536  # bytes


class Work(Protocol):
    """What a worker does with a document: the one part that is yours to replace.

    `prepare` works on the payload alone. `call` does what cannot be undone, once for each key. `ask` says what became of a key.
    Work that is not `outside` is over when it is prepared: nothing is called, asked, or staged.
    """

    @property
    def outside(self) -> bool:
        """Whether it calls the outside."""

    def prepare(self, payload: str) -> bytes:
        """What is to be sent. Raises BadDocument, or what `failure.classify` knows."""

    def call(self, key: str, content: bytes) -> str:
        """Have it executed; returns the receiver's reference. Raises NotSent, Unanswered or Rejected."""

    def ask(self, key: str) -> str | None:
        """The reference of what was executed under this key, None if nothing was. Raises Unanswered."""


@dataclass(frozen=True)
class PostToReceiver:
    """The lab's own work: the document's value is posted to the receiver (url), which answers within `timeout` seconds."""

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

    def call(self, key: str, content: bytes) -> str:
        status, answer = self._exchange("POST", "/documents", content, _key(key))
        if status not in (200, 201):
            raise of_status(status)
        return _reference(answer)

    def ask(self, key: str) -> str | None:
        status, answer = self._exchange("GET", "/operations", headers=_key(key))
        if status == 404 and answer.get("known") is False:
            return None
        if status != 200:
            raise Unanswered("sistemico", f"HTTP {status}")
        return _reference(answer)

    def _exchange(
        self, method: str, path: str, content: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """One request on a connection of its own; raises NotSent or Unanswered."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=self.timeout)
        try:
            connection.connect()
        except OSError as error:
            raise NotSent("conexao", f"the receiver is not there: {type(error).__name__}") from None
        try:
            connection.request(method, path, content, headers or {})
            response = connection.getresponse()
            body = response.read(LONGEST_ANSWER)
            if response.length:  # promised, and not sent
                raise http.client.IncompleteRead(body)
        except (OSError, http.client.HTTPException) as error:
            failure = classify(error)
            raise Unanswered(failure.category, failure.reason) from None
        finally:
            connection.close()
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        return response.status, answer if isinstance(answer, dict) else {}


def _key(key: str) -> dict[str, str]:
    """The header that carries a key: an address, which proxies log and routers cut, does not."""
    return {"Idempotency-Key": quote(key)}


def _reference(answer: dict[str, Any]) -> str:
    """The reference in an answer, if it is one that the queue can keep; raises Unanswered for any other."""
    reference = answer.get("reference")
    if not isinstance(reference, str) or not reference.strip() or not reference.isprintable() or len(reference) > 200:
        raise Unanswered("sistemico", "an answer without a reference")
    return reference
