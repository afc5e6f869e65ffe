"""Lesson 10: people step in without taking a document from a worker that lives; and each role may do its part only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import psycopg
from psycopg import sql

from lab.base.facts import Fact
from lab.base.language import Text
from lab.lessons.lesson import Lesson, Observed
from lab.protocol import forbidden, grants, permissions
from lab.protocol.permissions import Call
from lab.scenario.result import Play
from lab.scenario.stage import Stage
from lab.server.session import SCHEMA

lesson = Lesson(
    __file__,
    minutes=12,
    question=Text(
        "The queue hangs, somebody says. Who may step in, how, and what must he not be able to do?",
        "A fila travou, diz alguém. Quem pode intervir, como, e o que essa pessoa não pode conseguir fazer?",
    ),
    answer=Text(
        "by version and with a reason; a live lease is refused; a blind reset doubles the effects",
        "pela versão e com motivo; reserva viva é recusada; devolver às cegas duplica os efeitos",
    ),
    psql_only=Text("partly (the permissions need ./lab run 10)", "em parte (as permissões pedem ./lab run 10)"),
)

STATE = 10
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
    live, orphan = len(play["o_pauses"].rows), play["o_pauses_orphan"].rows
    late = [len(play[step].rows) for step in ("a_finishes", "a_renews")]
    offered = [row[0] for row in play["b_claims"].rows]
    again = play["b_claims_again"].rows
    return Observed(
        live == 0
        and orphan == (("1", "pausado", "2"),)
        and late == [0, 0]
        and offered == ["2", "3", "4"]
        and again == (("1", "5", "2", "4"),),
        f"rows paused: live lease {live}, orphan {len(orphan)}; late finish {late[0]}, late renewal {late[1]}"
        f"; once resumed: attempt {again[0][2]} under token {again[0][1]}",
        f"linhas pausadas: reserva viva {live}, órfão {len(orphan)}; conclusão atrasada {late[0]}, renovação atrasada {late[1]}"
        f"; depois de retomado: tentativa {again[0][2]} com o token {again[0][1]}",
    )


@lesson.scenario("blind_reset")
def blind_reset(play: Play) -> Observed:
    recovered, paused = len(play["o_recovers"].rows), len(play["o_pauses"].rows)
    live = [row[0] for row in play["o_resets"].rows if row[1] == "t"]
    finished = len(play["a_finishes"].rows) + len(play["b_finishes"].rows)
    documents, effects = play["o_counts"].rows[0]
    told = [row for row in play["o_audits"].rows if row[3] == "operador"]
    return Observed(
        (recovered, paused) == (0, 0)
        and live == ["1", "2"]
        and finished == 0
        and (documents, effects) == ("2", "4")
        and not told,
        f"taken from live workers: recuperar {recovered}, pausar {paused}, blind reset {len(live)}"
        f"; then {effects} effects for {documents} documents, {finished} finishes let through, audit rows of the reset {len(told)}",
        f"tirados de workers vivos: recuperar {recovered}, pausar {paused}, às cegas {len(live)}"
        f"; depois, {effects} efeitos para {documents} documentos, {finished} conclusões aceitas, linhas de auditoria {len(told)}",
    )


@lesson.scenario("commands")
def commands(play: Play) -> Observed:
    refused = [play[step].sqlstate for step in ("o_gives_no_reason", "o_gives_no_name")]
    stale = [len(play[step].rows) for step in ("o_pauses_what_was_seen", "o_resumes_again")]
    obeyed = [len(play[step].rows) for step in ("o_pauses", "o_resumes")]
    audit = play["o_audits"].rows
    by_operator = [row for row in audit if row[3] == "operador"]
    unchanged = play["o_examines_at_last"].rows[0][2:] == play["o_examines_again"].rows[0][2:]
    return Observed(
        refused == ["22023", "22023"]
        and stale == [0, 0]
        and obeyed == [1, 1]
        and [row[0] for row in audit] == ["1", "2", "3", "4"]
        and len(by_operator) == sum(obeyed)
        and unchanged,
        f"without a reason or a name {refused[0]}; by an old version {sum(stale)} rows; obeyed {sum(obeyed)}"
        f"; audit rows of the operator {len(by_operator)}",
        f"sem motivo ou sem nome {refused[0]}; com versão velha {sum(stale)} linhas; atendidos {sum(obeyed)}"
        f"; linhas do operador na auditoria {len(by_operator)}",
    )


@lesson.scenario("reconcile")
def reconcile(play: Play) -> Observed:
    status, version, attempts, worker, live, stage, key, reference = play["o_examines"].rows[0]
    confirmed, again = len(play["o_confirms"].rows), len(play["o_confirms_again"].rows)
    after = play["o_examines_again"].rows[0]
    audit = play["o_audits"].rows
    return Observed(
        (status, version, attempts, worker, live) == ("conciliacao", "3", "1", "worker-a", "f")
        and (stage, key, reference) == ("desconhecido", "padrao/NFE-0001", None)
        and play["o_confirms_nothing"].sqlstate == "22023"
        and len(play["o_pauses"].rows) == 0
        and (confirmed, again) == (1, 0)
        and after == ("concluido", "4", "1", "obtido", "R-4711")
        and audit[-1] == ("4", "conciliacao", "concluido", "operador", "achado no receptor"),
        f"shown: {status}, attempts {attempts}, {worker}, stage {stage}, key {key}; confirmed {confirmed} row, a second time {again}"
        f"; now {after[0]} with {after[4]}",
        f"mostrado: {status}, tentativas {attempts}, {worker}, etapa {stage}, chave {key}; confirmado: {confirmed} linha,"
        f" na segunda vez {again}; agora {after[0]} com {after[4]}",
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
    calls, tried = len(report.calls), len(attempts)
    refused = sum(attempt.refused for attempt in attempts)
    by_role = {duty: sum(attempt.duty == duty for attempt in attempts) for duty in grants.DUTIES}
    counted = ", ".join(f"{duty} {number}" for duty, number in by_role.items())
    needed = sum(grant.asked for grant in held)
    return Observed(
        report.good and refused == tried > 0 and needed == len(held) > 0,
        f"allowed {report.allowed} of {calls}; refused {refused} of {tried} ({counted}); grants needed {needed} of {len(held)}",
        f"permitidas {report.allowed} de {calls}; recusadas {refused} de {tried} ({counted}); direitos necessários {needed} de"
        f" {len(held)}",
        facts={"through": Fact(tried - refused, "statements")},
    )


@needs_roles
@lesson.experiment(
    "check_permissions",
    "The check before a deployment runs the whole protocol as the service accounts on a document and a tenant of its own, keeps"
    " no live document from anybody, leaves nothing, and names every missing grant.",
    "A verificação antes da implantação roda o protocolo inteiro como as contas de serviço, em documento e inquilino próprios, não"
    " tira documento vivo de ninguém, não deixa nada e diz cada direito que falta.",
)
def check_permissions(stage: Stage) -> Observed:
    naive = _claimed_beside_a_naive_check(stage)
    report, claimed, left = _claimed_beside_the_check(stage)
    stage.build(STATE)
    with stage.connection() as connection:
        revoked = {grant: _named_when_revoked(connection, grant) for grant in _grants(connection)}
    named = sum(missing == (grant,) for grant, missing in revoked.items())
    calls = len(report.calls)
    return Observed(
        report.good and report.on_own_row and claimed == 4 and naive == 3 and left == 0 and named == len(revoked) > 0,
        f"allowed {report.allowed} of {calls}; meanwhile another worker claims {claimed} of 4 (beside a check on live documents {naive})"
        f"; left behind {left}; grants revoked one at a time: {named} of {len(revoked)} named",
        f"permitidas {report.allowed} de {calls}; enquanto isso outro worker reserva {claimed} de 4 (ao lado de uma verificação sobre"
        f" documentos vivos, {naive}); sobraram {left}; direitos revogados um a um: {named} de {len(revoked)} apontados",
        facts={"claimed": Fact(claimed)},
    )


@lesson.scenario("requeue", core=False)
def requeue(play: Play) -> Observed:
    before, after = play["a_claims"].rows[0], play["b_claims"].rows[0]
    failed = play["a_fails"].rows[0][1]
    late, finished = len(play["a_finishes"].rows), len(play["b_finishes"].rows)
    return Observed(
        failed == "conciliacao"
        and before[1:] == ("1", "1", "padrao/NFE-0001", "nao_chamado")
        and after[1:] == ("2", "2", "padrao/NFE-0001", "desconhecido")
        and (late, finished) == (0, 1),
        f"from {failed}: attempt {after[2]}, token {after[1]}, stage {after[4]}, key {after[3]} as before"
        f"; finishes: old token {late}, new {finished}",
        f"de {failed}: tentativa {after[2]}, token {after[1]}, etapa {after[4]}, chave {after[3]} como antes"
        f"; conclusões: token antigo {late}, novo {finished}",
    )


@needs_roles
@lesson.scenario("for_update_privilege", core=False)
def for_update_privilege(play: Play) -> Observed:
    read, locked = len(play["b_reads"].rows), play["b_locks"].sqlstate
    wrote, claimed = len(play["b_writes"].rows), len(play["c_claims"].rows)
    return Observed(
        (read, locked, play["b_shares"].sqlstate, len(play["b_locks_again"].rows)) == (1, "42501", "42501", 1)
        and wrote == 1
        and (play["c_reads"].sqlstate, claimed) == ("42501", 1),
        f"reader: SELECT {read} row, FOR UPDATE {locked}; with UPDATE on one column it locks, and writes {wrote} row"
        f"; worker, without any right on the table, claims {claimed}",
        f"leitor: SELECT {read} linha, FOR UPDATE {locked}; com UPDATE em uma coluna bloqueia e escreve {wrote} linha"
        f"; worker, sem direito nenhum sobre a tabela, reserva {claimed}",
    )


@needs_roles
@lesson.scenario("hijack", core=False)
def hijack(play: Play) -> Observed:
    refused = play["b_writes"].sqlstate
    hijacked, cured = play["o_counts"].value, play["o_counts_again"].value
    answers = [play[step].value for step in ("b_asks", "b_asks_again", "b_asks_at_last")]
    return Observed(
        refused == "42501" and (hijacked, cured) == ("4", "0") and answers == ["f", "t", "f"],
        f"own UPDATE {refused}; documents changed through the function: {hijacked}, with a fixed search_path {cured}",
        f"UPDATE próprio {refused}; documentos alterados pela função: {hijacked}; com search_path fixo, {cured}",
    )


@needs_roles
@lesson.scenario("executable_by_everyone", core=False)
def executable_by_everyone(play: Play) -> Observed:
    deleted, after, public = play["b_empties"].value, play["b_empties_again"].sqlstate, play["o_counts"].value
    return Observed(
        play["b_deletes"].sqlstate == "42501" and (deleted, after, public) == ("4", "42501", "0"),
        f"a reader's DELETE {play['b_deletes'].sqlstate}; through the new function {deleted} rows, once revoked {after}"
        f"; functions of the protocol that everyone may execute: {public}",
        f"DELETE do leitor {play['b_deletes'].sqlstate}; pela função nova, {deleted} linhas; depois de revogada, {after}"
        f"; funções do protocolo que todos podem executar: {public}",
    )


@needs_roles
@lesson.scenario("row_security", core=False)
def row_security(play: Play) -> Observed:
    before, after, owner = (play[step].value for step in ("b_counts", "b_counts_again", "o_counts"))
    view, claimed, at_last = play["b_asks_the_view"].value, len(play["c_claims"].rows), play["b_counts_at_last"].value
    return Observed(
        (before, after, owner, at_last) == ("4", "0", "4", "4") and (view, claimed) == ("4", 1),
        f"reader counts {before}, with row security {after}, owner {owner}; with a policy {at_last}",
        f"o leitor conta {before}, com segurança de linha {after}, o dono {owner}; com uma política {at_last}",
    )


@lesson.scenario("one_view", core=False)
def one_view(play: Play) -> Observed:
    columns, row = play["o_looks"].columns or (), play["o_looks"].rows[0]
    counts = {name: int(value or 0) for name, value in zip(columns, row, strict=True)}
    stand = [counts[name] for name in columns[:8]]
    taken = play["o_looks_again"].rows[0]
    failures = {row[0]: row[1] for row in play["o_asks_why"].rows}
    listed = ", ".join(f"{category} {number}" for category, number in failures.items())
    return Observed(
        stand == [1] * 8
        and (counts["repetindo"], counts["renovacoes"], counts["recuperacoes"]) == (1, 1, 0)
        and play["o_asks_how_long"].rows == (("t", "t", "t"),)
        and taken == ("0", "2", "1")
        and failures == {"conteudo": "1", "queda": "1", "sistemico": "1"},
        f"{sum(stand)} documents in {len(stand)} states; renewals {counts['renovacoes']}, take-overs {taken[2]}; failures: {listed}",
        f"{sum(stand)} documentos em {len(stand)} estados; renovações {counts['renovacoes']}, recuperações {taken[2]}; falhas: {listed}",
    )


def _claimed_beside_a_naive_check(stage: Stage) -> int:
    """How many documents another worker gets while a check tries the protocol on whatever document is due."""
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
    connection.execute("SET lock_timeout = '5s'")  # it should not wait for anybody; if it does, say so soon
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
