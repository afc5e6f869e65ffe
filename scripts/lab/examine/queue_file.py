"""A queue as annotated SQL: what its schema is, and which statements claim, finish, renew and recover.

    -- @schema                    DDL and sample rows
    -- @claim [autocommit | one transaction]
    -- @enqueue, @finish, @fail, @renew, @recover, @requeue, @expire [autocommit | one transaction]

A block may hold several statements, sent singly. Parameters are psql's (`:worker`); what a claim returns feeds the others by
the column's name. Only @schema and @claim are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.base import sql_text
from lab.base.errors import QueueError
from lab.base.language import say

BLOCKS = ("schema", "enqueue", "claim", "finish", "fail", "renew", "recover", "requeue", "expire")
MODES = {(): False, ("autocommit",): False, ("one", "transaction"): True}
CONTROL = ("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "PREPARE")  # PREPARE TRANSACTION


@dataclass(frozen=True)
class Statement:
    """A statement of the reader's; `line` is where it begins in the file."""

    sql: str
    line: int


@dataclass(frozen=True)
class Block:
    """The statements under a marker; `one_transaction` is whether they are sent between BEGIN and COMMIT."""

    name: str
    line: int
    one_transaction: bool
    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class QueueFile:
    """A queue as it was read."""

    path: Path
    blocks: dict[str, Block]

    def error(self, line: int, message: str) -> QueueError:
        """The error that names this file and a line of it."""
        return QueueError(say(f"{self.path}, line {line}: {message}", f"{self.path}, linha {line}: {message}"))


def template() -> str:
    """A file to fill in, with comments in the reader's language; as it stands it is a queue that can be examined."""
    return (
        say(
            "-- Your queue. Put in your own statements, then: ./lab examine FILE\n\n"
            "-- @schema\n-- Your tables, with two rows or more that are waiting.\n",
            "-- A sua fila. Ponha os seus próprios comandos e depois: ./lab examine ARQUIVO\n\n"
            "-- @schema\n-- As suas tabelas, com duas linhas ou mais à espera.\n",
        )
        + (
            "CREATE TABLE jobs (\n    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,\n"
            "    status TEXT NOT NULL DEFAULT 'pending',\n    worker TEXT\n);\n"
            "INSERT INTO jobs DEFAULT VALUES;\nINSERT INTO jobs DEFAULT VALUES;\n\n"
        )
        + say(
            "-- `one transaction` beside the marker, if you send BEGIN and COMMIT around them.\n"
            "-- Given: :worker :limit :lease. What a statement returns feeds the next by the column's name, as :id.\n",
            "-- `one transaction` ao lado do marcador, se você manda BEGIN e COMMIT em volta.\n"
            "-- Dados: :worker :limit :lease. O que um comando devolve alimenta o seguinte pelo nome da coluna, como :id.\n",
        ).join(["-- @claim autocommit\n", ""])
        + (
            "SELECT id FROM jobs WHERE status = 'pending' ORDER BY id LIMIT 1;\n"
            "UPDATE jobs SET status = 'running', worker = :worker WHERE id = :id;\n"
        )
    )


def read(path: Path) -> QueueFile:
    """Read a queue. Raises QueueError, naming file and line, if it cannot be read or breaks a rule of the format."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise QueueError(
            say(f"{path}: cannot be read as UTF-8 text: {error}", f"{path}: não dá para ler como texto UTF-8: {error}")
        ) from error
    queue = QueueFile(path, {})
    lines = text.splitlines()
    marks = [number for number, line in enumerate(lines, start=1) if line.strip().startswith("-- @")]
    first = next((s for s in sql_text.statements("\n".join(lines[: marks[0] - 1] if marks else lines))), None)
    if first is not None:
        raise queue.error(
            text.count("\n", 0, first.start) + 1,
            say(
                "SQL before the first marker; put `-- @schema` above it",
                "há SQL antes do primeiro marcador; ponha `-- @schema` acima dele",
            ),
        )
    for mark, end in zip(marks, [*marks[1:], len(lines) + 1], strict=True):
        block = _block(queue, lines, mark, end)
        queue.blocks[block.name] = block
    for name in ("schema", "claim"):
        if name not in queue.blocks:
            raise queue.error(
                1,
                say(
                    f"there is no `-- @{name}` block, which every queue needs",
                    f"falta o bloco `-- @{name}`, de que toda fila precisa",
                ),
            )
    return queue


def _block(queue: QueueFile, lines: list[str], mark: int, end: int) -> Block:
    name, *mode = lines[mark - 1].strip()[len("-- @") :].split() or [""]
    known = ", ".join(BLOCKS)
    if name not in BLOCKS:
        raise queue.error(
            mark,
            say(
                f"unknown marker `@{name}`; known: {known}", f"marcador desconhecido `@{name}`; os que existem: {known}"
            ),
        )
    if name in queue.blocks:
        raise queue.error(mark, say(f"a second `@{name}` block", f"um segundo bloco `@{name}`"))
    if tuple(mode) not in MODES or (mode and name == "schema"):
        given = " ".join(mode)
        raise queue.error(
            mark,
            say(
                f"cannot read `{given}`; after the name only `autocommit` or `one transaction` may stand",
                f"não dá para entender `{given}`; depois do nome só cabe `autocommit` ou `one transaction`",
            ),
        )
    text = "\n".join(lines[mark : end - 1])
    statements = tuple(
        Statement(found.text, mark + 1 + text.count("\n", 0, found.start)) for found in sql_text.statements(text)
    )
    if not statements:
        raise queue.error(mark, say(f"no statement stands under `@{name}`", f"não há comando embaixo de `@{name}`"))
    for statement in statements if name != "schema" else ():  # a file of DDL may bring its own
        word = next((word for word in CONTROL if _begins(statement.sql, word)), None)
        if word:
            raise queue.error(
                statement.line,
                say(
                    f"{word} must not stand in a block; write `one transaction` beside `@{name}`, and the lab sends BEGIN and COMMIT",
                    f"{word} não cabe num bloco; escreva `one transaction` ao lado de `@{name}`, e o laboratório manda BEGIN e COMMIT",
                ),
            )
    return Block(name, mark, MODES[tuple(mode)], statements)


def _begins(sql: str, word: str) -> bool:
    (found,) = sql_text.statements(sql)
    return found.begins(word, "TRANSACTION") if word == "PREPARE" else found.begins(word)
