"""The receiver's own ledger: what it executed, and which calls it did not execute a second time."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path

from lab.base.errors import LabError
from lab.base.language import say

TABLES = """
CREATE TABLE IF NOT EXISTS effects (number INTEGER PRIMARY KEY, key TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, number INTEGER NOT NULL REFERENCES effects) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS refused (number INTEGER PRIMARY KEY, key TEXT NOT NULL);
"""


class AnotherContent(Exception):
    """A key came back with a content that is not the one it was executed with."""


@dataclass(frozen=True)
class Receipt:
    """What the receiver answers: its reference, and whether it had executed the key before."""

    reference: str
    repeated: bool


@dataclass(frozen=True)
class Totals:
    """The ledger in numbers.

    `effects` were executed, on behalf of `operations` different keys; `refused` calls repeated a key and got the first result.
    """

    operations: int
    effects: int
    refused: int

    @property
    def duplicates(self) -> int:
        """Effects that were executed once too often."""
        return self.effects - self.operations


class Ledger:
    """The ledger in an SQLite file: what it answered survives the receiver's death and the machine's.

    `by_key` is whether a key is executed only once; without it every call is executed, as by a receiver that knows no keys.
    Raises LabError if there can be no such file at `path`, or another one is there.
    """

    def __init__(self, path: Path, *, by_key: bool = True) -> None:
        self.path = path
        self._by_key = by_key
        self._turn = threading.Lock()
        try:
            self._file = _opened(path)
        except sqlite3.Error as error:
            raise LabError(
                say(
                    f"{path} cannot be the receiver's ledger ({error}). Name another file: --ledger FILE",
                    f"{path} não pode ser o registro do receptor ({error}). Indique outro arquivo: --ledger FILE",
                )
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def execute(self, key: str, content: bytes) -> Receipt:
        """Execute the operation of this key, or give back its first result; either is on disk when this returns.

        Raises AnotherContent if the key was executed with another content.
        """
        digest = hashlib.sha256(content).hexdigest()
        with self._turn, self._file:
            # At once as a writer: the look and the entry are one step, also for a second receiver on the same file.
            self._file.execute("BEGIN IMMEDIATE")
            if self._by_key and (known := self._find(key)):
                number, first_digest = known
                if first_digest != digest:
                    raise AnotherContent
                self._file.execute("INSERT INTO refused (key) VALUES (?)", [key])
                return Receipt(_reference(number), repeated=True)
            cursor = self._file.execute("INSERT INTO effects (key, digest) VALUES (?, ?)", [key, digest])
            assert cursor.lastrowid is not None
            self._file.execute("INSERT OR IGNORE INTO results (key, number) VALUES (?, ?)", [key, cursor.lastrowid])
            return Receipt(_reference(cursor.lastrowid), repeated=False)

    def reference(self, key: str) -> str | None:
        """The reference of the operation of this key; None if it was not executed."""
        with self._turn:
            known = self._find(key)
        return _reference(known[0]) if known else None

    def totals(self) -> Totals:
        """The ledger in numbers."""
        with self._turn:
            row = self._file.execute(
                "SELECT (SELECT count(*) FROM results), (SELECT count(*) FROM effects), (SELECT count(*) FROM refused)"
            ).fetchone()
        return Totals(*row)

    def effects(self) -> dict[str, int]:
        """How often each key was executed."""
        with self._turn:
            return dict(self._file.execute("SELECT key, count(*) FROM effects GROUP BY key").fetchall())

    def _find(self, key: str) -> tuple[int, str] | None:
        found: tuple[int, str] | None = self._file.execute(
            "SELECT number, digest FROM results JOIN effects USING (number) WHERE results.key = ?", [key]
        ).fetchone()
        return found


def _opened(path: Path) -> sqlite3.Connection:
    file = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    try:
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA synchronous = FULL")
        file.executescript(TABLES)
    except sqlite3.Error:
        file.close()
        raise
    return file


def _reference(number: int) -> str:
    return f"R-{number:06}"
