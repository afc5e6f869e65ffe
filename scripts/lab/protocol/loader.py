"""Loads XML files into the queue: each file by itself, and each refusal with its reason."""

from __future__ import annotations

import codecs
import errno
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from xml.etree.ElementTree import Element

import psycopg
from defusedxml.common import DTDForbidden
from defusedxml.ElementTree import ParseError, fromstring

from lab.base.errors import LabError, ServerError
from lab.base.language import Text, say

BOUND = 10_000_000
"""Bytes that a file may have: far more than an NF-e needs, and little enough to hold in memory."""

INSERT = """
INSERT INTO sql_semana_12.fila_documentos (chave, nome_arquivo, conteudo_xml)
VALUES (%s, %s, xmlparse(DOCUMENT %s))
RETURNING documento_id
"""
# From lesson 08 on the one who brings a document says when it is due; the function does. novo is false for a key it knows.
ENQUEUE = "SELECT documento_id FROM sql_semana_12.enfileirar(%s, %s, xmlparse(DOCUMENT %s)) WHERE novo"
# Asked of the catalog, since a name that may not be used cannot be looked up.
ENQUEUES = """
SELECT count(*) > 0
FROM pg_proc
INNER JOIN pg_namespace ON pg_proc.pronamespace = pg_namespace.oid
WHERE pg_namespace.nspname = 'sql_semana_12' AND pg_proc.proname = 'enfileirar'
"""

# The mark of UTF-32 begins with the mark of UTF-16, so it is looked for first.
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Encodings in which a declaration can be read before the encoding is known. Python knows more
# names, some of which (unicode_escape, utf-7) belong in no document.
DECLARABLE = re.compile(r"utf-8|ascii|iso8859-\d+|cp125\d")
DECLARATION = re.compile(
    r"(?P<before><\?xml\s+version\s*=\s*(?:'[^']*'|\"[^\"]*\"))"
    r"\s+encoding\s*=\s*(?P<quote>['\"])(?P<name>[A-Za-z][A-Za-z0-9._-]*)(?P=quote)"
)
DECLARATION_LIMIT = 1_000

NFE = "{http://www.portalfiscal.inf.br/nfe}"
# Keys are shown to the reader, so they must not be able to carry anything but a key.
KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

DUPLICATE = "23505"
OTHER_CONTENT = "QL001"
MALFORMED = "2200M"
UNTRANSLATABLE = "22P05"
NO_QUEUE = ("3F000", "42P01")
NO_XML = "0A000"
LOST = "08006"
# Data exceptions, integrity violations, program limits: another document may pass all the same.
CLASSES_OF_THE_DOCUMENT = ("22", "23", "54", OTHER_CONTENT)


@dataclass(frozen=True)
class FileOutcome:
    """What became of one file.

    `key` is None if the file was refused before its key was known. `reason` is None if it was
    loaded; it names the key at most, never other content. `sqlstate` is set if it was the server
    that refused.
    """

    path: Path
    key: str | None
    loaded: bool
    reason: Text | None
    sqlstate: str | None


@dataclass(frozen=True)
class _Document:
    """A file found good: its key, and its text without mark and declared encoding."""

    key: str
    text: str


class _Refused(Exception):
    """A file is refused before the server sees it."""

    def __init__(self, en: str, pt: str) -> None:
        self.reason = Text(en, pt)


def load(conninfo: str, paths: Sequence[Path]) -> list[FileOutcome]:
    """Load XML files into the queue, each in a transaction of its own.

    conninfo: where the queue is. paths: the files, in the order in which they shall enter.
    Returns one outcome a path, in the same order; a file that is missing, unreadable, malformed, …
    is an outcome too.
    Raises LabError if no document can go in: the server cannot be reached or is lost on the way
    (ServerError), has no libxml (ServerError), no queue yet, no privilege. What went in stays in.
    """
    outcomes: list[FileOutcome] = []
    with _connect(conninfo) as connection:
        statement = _statement(connection, len(paths))
        for path in paths:
            try:
                document = _read(path)
            except _Refused as refusal:
                outcomes.append(FileOutcome(path, None, False, refusal.reason, None))
                continue
            sqlstate = _insert(connection, statement, path.name, document)
            if sqlstate and not sqlstate.startswith(CLASSES_OF_THE_DOCUMENT):
                _stop(sqlstate, sum(outcome.loaded for outcome in outcomes), len(paths))
            reason = _reason(sqlstate, document.key) if sqlstate else None
            outcomes.append(FileOutcome(path, document.key, reason is None, reason, sqlstate))
    return outcomes


def summary(outcomes: Sequence[FileOutcome]) -> str:
    """How many files went in, how many did not: "4 loaded, 3 refused" in the reader's language."""
    loaded = sum(outcome.loaded for outcome in outcomes)
    refused = len(outcomes) - loaded
    carregados = "carregado" if loaded == 1 else "carregados"
    recusados = "recusado" if refused == 1 else "recusados"
    return say(f"{loaded} loaded, {refused} refused", f"{loaded} {carregados}, {refused} {recusados}")


def _connect(conninfo: str) -> psycopg.Connection:
    try:
        # In autocommit each INSERT is a transaction. The text is sent whole in UTF-8, whatever
        # encoding the database or the reader's environment has.
        return psycopg.connect(conninfo, autocommit=True, client_encoding="utf8")
    except psycopg.OperationalError as error:
        reason = " ".join(str(error).split())
    raise ServerError(
        say(
            f"The server cannot be reached. Start it with `./lab up`, or check LAB_DSN: {reason}",
            f"O servidor não responde. Inicie-o com `./lab up` ou confira LAB_DSN: {reason}",
        )
    )


def _statement(connection: psycopg.Connection, total: int) -> str:
    """The statement that brings a document into the queue, which depends on how far the queue has grown."""
    try:
        return ENQUEUE if connection.execute(ENQUEUES).fetchone() == (True,) else INSERT
    except psycopg.OperationalError:
        _stop(LOST, 0, total)


def _insert(connection: psycopg.Connection, statement: str, name: str, document: _Document) -> str | None:
    """Bring in one document; returns the SQLSTATE if it did not go in.

    The error itself ends here: its DETAIL repeats the document, and a traceback would show it.
    """
    try:
        row = connection.execute(statement.encode(), (document.key, name, document.text)).fetchone()
    except psycopg.Error as error:
        return LOST if connection.closed else error.sqlstate or LOST
    return None if row else DUPLICATE


def _reason(sqlstate: str, key: str) -> Text:
    """Why the server refused one document."""
    if sqlstate == DUPLICATE:
        return Text(f"{key} is in the queue already.", f"{key} já está na fila.")
    if sqlstate == OTHER_CONTENT:
        return Text(
            f"{key} is in the queue already, with another content: give the new document a key of its own.",
            f"{key} já está na fila, com outro conteúdo: dê ao documento novo uma chave própria.",
        )
    if sqlstate == MALFORMED:
        return Text(
            "The server finds it malformed, this lab does not: is it nested too deeply?",
            "O servidor o considera malformado, o laboratório não: há níveis demais?",
        )
    if sqlstate == UNTRANSLATABLE:
        return Text(
            "It has a character that the database's encoding lacks: use a database in UTF8.",
            "Há um caractere que não existe na codificação do banco: use um banco em UTF8.",
        )
    return Text(
        f"The server refused it (SQLSTATE {sqlstate}); a rule of this database may be stricter than the lab's.",
        f"O servidor o recusou (SQLSTATE {sqlstate}); uma regra deste banco pode ser mais estrita que a do laboratório.",
    )


def _stop(sqlstate: str, loaded: int, total: int) -> NoReturn:
    """Give up: what happened concerns every document. Raises LabError or ServerError."""
    if sqlstate in NO_QUEUE:
        raise LabError(
            say(
                "There is no queue in this database yet. Run `./lab psql -f sql/01_queue.sql`, then load again.",
                "Ainda não há fila neste banco. Execute `./lab psql -f sql/01_queue.sql` e carregue de novo.",
            )
        )
    if sqlstate == NO_XML:
        raise ServerError(
            say(
                "This server was built without libxml and cannot store XML. Use one built with it.",
                "Este servidor foi compilado sem libxml e não guarda XML. Use um que a tenha.",
            )
        )
    again = say(
        "Load the same files again: those already in the queue are refused, none enters twice.",
        "Carregue os mesmos arquivos de novo: os que já estão na fila são recusados, nenhum entra duas vezes.",
    )
    if sqlstate == LOST:
        what = say(
            f"The connection was lost after {loaded} of {total} files had been loaded.",
            f"A conexão caiu depois de carregar {loaded} de {total} arquivos.",
        )
        raise ServerError(f"{what} {again}")
    what = say(
        f"The server stopped the load (SQLSTATE {sqlstate}) after {loaded} of {total} files.",
        f"O servidor interrompeu a carga (SQLSTATE {sqlstate}) depois de {loaded} de {total} arquivos.",
    )
    raise LabError(f"{what} {again}")


def _read(path: Path) -> _Document:
    """Read, decode and parse one file. Raises _Refused."""
    text = _decode(_bytes(path))
    if "\0" in text:
        raise _Refused(
            "It contains NUL characters: it is no XML, or it is UTF-16 without a byte-order mark.",
            "Contém caracteres NUL: não é XML, ou é UTF-16 sem marca de ordem de bytes.",
        )
    key = _key(_parse(text))
    if key is None:
        raise _Refused(
            "It has no key: neither an attribute id on a root nfe, nor an attribute Id on infNFe.",
            "Não tem chave: nem o atributo id na raiz nfe, nem o atributo Id em infNFe.",
        )
    if not KEY.fullmatch(key):
        raise _Refused(
            "Its key is not made of 1 to 100 letters, digits, dots, dashes and underscores.",
            "A chave não é feita de 1 a 100 letras sem acento, algarismos, pontos, hífens e _.",
        )
    return _Document(key, text)


def _bytes(path: Path) -> bytes:
    """The content of a file of 1 to BOUND bytes. Raises _Refused."""
    try:
        path.name.encode()
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise _Refused(
                "It is a folder: name the files in it.",
                "É uma pasta: indique os arquivos que estão nela.",
            )
        if not stat.S_ISREG(mode):
            # Reading a pipe or a device might never end.
            raise _Refused("It is not a regular file.", "Não é um arquivo comum.")
        with path.open("rb") as file:
            data = file.read(BOUND + 1)
    except FileNotFoundError:
        raise _Refused(
            "There is no such file: check the path.", "Este arquivo não existe: confira o caminho."
        ) from None
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "?")
        raise _Refused(
            f"It cannot be read ({code}): check its path and permissions.",
            f"Não pode ser lido ({code}): confira o caminho e as permissões.",
        ) from None
    except ValueError:
        raise _Refused(
            "Its name is not valid Unicode: rename the file.",
            "O nome não é Unicode válido: renomeie o arquivo.",
        ) from None
    if not data:
        raise _Refused("The file is empty.", "O arquivo está vazio.")
    if len(data) > BOUND:
        raise _Refused(f"It is larger than {BOUND // 1_000_000} MB.", f"Tem mais de {BOUND // 1_000_000} MB.")
    return data


def _decode(data: bytes) -> str:
    """The text of a file, without its byte-order mark and without the encoding it declares.

    Both describe the bytes, which the server never sees. It refuses the mark (2200M), and likewise
    an encoding whose name its libxml does not know.
    """
    mark, encoding = next((known for known in MARKS if data.startswith(known[0])), (b"", None))
    encoding = encoding or _declared(data)
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        name, byte = encoding.upper(), len(mark) + error.start + 1
        raise _Refused(
            f"Its bytes are not {name} (see byte {byte}): declare the encoding it is really in.",
            f"Os bytes não são {name} (veja o byte {byte}): declare a codificação que ele usa.",
        ) from None
    declaration = DECLARATION.match(text)
    return declaration["before"] + text[declaration.end() :] if declaration else text


def _declared(data: bytes) -> str:
    """The encoding that the XML declaration names, in Python's words; UTF-8 if it names none."""
    declaration = DECLARATION.match(data[:DECLARATION_LIMIT].decode("latin-1"))
    if declaration is None:
        return "utf-8"
    try:
        encoding = codecs.lookup(declaration["name"]).name
    except LookupError:
        encoding = ""
    if not DECLARABLE.fullmatch(encoding):
        raise _Refused(
            "It declares an encoding that this lab cannot read: save it as UTF-8.",
            "Declara uma codificação que o laboratório não lê: salve-o em UTF-8.",
        )
    return encoding


def _parse(text: str) -> Element:
    """The root element. Raises _Refused, never with the parser's message: it may quote the text."""
    try:
        root: Element = fromstring(text, forbid_dtd=True)
    except DTDForbidden:
        # The server would store it, and silently empty what its external entities stand for.
        raise _Refused(
            "It has a DOCTYPE, which can pull in other files: remove it.",
            "Tem um DOCTYPE, que pode trazer outros arquivos: remova-o.",
        ) from None
    except ParseError as error:
        line, column = error.position
        raise _Refused(
            f"It is malformed XML: see line {line}, column {column + 1}.",
            f"O XML está malformado: veja a linha {line}, coluna {column + 1}.",
        ) from None
    return root


def _key(root: Element) -> str | None:
    """The key: `id` of the episode's nfe, or `Id` of infNFe in a real NF-e; None if neither."""
    if root.tag == "nfe":
        return root.get("id")
    places = {f"{NFE}nfeProc": f"{NFE}NFe/{NFE}infNFe", f"{NFE}NFe": f"{NFE}infNFe"}
    place = places.get(root.tag)
    element = root.find(place) if place else None
    return None if element is None else element.get("Id")
