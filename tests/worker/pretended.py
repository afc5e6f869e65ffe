"""Work and a queue that are as a test wants them, and what a worker said in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from defusedxml.ElementTree import fromstring

from lab.worker.client import Claim, Queue
from lab.worker.handler import Answer
from tests.helpers import execute, fetch

CANARY = "CANARIO-4711"


NOWHERE = "host=127.0.0.1 port=1 dbname=x user=x"


MINUTES = "UPDATE sql_semana_12.relogio_do_laboratorio SET adiantado = adiantado + INTERVAL '10 minutes'"


@dataclass
class Pretended:
    """Work without a receiver: what is called and asked is noted, and may go wrong."""

    known: dict[str, str] = field(default_factory=dict)
    called: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    calls_raise: Exception | None = None
    asking_raises: Exception | None = None
    before_calling: Callable[[], None] = lambda: None
    outside: bool = True

    def prepare(self, payload: str) -> bytes:
        fromstring(payload, forbid_dtd=True)
        return payload.encode()

    def call(self, key: str, content: bytes) -> Answer:
        self.called.append(key)
        self.before_calling()
        if self.calls_raise:
            raise self.calls_raise
        repeated = key in self.known
        return Answer(self.known.setdefault(key, f"R-{len(self.known) + 1}"), repeated)

    def ask(self, key: str) -> str | None:
        self.asked.append(key)
        if self.asking_raises:
            raise self.asking_raises
        return self.known.get(key)


@dataclass
class Pure(Pretended):
    """Work without a call, and what happens while it works on its last document."""

    outside: bool = False
    last: str = "NFE-0004"
    meanwhile: Callable[[], None] = lambda: None

    def prepare(self, payload: str) -> bytes:
        if self.last in payload:
            self.meanwhile()
        return super().prepare(payload)


@dataclass
class Ran:
    """What a worker has said."""

    events: list[dict[str, Any]]
    text: str

    def names(self, document: int = 1) -> list[str]:
        return [event["event"] for event in self.events if event.get("id") == document]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == name]


Run = Callable[..., Ran]


Said = Callable[[], Ran]


def document(conninfo: str, number: int = 1) -> tuple[object, ...]:
    (row,) = fetch(
        conninfo,
        "SELECT status, etapa, categoria_erro, tentativas FROM sql_semana_12.fila_documentos WHERE documento_id = %s",
        number,
    )
    return row


def claimed(conninfo: str) -> tuple[Queue, Claim]:
    queue = Queue(conninfo, "lab/test")
    (claim,) = queue.claim("worker-a", 1, 30, None)
    return queue, claim


def taken_away(conninfo: str, number: int) -> None:
    """Its lease ends, and it is recovered."""
    late = "UPDATE sql_semana_12.fila_documentos SET reservado_ate = '2000-01-01' WHERE documento_id = "
    execute(conninfo, f"{late}{number}; SELECT sql_semana_12.recuperar('vigia')")
