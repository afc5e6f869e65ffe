"""What a step did, in a reader's words: its verb, what it named, and what came of it; never the name of a column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lab.base.language import Text, say
from lab.scenario.result import StepRun

# A read tells, a write acts, work computes. `nothing` found nothing to act on, which is no refusal; `refused` named a document
# and changed no row, or failed as a write; `failed` is an error of what writes nothing to the queue, as the work itself.
Kind = Literal["read", "work", "acted", "nothing", "refused", "failed", "clock", "begin", "end"]

STATUS = {
    "pendente": Text("pending", "pendente"),
    "processando": Text("in work", "em andamento"),
    "concluido": Text("finished", "concluído"),
    "falhou": Text("given up", "encerrado com falha"),
    "conciliacao": Text("waits for people", "aguarda pessoas"),
    "pausado": Text("paused", "pausado"),
}
STAGE = {
    "desconhecido": Text("result unknown", "retorno desconhecido"),
    "obtido": Text("result known", "retorno obtido"),
    "confirmando": Text("confirming", "confirmando"),
}
CATEGORY = {
    "conteudo": Text("bad content", "conteúdo ruim"),
    "sistemico": Text("system down", "sistema fora do ar"),
    "conexao": Text("connection lost", "conexão perdida"),
    "impasse": Text("deadlock", "impasse"),
    "queda": Text("worker gone", "worker caiu"),
}
# The functions of the protocol. What looks for work finds some or none; what names a document is obeyed or refused.
SEARCHES = {
    "reservar": Text("claim", "reservar"),
    "recuperar": Text("recover", "recuperar"),
}
COMMANDS = {
    "concluir": Text("finish", "concluir"),
    "falhar": Text("report failure", "registrar falha"),
    "renovar": Text("renew", "renovar"),
    "conciliar": Text("hand to people", "passar a pessoas"),
    "confirmar": Text("confirm", "confirmar"),
    "pausar": Text("pause", "pausar"),
    "retomar": Text("resume", "retomar"),
    "reenfileirar": Text("requeue", "reenfileirar"),
}
STAGES = {
    "desconhecido": Text("about to call", "vai chamar"),
    "obtido": Text("note result", "anotar retorno"),
    "confirmando": Text("about to confirm", "vai confirmar"),
    "nao_chamado": Text("not called", "não chamou"),
}
# What an error says, where its number alone says nothing to those who do not know it.
ERRORS = {
    "22023": Text("argument not allowed", "argumento inválido"),
    "22P02": Text("not a number", "não é um número"),
    "25P02": Text("transaction aborted", "transação abortada"),
    "40P01": Text("deadlock", "impasse"),
    "42501": Text("no permission", "sem permissão"),
    "55000": Text("result unknown", "retorno desconhecido"),
    "57P01": Text("session killed", "sessão encerrada"),
}
CALLED = re.compile(r"\b(?:FROM|SELECT)\s+(?:\w+\.)?(\w+)\(([^;]*)\)")
BY_VERSION = ("confirmar", "pausar", "retomar", "reenfileirar")  # … the others name the token


@dataclass(frozen=True)
class Told:
    """A step in words.

    `about` are the lines on what it named: document, token or version. `short` is the result where there is but one document;
    `notes` are the lines below the result: why it was refused, or what came of each document.
    """

    kind: Kind
    verb: str
    about: tuple[str, ...] = ()
    result: str = ""
    short: str = ""
    notes: tuple[str, ...] = ()

    def lines(self, with_document: bool = True) -> tuple[str, ...]:
        """The words from top to bottom, as a label; they need not name the document where there is only one."""
        about = (
            self.about if with_document else tuple(line for line in self.about if not line.startswith(_document("")))
        )
        result = self.result if with_document else self.short or self.result
        return tuple(line for line in (self.verb, *about, result, *self.notes) if line)

    def __str__(self) -> str:
        """The words in one line."""
        return ", ".join(line for line in (self.verb, *self.about, self.result, *self.notes) if line)


def tell(run: StepRun) -> Told:
    """What a step that has ended did, in words."""
    told = _tell(run)
    if run.outcome == "error":
        kind: Kind = "failed" if told.kind in ("read", "work") else "refused"
        notes = (str(ERRORS[run.sqlstate]),) if run.sqlstate in ERRORS else ()
        return Told(kind, told.verb, told.about, say(f"error {run.sqlstate}", f"erro {run.sqlstate}"), notes=notes)
    return told


@dataclass(frozen=True)
class Named:
    """What a write named as the owner's proof: a document, and its token, its version or its worker."""

    document: int
    verb: str
    token: int | None = None
    version: int | None = None
    worker: str | None = None


def named(run: StepRun) -> Named | None:
    """What a write to one document named; None if the step is no such write."""
    sql = run.step.sql
    if called := CALLED.search(sql):
        name, arguments = called.groups()
        words = [word.strip() for word in arguments.split(",")]
        if name not in (*COMMANDS, "registrar_etapa") or not words[0].isdigit():
            return None
        proof = words[1] if len(words) > 1 else ""
        if proof.isdigit():
            by_version = name in BY_VERSION
            return Named(int(words[0]), name, None if by_version else int(proof), int(proof) if by_version else None)
        return Named(int(words[0]), name, worker=proof.strip("'") if proof.startswith("'") else None)
    where = sql.partition("WHERE")[2]
    if re.search(r"\bUPDATE fila_documentos\b", sql) and (found := re.search(r"documento_id = (\d+)", where)):
        token = re.search(r"token_reserva = (\d+)", where)
        worker = re.search(r"worker_id = '([^']+)'", where)
        return Named(int(found[1]), "UPDATE", int(token[1]) if token else None, worker=worker[1] if worker else None)
    return None


def writes(run: StepRun, number: int) -> bool:
    """Whether a step named this document to write to it, or wrote to the queue by hand."""
    target = named(run)
    return target.document == number if target else bool(re.search(r"\bUPDATE fila_documentos\b", run.step.sql))


def alters(run: StepRun) -> bool:
    """Whether a step was to change documents, whatever came of it: by a function of the protocol, or by hand."""
    return _calls(run) in (*SEARCHES, *COMMANDS, "registrar_etapa") or "UPDATE fila_documentos" in run.step.sql


def renews(run: StepRun) -> bool:
    """Whether a step is to renew a lease."""
    return _calls(run) == "renovar"


def by_version(run: StepRun) -> bool:
    """Whether a step is an operator's command, which names the version that the operator saw."""
    return _calls(run) in BY_VERSION


def _calls(run: StepRun) -> str:
    """The function that a step calls, empty if none."""
    return called[1] if (called := CALLED.search(run.step.sql)) else ""


def claims_as(run: StepRun) -> str:
    """The worker's name under which a step claims; empty if it is no claim."""
    sql = run.step.sql
    by_hand = r"SET status = 'processando'.*?worker_id = '([^']+)'"
    found = re.search(r"\breservar\('([^']+)'", sql) or re.search(by_hand, sql, re.DOTALL)
    return found[1] if found else ""


def asks_for(run: StepRun) -> float:
    """For how many seconds from now a renewal asks; 30 where it does not say."""
    found = re.search(r"\brenovar\([^)]*'(\d+) (second|minute|hour)s?'", run.step.sql)
    return int(found[1]) * {"second": 1, "minute": 60, "hour": 3600}[found[2]] if found else 30


def moves_clock(run: StepRun) -> bool:
    """Whether a step moved the lab's clock."""
    return run.outcome == "done" and run.step.sql.startswith("UPDATE relogio_do_laboratorio")


def documents(run: StepRun) -> tuple[int, ...]:
    """The documents that a step returned."""
    if run.columns is None or "documento_id" not in run.columns:
        return ()
    return tuple(int(value) for value in run.column("documento_id") if value is not None)


def effects(run: StepRun) -> tuple[int, ...]:
    """The documents on which a step had an effect in the outside world, for which the table efeitos stands."""
    return documents(run) if run.outcome == "done" and run.step.sql.startswith("INSERT INTO efeitos") else ()


def killed(run: StepRun) -> str:
    """The session that a step killed, empty if it killed none."""
    found = re.search(r"pg_terminate_backend.*application_name = 'lab/(\w+)'", run.step.sql, re.DOTALL)
    return found[1] if found and run.outcome == "done" and run.rows else ""


def counted(number: int) -> str:
    """`1 row`, `2 rows`."""
    return say(f"{number} row{'' if number == 1 else 's'}", f"{number} linha{'' if number == 1 else 's'}")


def _document(number: str) -> str:
    return say(f"document {number}", f"documento {number}")


def _documents(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return _document(str(numbers[0]))
    listed = ", ".join(map(str, numbers))
    return say(f"documents {listed}", f"documentos {listed}")


def _tell(run: StepRun) -> Told:
    sql = run.step.sql
    if moves_clock(run):
        return Told("clock", say("time passes", "o tempo passa"))
    if run.command == "BEGIN":
        return Told("begin", say("begin", "início"))
    if re.match(r"(COMMIT|ROLLBACK)\b", sql):
        return _end(run)
    if victim := killed(run):
        return Told("acted", say(f"kill {victim}", f"matar {victim}"))
    if called := CALLED.search(sql):
        name, arguments = called.groups()
        if name in SEARCHES:
            return _search(name, run)
        if name in COMMANDS or name == "registrar_etapa":
            return _command(name, arguments, run)
    if re.search(r"\bUPDATE fila_documentos\b", sql):
        return _update(run)
    if affected := effects(run):
        return Told("acted", say("effect outside", "efeito lá fora"), (_documents(affected),))
    if re.search(r"\bFOR (UPDATE|SHARE|KEY SHARE)\b|^LOCK\b", sql):
        return Told("acted", say("lock", "bloquear"), tuple(_named(sql)))
    if "xpath(" in sql and not sql.startswith("INSERT"):
        return Told("work", say("work", "processar"), tuple(_named(sql)))
    if sql.startswith(("SELECT", "WITH")):
        return Told("read", say("look", "consultar"))
    first = re.match(r"\w+", sql)
    return Told("acted", (first[0] if first else sql).lower())


def _end(run: StepRun) -> Told:
    if run.step.sql.startswith("COMMIT") and run.command == "ROLLBACK":
        return Told("refused", "commit", (), say("rolled back", "desfeito"))
    if run.command == "COMMIT":
        return Told("end", "commit")
    return Told("end", say("roll back", "desfazer"))


def _search(name: str, run: StepRun) -> Told:
    found = documents(run)
    verb = str(SEARCHES[name])
    if not found:
        none = say("→ nothing free", "→ nada livre") if name == "reservar" else say("→ none", "→ nenhum")
        return Told("nothing", verb, (), none)
    tokens = run.column("token_reserva") if "token_reserva" in (run.columns or ()) else ()
    short = f"→ token {tokens[0]}" if tokens else counted(len(found))
    return Told("acted", verb, (), f"→ {_documents(found)}", short)


def _command(name: str, arguments: str, run: StepRun) -> Told:
    named = [word.strip() for word in arguments.split(",")]
    about = [_document(named[0])] if named[0].isdigit() else []
    if len(named) > 1 and named[1].isdigit():
        by_version = name in BY_VERSION
        about.append(say("version", "versão") + f" {named[1]}" if by_version else f"token {named[1]}")
    if name == "registrar_etapa":
        verb = next((str(word) for stage, word in STAGES.items() if f"'{stage}'" in arguments), name)
    else:
        verb = str(COMMANDS[name])
    return Told("acted" if run.rows else "refused", verb, tuple(about), counted(len(run.rows)))


def _update(run: StepRun) -> Told:
    """An UPDATE by hand: a claim, a finish, or a document put back."""
    sql = run.step.sql
    found = re.search(r"status = '(\w+)'", sql.partition("WHERE")[0])
    about = tuple(_named(sql.partition("WHERE")[2]))
    if found and found[1] == "processando":
        got = documents(run)
        result = f"→ {_documents(got)}" if got else say("→ nothing free", "→ nada livre")
        return Told("acted" if got else "nothing", say("claim by hand", "reservar manualmente"), (), result)
    verb = {
        "pendente": say("put back by hand", "devolver manualmente"),
        "concluido": say("finish by hand", "concluir manualmente"),
    }.get(found[1] if found else "", say("write by hand", "escrever manualmente"))
    if got := documents(run):
        about = (_documents(got), *(line for line in about if not line.startswith(_document(""))))
    return Told("acted" if run.rows else "refused", verb, about, counted(len(run.rows)))


def _named(where: str) -> list[str]:
    """The document and the token that a condition names."""
    about = [_document(found[1])] if (found := re.search(r"documento_id (?:= |IN \()(\d+)", where)) else []
    return about + ([f"token {found[1]}"] if (found := re.search(r"token_reserva = (\d+)", where)) else [])
