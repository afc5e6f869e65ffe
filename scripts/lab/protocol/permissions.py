"""`lab check-permissions`: run the whole protocol as the service accounts, before a deployment, and name each grant that is missing.

All of it happens in one transaction that is rolled back, on a document and a tenant of its own: no live document is claimed,
locked or even met.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import errors, sql
from rich.table import Table

from lab.base.errors import LabError
from lab.base.language import say
from lab.protocol import take_home
from lab.protocol.grants import (
    DUTIES,
    FUNCTION,
    RELATION,
    Duty,
    Place,
    cannot_become,
    columns,
    lab_role,
    missing_grants,
    one,
)
from lab.server import schema
from lab.server.session import SCHEMA

NOWHERE = 0  # identities begin at 1
WHO = "lab check-permissions"
REASON = "verificacao de permissoes"


@dataclass(frozen=True)
class Call:
    """One thing the protocol asks of an account, and what came of it: nothing `missing` and no `problem` if it may do it.

    `missing` are the GRANT statements that would fix it; `problem` is what else went wrong.
    """

    duty: Duty
    role: str
    what: str
    missing: tuple[str, ...]
    problem: str = ""

    @property
    def allowed(self) -> bool:
        return not self.missing and not self.problem


@dataclass(frozen=True)
class Report:
    """All calls in their order; `on_own_row` is whether there was a document to make them on."""

    calls: tuple[Call, ...]
    on_own_row: bool

    @property
    def allowed(self) -> int:
        return sum(call.allowed for call in self.calls)

    @property
    def good(self) -> bool:
        return self.allowed == len(self.calls)

    @property
    def missing(self) -> tuple[str, ...]:
        """The missing grants, each once."""
        return tuple(dict.fromkeys(grant for call in self.calls for grant in call.missing))


def check(
    connection: psycopg.Connection,
    roles: dict[Duty, str] | None = None,
    seen: Callable[[Call], None] | None = None,
    schema: str = SCHEMA,
) -> Report:
    """Run the protocol as these roles, by duty (the lab's own four, without any); what no role is named for is done as one's own.

    What a role may not do is done by the connection's own user, so that the rest is checked as well; if that may not either,
    the calls are made on a document that does not exist: a missing grant shows all the same. `seen` is told of each, inside the
    transaction. `schema` is where the queue is: the lab's own, or one that was installed from lab.protocol.take_home's file.
    Raises LabError if the queue is not there in the latest state, or not as the file makes it, or if the connection may not
    become one of the roles.
    """
    place = taken_home(connection, schema)
    if schema == SCHEMA:
        _demand_state(connection)
    wanted = {duty: lab_role(duty) for duty in DUTIES} if roles is None else roles
    for role in wanted.values():
        if reason := cannot_become(connection, role):
            raise LabError(reason)
    run = _Check(connection, wanted, seen, place)
    with connection.transaction(force_rollback=True):
        run.all()
    return Report(tuple(run.calls), run.document != NOWHERE)


class _Check:
    def __init__(
        self,
        connection: psycopg.Connection,
        roles: dict[Duty, str],
        seen: Callable[[Call], None] | None,
        place: Place,
    ) -> None:
        self.connection = connection
        self.place = place
        self.roles = roles
        self.seen = seen
        self.calls: list[Call] = []
        self.tenant = f"verificacao-{uuid.uuid4().hex}"
        self.document = self.token = self.version = NOWHERE

    def all(self) -> None:
        """Every call that the protocol knows, on one document from its entrance on."""
        self.enqueue()
        self.claim()
        with self.undone():
            self.take_over()
        with self.undone():
            self.repair()
        with self.undone():
            self.call("worker", "devolver", [self.document, self.token, self.tenant])
        self.renew()
        for outcome in (self.finish, self.finish_batch, self.finish_and_claim, self.fail, self.hand_to_people):
            with self.undone():
                outcome()
        for what in (
            "fila_documentos",
            "auditoria",
            "configuracao",
            "situacao",
            "falhas_por_categoria",
            "para_pessoas",
        ):
            self.read("reader", what)

    def enqueue(self) -> None:
        row = self.call("application", "enfileirar", [f"{self.tenant}-1", "verificacao.xml", "<nfe/>", self.tenant])
        with self.undone():
            self.call(
                "application", "enfileirar_lote", [[f"{self.tenant}-2"], ["verificacao.xml"], ["<nfe/>"], self.tenant]
            )
        if row is not None:
            (self.document,) = row

    def claim(self) -> None:
        # A lease that has ended by the time it is looked at: nothing waits for it to be late, and it is renewed afterwards.
        row = self.call("worker", "reservar", [WHO, 1, "1 microsecond", self.tenant], "documento_id, token_reserva")
        if row is None:
            self.document = NOWHERE  # no account here may claim it
        else:
            self.document, self.token = row

    def renew(self) -> None:
        self.call("worker", "renovar", [self.document, self.token, "1 minute", self.tenant])
        self.call("worker", "renovar_lote", [[self.document], [self.token], "1 minute", self.tenant])
        self.call(
            "worker", "registrar_etapa", [self.document, self.token, self.place.name("desconhecido"), None, self.tenant]
        )

    def finish(self) -> None:
        self.call("worker", "concluir", [self.document, self.token, REASON, self.tenant])

    def finish_batch(self) -> None:
        self.call("worker", "concluir_lote", [[self.document], [self.token], [REASON], self.tenant])

    def finish_and_claim(self) -> None:
        batch = [[self.document], [self.token], [REASON]]
        self.call("worker", "concluir_e_reservar", [*batch, WHO, 1, "1 microsecond", self.tenant])

    def fail(self) -> None:
        self.call("worker", "falhar", [self.document, self.token, self.place.name("sistemico"), REASON, self.tenant])

    def repair(self) -> None:
        """A document that failed for its content, which no attempt had called for: it gets another one, and more attempts."""
        self.call("worker", "falhar", [self.document, self.token, self.place.name("conteudo"), REASON, self.tenant])
        row = self.call("operator", "examinar", [self.document, self.tenant], "versao")
        if row is not None:
            (self.version,) = row
        values = [self.document, self.version, "<nfe/>", WHO, REASON, self.tenant]
        self.call("operator", "substituir_conteudo", values)
        self.call("operator", "reenfileirar_falhos", [self.place.name("conteudo"), WHO, REASON, 1, 1, self.tenant])

    def hand_to_people(self) -> None:
        self.call("worker", "conciliar", [self.document, self.token, REASON, self.tenant])
        row = self.call("operator", "examinar", [self.document, self.tenant], "versao")
        if row is not None:
            (self.version,) = row
        with self.undone():
            self.command("confirmar", REASON)
        with self.undone():
            self.command("cancelar")
        self.command("reenfileirar")
        self.command("pausar")
        self.command("retomar")
        for what in ("fila_documentos", "auditoria", "situacao", "falhas_por_categoria", "para_pessoas"):
            self.read("operator", what)

    def take_over(self) -> None:
        duties: tuple[Duty, ...] = ("worker", "operator")
        for duty in duties:
            with self.undone():
                self.call(duty, "recuperar", [WHO, REASON, 1, self.tenant], expects=self.document != NOWHERE)

    def command(self, function: str, *reference: str) -> None:
        """A command of the operators, which names the version it has seen."""
        more = [1] if function == "reenfileirar" else []
        values = [self.document, self.version, *reference, WHO, REASON, *more, self.tenant]
        row = self.call("operator", function, values, "versao")
        if row is not None:
            (self.version,) = row

    def read(self, duty: Duty, relation: str) -> None:
        some = columns(self.connection, duty, relation, self.place)
        read = sql.SQL(", ").join(map(sql.Identifier, some)) if some else sql.SQL("*")
        statement = sql.SQL("SELECT count(*) FROM (SELECT {} FROM {}) AS visible").format(
            read, self.place.named(relation)
        )
        self.attempt(duty, relation, RELATION, statement, [])

    def call(
        self, duty: Duty, function: str, values: Sequence[object], columns: str = "documento_id", expects: bool = True
    ) -> Any:
        """Call a function as the account of that duty; its row, None if there is none although it `expects` one."""
        return self.attempt(duty, function, FUNCTION, self.statement(function, values, columns), values, expects)

    def statement(self, function: str, values: Sequence[object], columns: str) -> sql.Composed:
        marks = sql.SQL(", ").join(sql.Placeholder() * len(values))
        names = sql.SQL(", ").join(sql.Identifier(self.place.name(column)) for column in columns.split(", "))
        return sql.SQL("SELECT {} FROM {}({})").format(names, self.place.named(function), marks)

    def attempt(
        self,
        duty: Duty,
        what: str,
        kind: str,
        statement: sql.Composed,
        values: Sequence[object],
        expects: bool = True,
    ) -> Any:
        """Run the statement as the account of that duty and note what came of it; else as the connection's own user."""
        role = self.roles.get(duty)
        row = None
        if role is not None:
            missing: tuple[str, ...] = ()
            problem = ""
            try:
                with self.connection.transaction():
                    self.connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role)))
                    row = self.connection.execute(statement, values).fetchone()
                    self.connection.execute("RESET ROLE")
            except psycopg.Error as error:
                if self.connection.closed:
                    raise
                missing = (
                    missing_grants(self.connection, duty, role, what, kind, self.place)
                    if isinstance(error, errors.InsufficientPrivilege)
                    else ()
                )
                problem = "" if missing else f"{error.sqlstate} {error.diag.message_primary}"
            else:
                if row is None and expects and self.document != NOWHERE:
                    problem = say("no row, although it was allowed", "nenhuma linha, embora permitido")
            self.calls.append(Call(duty, role, self.place.name(what), missing, problem))
            if self.seen is not None:
                self.seen(self.calls[-1])
        if row is None:
            with self.tried():
                row = self.connection.execute(statement, values).fetchone()
        return row

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Let the document and what is known of it be as before."""
        before = self.version
        with self.connection.transaction(force_rollback=True):
            yield
        self.version = before

    @contextmanager
    def tried(self) -> Iterator[None]:
        """Let a failure pass, and undo what led to it."""
        try:
            with self.connection.transaction():
                yield
        except psycopg.Error:
            if self.connection.closed:
                raise


def table(report: Report) -> Table:
    """The calls as a table: account, what it calls, whether it may, and the grant that is missing."""
    shown = Table()
    for heading in (
        say("account", "conta"),
        say("calls", "chama"),
        say("may", "pode"),
        say("missing", "falta"),
    ):
        shown.add_column(heading, overflow="fold")
    for call in report.calls:
        may = f"[green]{say('yes', 'sim')}[/]" if call.allowed else f"[red]{say('no', 'não')}[/]"
        shown.add_row(call.role, call.what, may, "\n".join(call.missing) or call.problem)
    return shown


def summary(report: Report) -> str:
    """What it came to, in a sentence or two."""
    count, missing = len(report.calls), len(report.missing)
    said = say(
        f"{report.allowed} of {count} calls allowed; grants missing: {missing}. Rolled back: nothing is left.",
        f"{report.allowed} de {count} chamadas permitidas; direitos que faltam: {missing}. Tudo desfeito: nada ficou.",
    )
    if report.on_own_row:
        return said
    return said + say(
        "\nNo document could be enqueued here, so the calls were made on none: connect as the owner to see them work on one.",
        "\nAqui não deu para enfileirar um documento, e as chamadas foram feitas sem nenhum: conecte como dono para vê-las agir.",
    )


def taken_home(connection: psycopg.Connection, schema: str) -> Place:
    """The queue of that schema: the lab's own, or one of lab.protocol.take_home's file, whose names may be English.

    Raises LabError if there is none, or if it is of another structure than the lab's of now.
    """
    if schema == SCHEMA:
        return Place()
    found = "SELECT obj_description(reltype, 'pg_type') FROM pg_class WHERE relname = %s AND relnamespace ="
    found += " (SELECT oid FROM pg_namespace WHERE nspname = %s)"
    for names in ({}, take_home.glossary()):
        place = Place(schema, names)
        mark = one(connection, found, place.name(take_home.MARKED), schema)
        if mark == take_home.mark():
            return place
        if str(mark).startswith(take_home.MARK):
            raise LabError(
                say(
                    f"The queue in schema {schema} has another structure than this lab's: ask the lab that wrote its file.",
                    f"A fila no esquema {schema} tem outra estrutura que a deste laboratório: use o que gravou o arquivo dela.",
                )
            )
    raise LabError(
        say(
            f"In schema {schema} of this database is no queue that ./lab protocol installed.",
            f"No esquema {schema} deste banco não há fila instalada por ./lab protocol.",
        )
    )


def _demand_state(connection: psycopg.Connection) -> None:
    mark = one(connection, "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s", SCHEMA)
    state, least = str(mark or "")[-2:], f"{schema.latest():02}"
    if not str(mark or "").startswith("queue lab, state ") or state < least:
        there = say(f"is in state {state}", f"está no estado {state}") if mark else say("is not here", "não está aqui")
        raise LabError(
            say(
                f"The queue {there}, and this needs state {least}: psql -X -f sql/all.sql",
                f"A fila {there}, e isto pede o estado {least}: psql -X -f sql/all.sql",
            )
        )
