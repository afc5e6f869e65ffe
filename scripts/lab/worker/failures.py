"""Which kind of failure an error is, and how it may be told: by class and kind, never with a document's words."""

from __future__ import annotations

import http.client
import re
from dataclasses import dataclass
from typing import Literal

import psycopg
from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import ParseError

Category = Literal["conteudo", "sistemico", "conexao", "impasse"]

# SQLSTATE classes. What concerns the server or the moment passes by; what concerns the data does not.
CONTENT_CLASSES = ("22", "23")
CONNECTION_CLASSES = ("08",)
CONNECTION_STATES = ("57P01", "57P02", "57P03", "57P05", "25P03")
# How the protocol refuses a call that makes no sense, and a state that is not ready for it: the worker's fault, not the document's.
PROTOCOL_STATES = ("22023", "55000")
# A deadlock's victim and a serialization failure: the transaction was rolled back whole, and may simply be run again.
COLLISIONS = ("40001", "40P01")
# What the next call would meet as well: an argument, a statement or a privilege, a schema. All else passes by, or is fixed by
# people: what is full, what is read-only until a failover is over, what is broken.
LASTING = ("22023", "42", "3F000")
# Why the server turns a login away for good. libpq tells no SQLSTATE of a connection that failed, so this goes by the server's
# words; one that speaks another language is waited for like one that is away.
TURNED_AWAY = re.compile(
    r"authentication failed|no pg_hba\.conf entry|(role|database) \".*\" does not exist|not permitted to log in"
    r"|permission denied for database|no password supplied"
)
LONGEST_REFERENCE = 200  # characters
SHOWN = 60  # characters of a reference that is unfit
# Answers by which the receiver says that it has executed nothing and never will. A 404 is not among them: it may come from a
# mistyped address, which no document should suffer for.
REJECTIONS = (400, 413, 415, 422)
ANOTHER_CONTENT = 409


@dataclass(frozen=True)
class Failure:
    """A failure as `falhar` takes it. `reason` is short, and made here, so that no word of a document can be in it.

    `response` is the id of the answer by which the receiver told of it, for the log; None if none came, or it had no id.
    """

    category: Category
    reason: str
    response: str | None = None


class Rejected(Exception):
    """The receiver refuses the document: nothing was executed, nor will be."""

    def __init__(self, status: int, response: str | None = None) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.response = response


class Unanswered(Exception):
    """The receiver did not say what became of the call, or of the question: it may have been executed, or not."""

    def __init__(self, category: Category, reason: str, response: str | None = None) -> None:
        super().__init__(reason)
        self.failure = Failure(category, reason, response)


class NotSent(Unanswered):
    """The call did not leave this machine: nothing listens at the receiver's address. `advice` is for the operator."""

    def __init__(self, category: Category, reason: str, advice: str | None = None) -> None:
        super().__init__(category, reason)
        self.advice = advice


class InProgress(Unanswered):
    """The receiver answers that it is still at it: there will be a result, and nothing to do but wait."""

    def __init__(self, response: str | None = None) -> None:
        super().__init__("sistemico", "the receiver is still at it", response)


class BadDocument(Exception):
    """The document cannot be worked on by any worker; the text says why and quotes nothing of it."""


def classify(error: Exception) -> Failure:
    """The failure that an error is; what is not known counts as systemic, which is tried again a limited number of times."""
    if isinstance(error, Unanswered):
        return error.failure
    if isinstance(error, Rejected):
        return Failure("conteudo", f"the receiver rejects it: HTTP {error.status}", error.response)
    if isinstance(error, BadDocument):
        return Failure("conteudo", str(error))
    if isinstance(error, ParseError):
        line, column = error.position
        return Failure("conteudo", f"malformed XML: line {line}, column {column + 1}")
    if isinstance(error, DefusedXmlException):
        return Failure("conteudo", "it has a DOCTYPE or entities")
    if isinstance(error, psycopg.Error):
        return _of_sqlstate(error.sqlstate)
    if isinstance(error, TimeoutError):
        return Failure("sistemico", "timeout")
    if isinstance(error, (OSError, http.client.HTTPException)):
        return Failure("conexao", type(error).__name__)
    return Failure("sistemico", type(error).__name__)


def unfit(reference: str) -> str | None:
    """What is wrong with a receiver's reference, short and escaped, if the queue cannot keep it; None if it can."""
    if reference.strip() and reference.isprintable() and len(reference) <= LONGEST_REFERENCE:
        return None
    # Not in quotes, between which `resumir` keeps nothing.
    shown = reference[:SHOWN].encode("unicode_escape").decode() or "nothing"
    return f"executed; the receiver's reference is unfit to be kept ({len(reference)} characters): {shown}"


def of_protocol(error: psycopg.Error) -> Failure:
    """The failure of a call to the protocol itself: never the document's content, which the call does not carry."""
    failure = classify(error)
    return Failure("sistemico", failure.reason) if failure.category == "conteudo" else failure


def lasts(error: psycopg.Error) -> bool:
    """Whether the same call would be refused the next time too."""
    return (error.sqlstate or "").startswith(LASTING)


def turned_away(error: psycopg.OperationalError) -> bool:
    """Whether a connection failed because the server lets this account, or any, into this database no more than now."""
    return TURNED_AWAY.search(str(error)) is not None


def _of_sqlstate(sqlstate: str | None) -> Failure:
    reason = f"SQLSTATE {sqlstate or 'none: the connection was lost'}"
    if sqlstate is None or sqlstate.startswith(CONNECTION_CLASSES) or sqlstate in CONNECTION_STATES:
        return Failure("conexao", reason)
    if sqlstate in COLLISIONS:
        return Failure("impasse", reason)
    of_the_data = sqlstate.startswith(CONTENT_CLASSES) and sqlstate not in PROTOCOL_STATES
    return Failure("conteudo" if of_the_data else "sistemico", reason)


def of_status(status: int, response: str | None = None) -> Exception:
    """What an answer that is no result means: a rejection, or that nothing is known; `response` is the answer's id."""
    if status in REJECTIONS:
        return Rejected(status, response)
    if status == ANOTHER_CONTENT:
        # Trying again is no use, and something was executed under this key: its stage stays unknown, so it is for people.
        return Unanswered("conteudo", "the key was executed with another content: HTTP 409", response)
    return Unanswered("sistemico", f"HTTP {status}", response)
