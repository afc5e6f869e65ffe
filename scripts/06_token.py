"""Lesson 06: a token minted at every claim fences off whoever comes back late."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from lab.base.language import Text
from lab.experiments import fencing_table
from lab.lessons.lesson import Lesson, Observed
from lab.scenario.result import Play
from lab.scenario.stage import Stage
from lab.server import schema
from lab.server.embedded import EmbeddedServer
from lab.server.session import SessionPins
from lab.server.throwaway import crash, scratch_server

lesson = Lesson(
    __file__,
    minutes=12,
    question=Text(
        "A stalls, B takes over, and A comes back with its result. What keeps A from overwriting B?",
        "A fica parado, B assume, e A volta com o resultado. O que impede A de sobrescrever o que é de B?",
    ),
    answer=Text(
        "only the token (or a version that is never reset): id, state, name and attempt each let a late write through",
        "só o token (ou uma versão que nunca é zerada): id, estado, nome e tentativa deixam, cada um, passar uma escrita atrasada",
    ),
    psql_only=Text("partly (the truth table needs ./lab run 06)", "em parte (a tabela-verdade pede ./lab run 06)"),
)

# How reservar mints a token, and how it could: 60 random bits.
MINTED = "nextval('token_reserva_seq')"
RANDOM = "('x' || left(replace(gen_random_uuid()::TEXT, '-', ''), 15))::BIT(60)::BIGINT"


@lesson.scenario("same_name")
def same_name(play: Play) -> Observed:
    late, owner = len(play["a_finishes"].rows), len(play["b_fails"].rows)
    _, status, worker, attempt, _ = play["c_reads"].rows[0]
    return Observed(
        (late, owner, status) == (1, 0, "concluido"),
        f"rows: late finish {late}, the successor's failure {owner}; the table says {status}, {worker}, attempt {attempt}",
        f"linhas: conclusão atrasada {late}, falha do sucessor {owner}; a tabela diz {status}, {worker}, tentativa {attempt}",
    )


@lesson.scenario("late_writes")
def late_writes(play: Play) -> Observed:
    finish, failure, renewal, again = (
        len(play[step].rows) for step in ("a_finishes", "a_fails", "a_renews", "a_tries_again")
    )
    owner = len(play["b_finishes"].rows)
    tokens = [play[step].rows[0][1] for step in ("a_claims", "b_claims")]
    _, status, attempts, version, error = play["c_reads_again"].rows[0]
    return Observed(
        (finish, failure, renewal, again, owner) == (0, 0, 0, 0, 1)
        and tokens == ["1", "2"]
        and (status, attempts, version, error) == ("concluido", "2", "4", None),
        f"tokens {tokens[0]} and {tokens[1]}; rows: A's late finish {finish}, failure {failure}, renewal {renewal}"
        f"; B's finish {owner}; A once more {again}",
        f"tokens {tokens[0]} e {tokens[1]}; linhas: conclusão atrasada de A {finish}, falha {failure}, renovação {renewal}"
        f"; conclusão de B {owner}; A mais uma vez {again}",
    )


@lesson.experiment(
    "truth_table",
    "Each guard lets a late write through where the next one does not: by id, and state, and worker name, and attempt count.",
    "Cada guarda deixa passar uma escrita atrasada onde a seguinte não deixa: por id, e estado, e nome do worker, e número da tentativa.",
)
def guards_that_fail(stage: Stage) -> Observed:
    table = fencing_table.examine(stage.conninfo)
    names = ("id", "status", "worker", "attempt")
    destroyed = [table.destroyed(name) for name in names]
    # Where the owner's write came last and overwrote the late one, the table is right in the end by luck only.
    lost = [sum(not table.cell(name, each.name).kept for each in fencing_table.situations()) for name in names]
    cases = len(fencing_table.situations())
    counts = ", ".join(map(str, destroyed))
    losses = ", ".join(map(str, lost))
    return Observed(
        all(more > less for more, less in zip(destroyed, [*destroyed[1:], 0], strict=True)) and min(lost) > 0,
        f"late writes that got through in {cases} situations: by id, state, name, attempt {counts}; results lost {losses}",
        f"escritas atrasadas que passaram em {cases} situações: por id, estado, nome, tentativa {counts}; resultados perdidos {losses}",
    )


@lesson.experiment(
    "token_and_version",
    "A token never reused and a version never reset both refuse every late write; the version also locks out its owner after any change.",
    "Um token nunca reusado e uma versão nunca zerada recusam toda escrita atrasada; a versão, após qualquer mudança, barra também o dono.",
)
def guards_that_hold(stage: Stage) -> Observed:
    table = fencing_table.examine(stage.conninfo)
    late = {name: table.destroyed(name) for name in ("version", "token")}
    kept = all(cell.kept for cell in table.cells if cell.guard in late)
    cases = len(fencing_table.situations())
    version, token = table.owners["version"], table.owners["token"]
    return Observed(
        late == {"version": 0, "token": 0} and kept and (version, token) == (0, 1),
        f"late writes that got through in {cases} situations: token {late['token']}, version {late['version']}"
        f"; the owner's finish after a change: token {token} row, version {version} rows",
        f"escritas atrasadas que passaram em {cases} situações: token {late['token']}, versão {late['version']}"
        f"; conclusão do dono depois de uma mudança: token {token} linha, versão {version} linhas",
    )


@lesson.scenario("not_taken_over")
def not_taken_over(play: Play) -> Observed:
    ended = play["c_looks"].rows[0][2]
    renewed, finished = len(play["a_renews"].rows), len(play["a_finishes"].rows)
    recovered = len(play["c_recovers"].rows) + len(play["c_recovers_again"].rows)
    tokens = [row[2] for row in play["c_reads"].rows]
    return Observed(
        (ended, renewed, recovered, finished) == ("t", 1, 0, 1) and tokens == ["1", "1"],
        f"lease ended; rows: renewal {renewed}, finish {finished}, recovered {recovered}; tokens in the audit {' '.join(map(str, tokens))}",
        f"reserva vencida; linhas: renovação {renewed}, conclusão {finished}, recuperadas {recovered}"
        f"; tokens na auditoria {' '.join(map(str, tokens))}",
    )


@lesson.scenario("audit")
def audit(play: Play) -> Observed:
    before, after = play["a_claims"].rows[0][1:], play["a_reads"].rows[0]
    renewals = sum(len(play[step].rows) for step in ("a_renews", "a_renews_again"))
    refused = len(play["a_finishes"].rows)
    changes = play["c_audits"].rows
    version = play["c_reads"].rows[0][1]
    chained = all(row[2] == following[1] for row, following in pairwise(changes))
    return Observed(
        before == ("1", "1")
        and after == ("1", "1")
        and (renewals, refused) == (2, 0)
        and [row[0] for row in changes] == ["1", "2", "3", "4"]
        and version == "4"
        and chained,
        f"{len(changes)} changes of state, {len(changes)} rows of audit, version {version}"
        f"; after {renewals} renewals version {after[0]} and token {after[1]}, as before",
        f"{len(changes)} mudanças de estado, {len(changes)} linhas de auditoria, versão {version}"
        f"; depois de {renewals} renovações, versão {after[0]} e token {after[1]}, como antes",
    )


@lesson.scenario("same_moment", core=False)
def same_moment(play: Play) -> Observed:
    recovered = " ".join(row[0] or "" for row in play["c_recovers"].rows)
    late = play["a_finishes_second"]
    first = len(play["a_finishes"].rows)
    return Observed(
        (first, recovered, len(late.rows)) == (1, "2", 0) and late.waited_for == ("C",),
        f"A first at document 1: finish {first} row; recovery took document {recovered}, and A's finish of it, having waited,"
        f" changed {len(late.rows)}",
        f"A primeiro no documento 1: conclusão {first} linha; a recuperação pegou o documento {recovered}, e a conclusão dele por A,"
        f" depois de esperar, alterou {len(late.rows)}",
    )


@lesson.scenario("recovery_in_two_steps", core=False)
def recovery_in_two_steps(play: Play) -> Observed:
    reopened, checked = len(play["c_updates"].rows), len(play["c_updates_checking"].rows)
    document, attempt = play["b_claims"].rows[0]
    return Observed(
        (reopened, checked, document) == (1, 0, "1"),
        f"finished documents re-opened: {reopened}, with the condition repeated {checked}"
        f"; document {document} given out again, attempt {attempt}",
        f"documentos concluídos reabertos: {reopened}; repetindo a condição, {checked}"
        f"; documento {document} entregue de novo, tentativa {attempt}",
    )


@lesson.scenario("finish_skips", core=False)
def finish_skips(play: Play) -> Observed:
    skipped, finish = len(play["a_skips"].rows), play["a_finishes"]
    status, worker, token, _ = play["c_reads"].rows[0]
    return Observed(
        (skipped, status, worker, token) == (0, "processando", "worker-a", "1")
        and finish.waited_for == ("M",)
        and len(finish.rows) == 1,
        f"SKIP LOCKED: {skipped} rows while {worker} owned it under token {token}; concluir waited for M, then {len(finish.rows)} row",
        f"SKIP LOCKED: {skipped} linhas, embora fosse de {worker} com o token {token}"
        f"; concluir esperou por M, e então {len(finish.rows)} linha",
    )


@lesson.scenario("token_reset", core=False)
def token_reset(play: Play) -> Observed:
    counted = [play[step].rows[0][1] for step in ("a_claims", "b_claims")]
    minted = [play[step].rows[0][1] for step in ("b_claims_another", "b_claims_again")]
    late, owner = len(play["a_fails"].rows), len(play["b_finishes"].rows)
    return Observed(
        counted == ["1", "1"] and minted == ["1", "2"] and (late, owner) == (1, 0),
        f"counted in the row: tokens {counted[0]} and {counted[1]}, late failure {late} row, owner's finish {owner}"
        f"; from the sequence: tokens {minted[0]} and {minted[1]}",
        f"contado na linha: tokens {counted[0]} e {counted[1]}, falha atrasada {late} linha, conclusão do dono {owner}"
        f"; da sequência: tokens {minted[0]} e {minted[1]}",
    )


@lesson.scenario("heartbeat_by_id", core=False)
def heartbeat_by_id(play: Play) -> Observed:
    stolen, by_name = len(play["a_beats"].rows), len(play["b_finishes_by_name"].rows)
    worker, _, late = play["c_looks"].rows[0]
    renewal, finish = len(play["a_renews"].rows), len(play["b_finishes"].rows)
    return Observed(
        (stolen, by_name, worker, late, renewal, finish) == (1, 0, "worker-a", "t", 0, 1),
        f"rows: A's heartbeat {stolen}, then B's finish by name {by_name}; with the token: A's heartbeat {renewal}, B's finish {finish}",
        f"linhas: sinal de vida de A {stolen}, depois conclusão de B pelo nome {by_name}"
        f"; com o token: sinal de A {renewal}, conclusão de B {finish}",
    )


@lesson.experiment(
    "asynchronous_commit",
    "With asynchronous commit a crash can bring a token back, and then a late write gets through; with synchronous commit, or with"
    " random tokens, it did not.",
    "Com commit assíncrono, uma queda pode trazer um token de volta, e então passa uma escrita atrasada; com commit síncrono, ou com"
    " tokens aleatórios, não trouxe.",
    core=False,
)
def asynchronous_commit(stage: Stage) -> Observed:
    if not stage.embedded:
        why = "a server has to be crashed, and the lab crashes none but one of its own"
        return Observed(None, "not run", "não rodou", why)
    # The log is written by somebody else only every ten seconds, so that the crash comes before it.
    with scratch_server(wal_writer_delay="10s") as server:
        lazy = [_claim_crash_claim(server, synchronous_commit="off") for _ in range(2)]
        safe = [_claim_crash_claim(server, synchronous_commit="on") for _ in range(2)]
        drawn = [_claim_crash_claim(server, synchronous_commit="off", minted=RANDOM) for _ in range(2)]
    repeated, again, alike = (sum(each.before == each.after for each in crashes) for crashes in (lazy, safe, drawn))
    through, refused, by_luck = (sum(each.late_rows for each in crashes) for crashes in (lazy, safe, drawn))
    first, last = lazy[0], safe[0]
    return Observed(
        repeated > 0 and through == repeated and again == refused == alike == by_luck == 0,
        f"asynchronous: token {first.before}, after the crash {first.after}; repeated {repeated} of {len(lazy)}, late writes {through}"
        f"; synchronous: {last.before}, then {last.after}; repeated {again} of {len(safe)}, late writes {refused}"
        f"; asynchronous and random: repeated {alike} of {len(drawn)}, late writes {by_luck}",
        f"assíncrono: token {first.before}, depois da queda {first.after}; repetido {repeated} de {len(lazy)}, escritas atrasadas {through}"
        f"; síncrono: {last.before}, depois {last.after}; repetido {again} de {len(safe)}, escritas atrasadas {refused}"
        f"; assíncrono e aleatório: repetido {alike} de {len(drawn)}, escritas atrasadas {by_luck}",
    )


@dataclass(frozen=True)
class _Crash:
    """Document 1's token before and after a crash, and the rows that the first one's late failure changed."""

    before: int
    after: int
    late_rows: int


def _claim_crash_claim(server: EmbeddedServer, synchronous_commit: str, minted: str = MINTED) -> _Crash:
    # A new sequence has logged no number yet: it logs 32 ahead, and only the loss of that record can bring a number back.
    schema.build(server.conninfo(), fencing_table.STATE)
    with SessionPins().psycopg_connection(server.conninfo(), "lab/A") as a:
        claim = a.execute("SELECT pg_get_functiondef('reservar'::REGPROC)").fetchone()
        assert claim and claim[0].count(MINTED) == 1
        a.execute(claim[0].replace(MINTED, minted).encode())
        a.execute("CHECKPOINT")  # the function is on the disk; what comes after it may be lost
        a.execute(f"SET synchronous_commit = {synchronous_commit}".encode())
        claimed = a.execute("SELECT token_reserva FROM reservar('worker-a')").fetchone()
        crash(server)
    server.up()
    with SessionPins().psycopg_connection(server.conninfo(), "lab/B") as b:
        b.execute("UPDATE relogio_do_laboratorio SET adiantado = INTERVAL '1 minute'")
        b.execute("SELECT documento_id FROM recuperar('vigia')")
        again = b.execute("SELECT token_reserva FROM reservar('worker-b')").fetchone()
        assert claimed and again
        late = b.execute("SELECT documento_id FROM falhar(1, %s, 'tempo esgotado')", [claimed[0]])
        return _Crash(claimed[0], again[0], late.rowcount)
