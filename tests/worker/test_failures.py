"""Every error has its class, and is told without the document."""

from __future__ import annotations

import psycopg
import pytest
from defusedxml.ElementTree import ParseError, fromstring

from lab.worker.failures import BadDocument, Rejected, Unanswered, classify, of_status
from tests.worker.pretended import CANARY


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (BadDocument("x"), "conteudo"),
        (Rejected(400), "conteudo"),
        (Unanswered("conexao", "x"), "conexao"),
        (psycopg.errors.DeadlockDetected(), "impasse"),
        (psycopg.errors.SerializationFailure(), "impasse"),
        (psycopg.errors.AdminShutdown(), "conexao"),
        (psycopg.errors.CrashShutdown(), "conexao"),
        (psycopg.errors.CannotConnectNow(), "conexao"),
        (psycopg.errors.IdleSessionTimeout(), "conexao"),
        (psycopg.errors.IdleInTransactionSessionTimeout(), "conexao"),
        (psycopg.errors.ConnectionFailure(), "conexao"),
        (psycopg.OperationalError("the connection is lost"), "conexao"),
        (psycopg.errors.InvalidTextRepresentation(), "conteudo"),
        (psycopg.errors.CheckViolation(), "conteudo"),
        (psycopg.errors.InvalidParameterValue(), "sistemico"),
        (psycopg.errors.ObjectNotInPrerequisiteState(), "sistemico"),
        (psycopg.errors.LockNotAvailable(), "sistemico"),
        (psycopg.errors.DiskFull(), "sistemico"),
        (TimeoutError(), "sistemico"),
        (ConnectionRefusedError(), "conexao"),
        (ZeroDivisionError(), "sistemico"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_every_error_has_its_class(error: Exception, category: str) -> None:
    assert classify(error).category == category


@pytest.mark.parametrize(
    ("status", "error", "category"),
    [
        (400, Rejected, "conteudo"),
        (404, Unanswered, "sistemico"),
        (409, Unanswered, "conteudo"),
        (503, Unanswered, "sistemico"),
    ],
)
def test_an_answer_rejects_only_if_it_says_so(status: int, error: type[Exception], category: str) -> None:
    meant = of_status(status)
    assert (type(meant), classify(meant).category) == (error, category)


def test_malformed_xml_is_told_by_its_place_only() -> None:
    with pytest.raises(ParseError) as caught:
        fromstring(f"<nfe>\n<{CANARY}></nfe>")
    assert classify(caught.value).reason.startswith("malformed XML: line 2, column ")
