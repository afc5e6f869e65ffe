r"""SQL read as text, by one lexer: its statements, what each defines, its comments. Nothing else in the lab picks SQL apart.

The lexer is sqlparse's. psql's own lines (\set, \ir, …) are no SQL and are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from sqlparse import lexer, tokens

COMMENTS = tokens.Comment
PSQL_LINE = re.compile(r"^\\.*$", re.MULTILINE)


@dataclass(frozen=True)
class Token:
    """A piece of a text as the lexer sees it; `start` is where it begins."""

    kind: tokens._TokenType
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def is_comment(self) -> bool:
        return self.kind in COMMENTS

    @property
    def is_blank(self) -> bool:
        return self.kind in tokens.Whitespace


@dataclass(frozen=True)
class Definition:
    """What a statement defines: its `kind` (FUNCTION, VIEW, TABLE, …) and `name` without the schema; `start` is where the kind stands."""

    kind: str
    name: str
    start: int


@dataclass(frozen=True)
class Statement:
    """A statement of a text, without its semicolon.

    `comment` is what stands right above it, with no empty line between; `start` and `end` are its place in the text, the semicolon
    not counted.
    """

    text: str
    comment: str
    start: int
    end: int

    def begins(self, *words: str) -> bool:
        """Whether its first words are these, upper case."""
        return [token.text.upper() for token in _words(self.text)[: len(words)]] == list(words)

    @property
    def definition(self) -> Definition | None:
        """What it creates, if it is a CREATE of something with a name."""
        words = _words(self.text)
        if not words or words[0].text.upper() != "CREATE":
            return None
        rest = [word for word in words[1:] if word.text.upper() not in ("OR", "REPLACE", "IF", "NOT", "EXISTS")]
        if len(rest) < 2:
            return None
        kind, *name = rest
        qualified = len(name) > 2 and name[1].text == "."
        return Definition(kind.text.upper(), name[2 if qualified else 0].text, self.start + kind.start)

    @property
    def plain(self) -> str:
        """The statement in one line, without comments."""
        return " ".join(without_comments(self.text).split())


def statements(text: str) -> list[Statement]:
    """The statements of a text, in order."""
    found = []
    for part in _split(_tokens(_blanked(text)), ";"):
        code = [token for token in part if not token.is_blank and not token.is_comment]
        if code:
            start, end = code[0].start, code[-1].end
            # A comment behind a statement's last word is the statement's; it has no place behind the semicolon.
            found.append(Statement(text[start:end], _above(text, start), start, end))
    return found


def parts(text: str) -> list[str]:
    """What stands between the commas of a statement's first brackets, as the columns of a CREATE TABLE, without comments."""
    found = _tokens(text)
    depths = list(accumulate(map(_depth, found)))
    first = depths.index(1)
    inside = found[first + 1 : depths.index(0, first)]
    return ["".join(each.text for each in part if not each.is_comment).strip() for part in _split(inside, ",")]


def without_comments(text: str) -> str:
    """The text without its comments; the lines they stood on stay."""
    return "".join("\n" * token.text.count("\n") if token.is_comment else token.text for token in _tokens(text))


def same(one: str, other: str) -> bool:
    """Whether two statements are the same but for white space, comments, and the case of what is not quoted."""
    return _canonical(one) == _canonical(other)


def body(text: str) -> str:
    """What stands between the first dollar quotes: the body of a function or of a DO block; empty without any."""
    for token in _tokens(text):
        if token.text.startswith("$") and token.text.endswith("$") and len(token.text) > 3:
            mark = token.text[: token.text.index("$", 1) + 1]
            return token.text.removeprefix(mark).removesuffix(mark)
    return ""


def qualified(text: str, names: Collection[str], schema: str) -> str:
    """The text with the schema before each of these names that has none; what stands in comments and strings stays."""
    found = [token for token in _tokens(text) if not token.is_blank and not token.is_comment]
    places = [
        token.start
        for before, token, after in zip([None, *found], found, [*found[1:], None], strict=False)
        if token.text in names and (before is None or before.text != ".") and (after is None or after.text != ".")
    ]
    for place in reversed(places):
        text = f"{text[:place]}{schema}.{text[place:]}"
    return text


def parameters(text: str) -> list[Token]:
    """The psql-style parameters (`:name`) of a text, in order; what stands in comments and strings, and a cast, is none."""
    return [token for token in _tokens(text) if token.kind in tokens.Name.Placeholder and token.text.startswith(":")]


def literal(value: str) -> str:
    """The value as an SQL string, as it is read whatever standard_conforming_strings says."""
    quoted = value.replace("'", "''")
    return f"'{quoted}'" if "\\" not in quoted else " E'" + quoted.replace("\\", "\\\\") + "'"


def onward(text: str, word: str) -> str:
    """What follows from a word on, in one line; empty if the word stands in comments and strings only."""
    start = next((token.start for token in _words(text) if token.text.upper() == word), len(text))
    return " ".join(without_comments(text[start:]).split())


def statement_end(lines: list[str], first: int) -> int:
    """The number of the line behind the statement that begins at the line `first`; the number of lines if it has no semicolon."""
    text = "\n".join(lines[first:])
    end = next((token.start for token in _tokens(text) if token.text == ";"), len(text))
    return first + text.count("\n", 0, end) + 1


@cache
def _tokens(text: str) -> tuple[Token, ...]:
    found, start = [], 0
    for kind, piece in lexer.tokenize(text):  # type: ignore[no-untyped-call]
        found.append(Token(kind, piece, start))
        start += len(piece)
    assert start == len(text), "the lexer leaves nothing out"
    return tuple(found)


def _words(text: str) -> list[Token]:
    """The tokens that are neither blank nor comment, with words that the lexer takes together (CREATE OR REPLACE) apart."""
    return [
        Token(token.kind, piece[0], token.start + piece.start())
        for token in _tokens(text)
        if not token.is_blank and not token.is_comment
        for piece in re.finditer(r"\S+" if token.kind in tokens.Keyword else r"(?s).+", token.text)
    ]


def _blanked(text: str) -> str:
    """The text with psql's own lines blank, so that every place stays where it is."""
    return PSQL_LINE.sub(lambda line: " " * len(line[0]), text)


def _canonical(text: str) -> list[str]:
    words = [token.text for token in _tokens(text.rstrip().rstrip(";")) if not token.is_blank and not token.is_comment]
    return [word if word.startswith(("'", '"')) else "".join(word.split()).lower() for word in words]


def _split(found: Iterable[Token], separator: str) -> Iterable[list[Token]]:
    """The tokens between the separators that stand in no brackets."""
    part: list[Token] = []
    inside = 0
    for token in found:
        inside += _depth(token)
        if token.text == separator and inside == 0:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _depth(token: Token) -> int:
    return {"(": 1, ")": -1}.get(token.text, 0)


def _above(text: str, start: int) -> str:
    """The comment lines right above a place."""
    lines = text[: text.rfind("\n", 0, start) + 1].splitlines(keepends=True)
    kept: list[str] = []
    while lines and lines[-1].startswith("--"):
        kept.insert(0, lines.pop())
    return "".join(kept)
