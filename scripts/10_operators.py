"""Lesson 10: people step in without taking a document from a worker that lives; and each role may do its part only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

import psycopg
from psycopg import sql

from lab.base.facts import Fact
from lab.base.language import Text
from lab.lessons.lesson import Lesson, Observed
from lab.protocol import forbidden, grants, permissions
from lab.protocol.monitor import STANDS
from lab.protocol.permissions import Call
from lab.scenario.result import Play, flag, whole
from lab.scenario.stage import Stage
from lab.server.session import SCHEMA

lesson = Lesson(
    __file__,
    minutes=12,
    question=Text(
        "The queue seems to hang. Who may step in, how, and what must they not be able to do?",
        "A fila parece travada. Quem pode intervir, como, e o que deve ficar fora do alcance dessa pessoa?",
    ),
    answer=Text(
        "by version and with a reason; a live lease is refused; a blind reset doubles the effects",
        "pela versão e com motivo; reserva viva é recusada; devolver às cegas duplica os efeitos",
    ),
    psql_only=Text("partly (the permissions need ./lab run 10)", "em parte (as permissões pedem ./lab run 10)"),
)

STATE = 10
AHEAD = 90  # minutes from a deployment to the first due time
WORKER = grants.lab_role("worker")
EXECUTE = f"EXECUTE ON FUNCTION {SCHEMA}.{{}}"
_Observe = Callable[[Stage], Observed]


def needs_roles(told: object) -> object:
    """Say of the claim just declared that it cannot be observed where this user may not create or take the lab's roles."""
    check = lesson.checks[-1]

    def observe(stage: Stage) -> Observed:
        stage.build(STATE)
        with stage.connection() as connection:
            reason = grants.cannot_become_any(connection)
        return Observed(None, "", "", reason) if reason else check.observe(stage)

    lesson.checks[-1] = replace(check, observe=observe)
    return told


@lesson.scenario("pause")
def pause(play: Play) -> Observed:
    live, orphan = len(play["o_pauses"].rows), play["o_pauses_orphan"]
    late_finish, late_renewal = (len(play[step].rows) for step in ("a_finishes", "a_renews"))
    again = play["b_claims_again"]
    document, token, attempt, version = (
        whole(again.one(name)) for name in ("documento_id", "token_reserva", "tentativas", "versao")
    )
    return Observed(
        live == 0
        and orphan.rows == (("1", "pausado", "2"),)
        and (late_finish, late_renewal) == (0, 0)
        and play["b_claims"].column("documento_id") == ("2", "3", "4")
        and (document, token, attempt, version) == (1, 5, 2, 4),
        "rows paused: live lease {rows_live}, orphan {rows_orphaned}; late finish {rows_late_finish}, late renewal"
        " {rows_late_renew}; once resumed: attempt {attempts} under token {token}",
        "linhas pausadas: reserva viva {rows_live}, órfão {rows_orphaned}; conclusão atrasada {rows_late_finish}, renovação"
        " atrasada {rows_late_renew}; depois de retomado: tentativa {attempts} com o token {token}",
        facts={
            "rows_live": Fact(live, "rows"),
            "rows_orphaned": Fact(len(orphan.rows), "rows"),
            "rows_late_finish": Fact(late_finish, "rows"),
            "rows_late_renew": Fact(late_renewal, "rows"),
            "attempts": Fact(attempt, "attempts"),
            "token": Fact(token),
        },
    )


@lesson.scenario("blind_reset")
def blind_reset(play: Play) -> Observed:
    recovered, paused = len(play["o_recovers"].rows), len(play["o_pauses"].rows)
    resets = play["o_resets"]
    alive = [
        document
        for document, lives in zip(resets.column("documento_id"), resets.column("reserva_viva"), strict=True)
        if flag(lives)
    ]
    finished = len(play["a_finishes"].rows) + len(play["b_finishes"].rows)
    total, effects = (whole(play["o_counts"].one(name)) for name in ("documentos", "efeitos"))
    told = play["o_audits"].column("quem").count("operador")
    return Observed(
        (recovered, paused, finished, told) == (0, 0, 0, 0) and alive == ["1", "2"] and (total, effects) == (2, 4),
        "taken from live workers: recuperar {recovered}, pausar {paused}, blind reset {taken_alive}"
        "; then {effects} effects for {total} documents, {rows_finish} finishes let through, audit rows of the reset {audit_rows}",
        "tirados de workers vivos: recuperar {recovered}, pausar {paused}, às cegas {taken_alive}"
        "; depois, {effects} efeitos para {total} documentos, {rows_finish} conclusões aceitas, linhas de auditoria {audit_rows}",
        facts={
            "recovered": Fact(recovered, "documents"),
            "paused": Fact(paused, "documents"),
            "taken_alive": Fact(len(alive), "documents"),
            "effects": Fact(effects, "effects"),
            "total": Fact(total, "documents"),
            "rows_finish": Fact(finished, "rows"),
            "audit_rows": Fact(told, "rows"),
        },
    )


@lesson.scenario("commands")
def commands(play: Play) -> Observed:
    refused = {play[step].sqlstate for step in ("o_gives_no_reason", "o_gives_no_name")}
    stale = sum(len(play[step].rows) for step in ("o_pauses_what_was_seen", "o_resumes_again"))
    obeyed = [len(play[step].rows) for step in ("o_pauses", "o_resumes")]
    audited = play["o_audits"]
    by_operator = audited.column("quem").count("operador")
    unchanged = all(
        play["o_examines_at_last"].one(name) == play["o_examines_again"].one(name)
        for name in ("tentativas", "categoria_erro", "ultimo_erro")
    )
    return Observed(
        refused == {"22023"}
        and stale == 0
        and obeyed == [1, 1]
        and audited.column("versao") == ("1", "2", "3", "4")
        and by_operator == sum(obeyed)
        and unchanged,
        "without a reason or a name {sqlstate}; by an old version {rows_stale} rows; obeyed {rows_obeyed}"
        "; audit rows of the operator {audit_rows}",
        "sem motivo ou sem nome {sqlstate}; com versão velha {rows_stale} linhas; atendidos {rows_obeyed}"
        "; linhas do operador na auditoria {audit_rows}",
        facts={
            "sqlstate": Fact(tuple(refused)),
            "rows_stale": Fact(stale, "rows"),
            "rows_obeyed": Fact(sum(obeyed), "rows"),
            "audit_rows": Fact(by_operator, "rows"),
        },
    )


@lesson.scenario("reconcile")
def reconcile(play: Play) -> Observed:
    shown, after = play["o_examines"], play["o_examines_again"]
    status, version, attempts, worker, live = (
        shown.one(name) for name in ("status", "versao", "tentativas", "worker_id", "reserva_viva")
    )
    stage, key, reference = (shown.one(name) for name in ("etapa", "chave_operacao", "referencia_externa"))
    confirmed, again = len(play["o_confirms"].rows), len(play["o_confirms_again"].rows)
    return Observed(
        (status, version, attempts, worker, live) == ("conciliacao", "3", "1", "worker-a", "f")
        and (stage, key, reference) == ("desconhecido", "padrao/NFE-0001", None)
        and play["o_confirms_nothing"].sqlstate == "22023"
        and len(play["o_pauses"].rows) == 0
        and (confirmed, again) == (1, 0)
        and after.rows == (("concluido", "4", "1", "obtido", "R-4711"),)
        and play["o_audits"].rows[-1] == ("4", "conciliacao", "concluido", "operador", "achado no receptor"),
        "shown: {status}, attempts {attempts}, {worker}, stage {stage}, key {key}; confirmed {rows_confirm} row, a second time"
        " {rows_again}; now {status_after} with {reference}",
        "mostrado: {status}, tentativas {attempts}, {worker}, etapa {stage}, chave {key}; confirmado: {rows_confirm} linha,"
        " na segunda vez {rows_again}; agora {status_after} com {reference}",
        facts={
            "status": Fact(status),
            "attempts": Fact(whole(attempts), "attempts"),
            "worker": Fact(worker),
            "stage": Fact(stage),
            "key": Fact(key),
            "rows_confirm": Fact(confirmed, "rows"),
            "rows_again": Fact(again, "rows"),
            "status_after": Fact(after.one("status")),
            "reference": Fact(after.one("referencia_externa")),
        },
    )


@needs_roles
@lesson.experiment(
    "permissions",
    "Each role may do its part and nothing else: every other function, table and sequence of the schema answers it 42501, and the"
    " catalog holds no grant beyond what its part needs.",
    "Cada papel pode fazer a sua parte e mais nada: qualquer outra função, tabela ou sequência do esquema lhe responde 42501, e o"
    " catálogo não tem direito além do que a parte dele pede.",
)
def each_role_its_part(stage: Stage) -> Observed:
    stage.build(STATE)
    with stage.connection() as connection:
        report = permissions.check(connection)
        attempts = forbidden.attempts(connection, report.calls)
        held = forbidden.grants(connection, report.calls)
    tried = len(attempts)
    refused = sum(attempt.refused for attempt in attempts)
    needed = sum(grant.asked for grant in held)
    return Observed(
        report.good and refused == tried > 0 and needed == len(held) > 0,
        "allowed {allowed} of {calls}; refused {refused} of {tried} (application {tried_application}, worker {tried_worker}, operator"
        " {tried_operator}, reader {tried_reader}); grants needed {needed} of {grants}",
        "permitidas {allowed} de {calls}; recusadas {refused} de {tried} (application {tried_application}, worker {tried_worker},"
        " operator {tried_operator}, reader {tried_reader}); direitos necessários {needed} de {grants}",
        facts={
            "allowed": Fact(report.allowed, "calls"),
            "calls": Fact(len(report.calls), "calls"),
            "refused": Fact(refused, "statements"),
            "tried": Fact(tried, "statements"),
            **{
                f"tried_{duty}": Fact(sum(attempt.duty == duty for attempt in attempts), "statements")
                for duty in grants.DUTIES
            },
            "needed": Fact(needed, "grants"),
            "grants": Fact(len(held), "grants"),
        },
    )


@needs_roles
@lesson.experiment(
    "check_permissions",
    "The check before a deployment runs the whole protocol as the service accounts on a document and a tenant of its own, keeps"
    " no live document from any worker, leaves nothing, and names every missing grant.",
    "A verificação antes da implantação roda o protocolo inteiro como as contas de serviço, em documento e inquilino próprios, não"
    " tira documento vivo de ninguém, não deixa nada e diz cada direito que falta.",
)
def check_permissions(stage: Stage) -> Observed:
    naive = _claimed_beside_a_naive_check(stage)
    report, claimed, left = _claimed_beside_the_check(stage)
    stage.build(STATE)
    with stage.connection() as connection:
        total = len(connection.execute("SELECT FROM fila_documentos").fetchall())
        revoked = {grant: _named_when_revoked(connection, grant) for grant in _grants(connection)}
    named = sum(missing == (grant,) for grant, missing in revoked.items())
    return Observed(
        report.good
        and report.on_own_row
        and claimed == total
        and naive == total - 1
        and left == 0
        and named == len(revoked) > 0,
        "allowed {allowed} of {calls}; meanwhile another worker claims {claimed} of {total} (beside a check on live documents"
        " {claimed_naive}); left behind {left}; grants revoked one at a time: {named} of {revoked} named",
        "permitidas {allowed} de {calls}; enquanto isso outro worker reserva {claimed} de {total} (ao lado de uma verificação sobre"
        " documentos vivos, {claimed_naive}); sobraram {left}; direitos revogados um a um: {named} de {revoked} apontados",
        facts={
            "allowed": Fact(report.allowed, "calls"),
            "calls": Fact(len(report.calls), "calls"),
            "claimed": Fact(claimed, "documents"),
            "total": Fact(total, "documents"),
            "claimed_naive": Fact(naive, "documents"),
            "left": Fact(left, "rows"),
            "named": Fact(named, "grants"),
            "revoked": Fact(len(revoked), "grants"),
        },
    )


@needs_roles
@lesson.experiment(
    "missing_grant_found_late",
    "A missing right to finish shows only when the first document is due, and costs every document its time; one to claim shows at"
    " the first poll. The check before the deployment names either at once.",
    "Um direito faltante de concluir só aparece quando vence o primeiro horário, e custa o horário de todos; o de reservar aparece na"
    " primeira consulta. A verificação antes da implantação aponta os dois na hora.",
    core=False,
)
def missing_grant_found_late(stage: Stage) -> Observed:
    functions = ("reservar", "concluir")
    claim, finish = (_deployed(stage, function, checked=False) for function in functions)
    checked = [_deployed(stage, function, checked=True) for function in functions]
    on_time = min(each.on_time for each in checked)
    named = tuple(grant for each in checked for grant in each.named)
    named_after = max(each.named_after or 0 for each in checked)
    return Observed(
        (claim.refused_after, finish.refused_after) == (0, AHEAD)
        and (claim.on_time, finish.on_time, on_time) == (0, 0, finish.total)
        and named == tuple(f"GRANT {EXECUTE.format(function)} TO {WORKER};" for function in functions)
        and named_after == 0,
        "EXECUTE missing on reservar: refused after {claim_after} min; on concluir: after {finish_after} min, when the documents are"
        " due, {finish_on_time} of {total} finished on time; with the check, grants named after {named_after} min: {named}, and"
        " {checked_on_time} of {total} finished on time",
        "falta EXECUTE em reservar: recusa depois de {claim_after} min; em concluir: depois de {finish_after} min, na hora planejada,"
        " {finish_on_time} de {total} concluídos na hora; com a verificação, direitos apontados depois de {named_after} min: {named},"
        " e {checked_on_time} de {total} concluídos na hora",
        facts={
            "claim_after": Fact(claim.refused_after, "min"),
            "finish_after": Fact(finish.refused_after, "min"),
            "finish_on_time": Fact(finish.on_time, "documents"),
            "total": Fact(finish.total, "documents"),
            "named_after": Fact(named_after, "min"),
            "named": Fact(len(named), "grants"),
            "checked_on_time": Fact(on_time, "documents"),
        },
    )


@lesson.scenario("requeue", core=False)
def requeue(play: Play) -> Observed:
    before, after = (
        [play[step].one(name) for name in ("token_reserva", "tentativas", "chave_operacao", "etapa")]
        for step in ("a_claims", "b_claims")
    )
    token, attempts, key, stage = after
    failed = play["a_fails"].one("status")
    late, finished = len(play["a_finishes"].rows), len(play["b_finishes"].rows)
    return Observed(
        failed == "conciliacao"
        and before == ["1", "1", "padrao/NFE-0001", "nao_chamado"]
        and after == ["2", "2", "padrao/NFE-0001", "desconhecido"]
        and (late, finished) == (0, 1),
        "from {status}: attempt {attempts}, token {token}, stage {stage}, key {key} as before"
        "; finishes: old token {rows_late_finish}, new {rows_finish}",
        "de {status}: tentativa {attempts}, token {token}, etapa {stage}, chave {key} como antes"
        "; conclusões: token antigo {rows_late_finish}, novo {rows_finish}",
        facts={
            "status": Fact(failed),
            "attempts": Fact(whole(attempts), "attempts"),
            "token": Fact(whole(token)),
            "stage": Fact(stage),
            "key": Fact(key),
            "rows_late_finish": Fact(late, "rows"),
            "rows_finish": Fact(finished, "rows"),
        },
    )


@needs_roles
@lesson.scenario("for_update_privilege", core=False)
def for_update_privilege(play: Play) -> Observed:
    read, locked_again, wrote, claimed = (
        len(play[step].rows) for step in ("b_reads", "b_locks_again", "b_writes", "c_claims")
    )
    refused = {play[step].sqlstate for step in ("b_locks", "b_shares", "c_reads")}
    return Observed(
        (read, locked_again, wrote, claimed) == (1, 1, 1, 1) and refused == {"42501"},
        "reader: SELECT {rows_read} row, FOR UPDATE {sqlstate}; with UPDATE on one column it locks {rows_locked} row, and writes"
        " {rows_written}; worker, without any right on the table, claims {claimed}",
        "leitor: SELECT {rows_read} linha, FOR UPDATE {sqlstate}; com UPDATE em uma coluna bloqueia {rows_locked} linha e escreve"
        " {rows_written}; worker, sem direito nenhum sobre a tabela, reserva {claimed}",
        facts={
            "rows_read": Fact(read, "rows"),
            "sqlstate": Fact(play["b_locks"].sqlstate),
            "rows_locked": Fact(locked_again, "rows"),
            "rows_written": Fact(wrote, "rows"),
            "claimed": Fact(claimed, "documents"),
        },
    )


@needs_roles
@lesson.scenario("hijack", core=False)
def hijack(play: Play) -> Observed:
    refused, refused_overload = play["b_writes"].sqlstate, play["b_overloads_again"].sqlstate
    counts = ("o_counts", "o_counts_again", "o_counts_overload", "o_counts_at_last")
    hijacked, cured, overloaded, qualified = (whole(play[step].one("alterados")) for step in counts)
    steps = ("b_asks", "b_asks_again", "b_asks_at_last", "b_asks_through_it", "b_asks_qualified")
    answers = [flag(play[step].one("aceito")) for step in steps]
    creators, claimed = [row[0] for row in play["o_looks"].rows], len(play["c_claims"].rows)
    return Observed(
        (refused, refused_overload) == ("42501", "42501")
        and (hijacked, cured, overloaded, qualified, claimed) == (4, 0, 4, 0, 1)
        and answers == [False, True, False, True, False]
        and creators == ["sql_semana_12_application"],
        "own UPDATE {sqlstate}; documents changed through the function: {changed}, with its schema first in the path {changed_fixed}"
        "; through an overload of cardinality {changed_overload}, with all names qualified {changed_qualified}; who may create:"
        " {creators} found, then a new overload {sqlstate_overload}",
        "UPDATE próprio {sqlstate}; documentos alterados pela função: {changed}; com o esquema dela primeiro no caminho,"
        " {changed_fixed}; por uma sobrecarga de cardinality, {changed_overload}; com todos os nomes qualificados, {changed_qualified}"
        "; quem pode criar: {creators} encontrado; depois, nova sobrecarga {sqlstate_overload}",
        facts={
            "sqlstate": Fact(refused),
            "changed": Fact(hijacked, "documents"),
            "changed_fixed": Fact(cured, "documents"),
            "changed_overload": Fact(overloaded, "documents"),
            "changed_qualified": Fact(qualified, "documents"),
            "creators": Fact(len(creators), "roles"),
            "sqlstate_overload": Fact(refused_overload),
        },
    )


@needs_roles
@lesson.scenario("executable_by_everyone", core=False)
def executable_by_everyone(play: Play) -> Observed:
    refused, revoked = play["b_deletes"].sqlstate, play["b_empties_again"].sqlstate
    deleted, public = whole(play["b_empties"].one("apagados")), whole(play["o_counts"].one("de_todos"))
    return Observed(
        (refused, deleted, revoked, public) == ("42501", 4, "42501", 0),
        "a reader's DELETE {sqlstate}; through the new function {deleted} rows, once revoked {sqlstate_revoked}"
        "; functions of the protocol that everyone may execute: {public}",
        "DELETE do leitor {sqlstate}; pela função nova, {deleted} linhas; depois de revogada, {sqlstate_revoked}"
        "; funções do protocolo que todos podem executar: {public}",
        facts={
            "sqlstate": Fact(refused),
            "deleted": Fact(deleted, "rows"),
            "sqlstate_revoked": Fact(revoked),
            "public": Fact(public, "functions"),
        },
    )


@needs_roles
@lesson.scenario("row_security", core=False)
def row_security(play: Play) -> Observed:
    steps = ("b_counts", "b_counts_again", "o_counts", "b_counts_at_last")
    before, after, owner, at_last = (whole(play[step].one("documentos")) for step in steps)
    view, claimed = whole(play["b_asks_the_view"].one("aguardando")), len(play["c_claims"].rows)
    return Observed(
        (before, after, owner, at_last) == (4, 0, 4, 4) and (view, claimed) == (4, 1),
        "reader counts {counted}, with row security {counted_secured}, owner {counted_owner}; with a policy {counted_policy}",
        "o leitor conta {counted}, com segurança de linha {counted_secured}, o dono {counted_owner}; com uma política"
        " {counted_policy}",
        facts={
            "counted": Fact(before, "documents"),
            "counted_secured": Fact(after, "documents"),
            "counted_owner": Fact(owner, "documents"),
            "counted_policy": Fact(at_last, "documents"),
        },
    )


@lesson.scenario("one_view", core=False)
def one_view(play: Play) -> Observed:
    looked, again = play["o_looks"], play["o_looks_again"]
    stand = [whole(looked.one(name)) for name in STANDS]
    retrying, renewals, taken_over = (whole(looked.one(name)) for name in ("repetindo", "renovacoes", "recuperacoes"))
    orphaned, retrying_again, recovered = (whole(again.one(name)) for name in ("orfaos", "repetindo", "recuperacoes"))
    why = play["o_asks_why"]
    failures = dict(zip(why.column("categoria_erro"), map(whole, why.column("falhas")), strict=True))
    return Observed(
        stand == [1] * len(STANDS)
        and (retrying, renewals, taken_over) == (1, 1, 0)
        and play["o_asks_how_long"].rows == (("t", "t", "t"),)
        and (orphaned, retrying_again, recovered) == (0, 2, 1)
        and failures == {"conteudo": 1, "queda": 1, "sistemico": 1},
        "{total} documents in {states} states; renewals {renewals}, take-overs {recovered}; failures: conteudo {content}, queda"
        " {crash}, sistemico {systemic}",
        "{total} documentos em {states} estados; renovações {renewals}, recuperações {recovered}; falhas: conteudo {content}, queda"
        " {crash}, sistemico {systemic}",
        facts={
            "total": Fact(sum(number or 0 for number in stand), "documents"),
            "states": Fact(len(STANDS), "states"),
            "renewals": Fact(renewals, "renewals"),
            "recovered": Fact(recovered, "documents"),
            "content": Fact(failures.get("conteudo"), "failures"),
            "crash": Fact(failures.get("queda"), "failures"),
            "systemic": Fact(failures.get("sistemico"), "failures"),
        },
    )


@dataclass(frozen=True)
class _Deployment:
    """What came of a deployment without one grant, in minutes of the lab's clock from it: None if it never came.

    `on_time` of the `total` documents were finished by the minute in which they were due; `named` is what the check found missing.
    """

    refused_after: int | None
    on_time: int
    total: int
    named: tuple[str, ...] = ()
    named_after: int | None = None


def _deployed(stage: Stage, function: str, *, checked: bool) -> _Deployment:
    """Deploy a worker that may not execute that function, and let it poll each minute until the documents are due.

    Where it is `checked`, what the check names is granted before the worker starts.
    """
    stage.build(STATE)
    named: tuple[str, ...] = ()
    named_after = refused_after = None
    with stage.connection() as owner, stage.connection("lab/worker") as worker:
        owner.execute(f"REVOKE {EXECUTE.format(function)} FROM {WORKER}".encode())
        owner.execute("UPDATE fila_documentos SET disponivel_em = relogio() + make_interval(mins => %s)", [AHEAD])
        begun = grants.one(owner, "SELECT relogio()")
        if checked:
            named = permissions.check(owner).missing
            named_after = _minutes_since(owner, begun)
            for grant in named:
                owner.execute(grant.encode())
        worker.execute(f"SET ROLE {WORKER}".encode())
        for _ in range(AHEAD + 1):
            try:
                _claims_and_finishes(worker)
            except psycopg.errors.InsufficientPrivilege:
                refused_after = _minutes_since(owner, begun)
                break
            owner.execute("UPDATE relogio_do_laboratorio SET adiantado = adiantado + INTERVAL '1 minute'")
        on_time, total = owner.execute(
            "SELECT count(*) FILTER (WHERE concluido_em < disponivel_em + INTERVAL '1 minute'), count(*) FROM fila_documentos"
        ).fetchone() or (0, 0)
    return _Deployment(refused_after, on_time, total, named, named_after)


def _claims_and_finishes(worker: psycopg.Connection) -> None:
    for claim in worker.execute("SELECT documento_id, token_reserva FROM reservar('worker-a', 100)").fetchall():
        worker.execute("SELECT concluir(%s, %s)", claim)


def _minutes_since(connection: psycopg.Connection, moment: datetime) -> int:
    """Whole minutes of the lab's clock since then."""
    minutes: int = grants.one(connection, "SELECT floor(extract(EPOCH FROM relogio() - %s) / 60)::INTEGER", moment)
    return minutes


def _claimed_beside_a_naive_check(stage: Stage) -> int:
    """How many documents another worker gets while a check tries the protocol on the first document that is due."""
    stage.build(STATE)
    with stage.connection("lab/check") as checking, stage.connection("lab/B") as other:
        checking.execute("BEGIN")
        checking.execute("SELECT documento_id FROM reservar('verificacao')")
        return _claims_all(other)


def _claimed_beside_the_check(stage: Stage) -> tuple[permissions.Report, int, int]:
    """The check's report, how many documents another worker gets in the middle of it, and what rows the check left behind."""
    stage.build(STATE)
    with stage.connection("lab/check") as checking, stage.connection("lab/B") as other:
        claimed = 0

        def seen(call: Call) -> None:
            nonlocal claimed
            if call.what == "concluir":
                claimed = _claims_all(other)

        report = permissions.check(checking, seen=seen)
        left = other.execute(
            "SELECT (SELECT count(*) FROM fila_documentos WHERE inquilino <> 'padrao')"
            " + (SELECT count(*) FROM auditoria WHERE inquilino <> 'padrao')"
        ).fetchone()
    assert left
    return report, claimed, left[0]


def _claims_all(connection: psycopg.Connection) -> int:
    connection.execute("SET lock_timeout = '5s'")  # it should not wait for any session; if it does, say so soon
    return len(connection.execute("SELECT documento_id FROM reservar('worker-b', 100)").fetchall())


def _grants(connection: psycopg.Connection) -> list[str]:
    """Everything that the lab's roles were granted in this schema, as GRANT statements."""
    return [
        grant
        for (grant,) in connection.execute(
            "SELECT format('GRANT USAGE ON SCHEMA %%s TO %%I;', nspname, grantee::REGROLE)"
            " FROM pg_namespace, aclexplode(nspacl) WHERE oid = %(schema)s::REGNAMESPACE AND grantee = ANY(%(roles)s::REGROLE[])"
            " UNION ALL SELECT format('GRANT EXECUTE ON FUNCTION %%s.%%I TO %%I;', %(schema)s, proname, grantee::REGROLE)"
            " FROM pg_proc, aclexplode(proacl) WHERE pronamespace = %(schema)s::REGNAMESPACE AND grantee = ANY(%(roles)s::REGROLE[])"
            " UNION ALL SELECT format('GRANT SELECT ON %%s.%%I TO %%I;', %(schema)s, relname, grantee::REGROLE)"
            " FROM pg_class, aclexplode(relacl) WHERE relnamespace = %(schema)s::REGNAMESPACE AND grantee = ANY(%(roles)s::REGROLE[])"
            " UNION ALL SELECT format('GRANT SELECT (%%s) ON %%s.%%I TO %%I;', string_agg(attname, ', ' ORDER BY attnum),"
            " %(schema)s, relname, grantee::REGROLE) FROM pg_attribute INNER JOIN pg_class ON attrelid = pg_class.oid,"
            " aclexplode(attacl) WHERE relnamespace = %(schema)s::REGNAMESPACE AND grantee = ANY(%(roles)s::REGROLE[])"
            " GROUP BY relname, grantee"
            " ORDER BY 1",
            {"schema": SCHEMA, "roles": [grants.lab_role(duty) for duty in grants.DUTIES]},
        )
    ]


def _named_when_revoked(connection: psycopg.Connection, grant: str) -> tuple[str, ...]:
    """What the check finds missing while this one grant is revoked."""
    revoke = grant.replace("GRANT", "REVOKE").replace(" TO ", " FROM ")
    with connection.transaction(force_rollback=True):
        connection.execute(sql.SQL(revoke))
        return permissions.check(connection).missing
