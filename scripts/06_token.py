"""Lesson 06: a token minted at every claim fences off a worker that comes back late."""

from __future__ import annotations

from lab.base.facts import Fact
from lab.base.language import Text, say
from lab.experiments import fencing_table, token_after_loss
from lab.lessons.lesson import Lesson, Observed
from lab.scenario.result import Play, flag, whole
from lab.scenario.stage import Stage
from lab.server.throwaway import scratch_server

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


@lesson.scenario("same_name")
def same_name(play: Play) -> Observed:
    late, owner = len(play["a_finishes"].rows), len(play["b_fails"].rows)
    row = play["c_reads"]
    status = row.one("status")
    return Observed(
        (late, owner, status) == (1, 0, "concluido"),
        "rows: late finish {rows_late_finish}, the successor's failure {rows_fail}; the table says {status}, {worker}, attempt"
        " {attempts}",
        "linhas: conclusão atrasada {rows_late_finish}, falha do sucessor {rows_fail}; a tabela diz {status}, {worker}, tentativa"
        " {attempts}",
        facts={
            "rows_late_finish": Fact(late, "rows"),
            "rows_fail": Fact(owner, "rows"),
            "status": Fact(status),
            "worker": Fact(row.one("worker_id")),
            "attempts": Fact(whole(row.one("tentativas")), "attempts"),
        },
    )


@lesson.scenario("late_writes")
def late_writes(play: Play) -> Observed:
    finish, failure, renewal, again = (
        len(play[step].rows) for step in ("a_finishes", "a_fails", "a_renews", "a_tries_again")
    )
    owner = len(play["b_finishes"].rows)
    tokens = tuple(whole(play[step].one("token_reserva")) for step in ("a_claims", "b_claims"))
    row = [play["c_reads_again"].one(name) for name in ("status", "tentativas", "versao", "ultimo_erro")]
    return Observed(
        (finish, failure, renewal, again, owner) == (0, 0, 0, 0, 1)
        and tokens == (1, 2)
        and row == ["concluido", "2", "4", None],
        "tokens {tokens:/ and }; rows: A's late finish {rows_late_finish}, failure {rows_late_fail}, renewal {rows_late_renew}"
        "; B's finish {rows_finish}; A once more {rows_again}",
        "tokens {tokens:/ e }; linhas: conclusão atrasada de A {rows_late_finish}, falha {rows_late_fail}, renovação"
        " {rows_late_renew}; conclusão de B {rows_finish}; A mais uma vez {rows_again}",
        facts={
            "tokens": Fact(tokens),
            "rows_late_finish": Fact(finish, "rows"),
            "rows_late_fail": Fact(failure, "rows"),
            "rows_late_renew": Fact(renewal, "rows"),
            "rows_finish": Fact(owner, "rows"),
            "rows_again": Fact(again, "rows"),
        },
    )


@lesson.experiment(
    "truth_table",
    "Each guard lets a late write through where the next one does not: by id, and state, and worker name, and attempt count.",
    "Cada condição do WHERE deixa passar uma escrita atrasada onde a seguinte não deixa: por id, estado, nome do worker e número da"
    " tentativa.",
)
def guards_that_fail(stage: Stage) -> Observed:
    table = fencing_table.examine(stage.conninfo)
    differs = stage.compare(fencing_table.RECORDED, table.as_json())
    situations = fencing_table.situations()
    names = ("id", "status", "worker", "attempt")
    through = [table.destroyed(name) for name in names]
    # Where the owner's write came last and overwrote the late one, the table is right in the end by luck only.
    lost = [sum(not table.cell(name, each.name).kept for each in situations) for name in names]
    return Observed(
        all(more > less for more, less in zip(through, [*through[1:], 0], strict=True))
        and min(lost) > 0
        and not differs,
        "late writes that got through in {situations} situations: by id, state, name, attempt {through_id}, {through_status},"
        " {through_worker}, {through_attempt}; results lost {lost_id}, {lost_status}, {lost_worker}, {lost_attempt}",
        "escritas atrasadas que passaram em {situations} situações: por id, estado, nome, tentativa {through_id}, {through_status},"
        " {through_worker}, {through_attempt}; resultados perdidos {lost_id}, {lost_status}, {lost_worker}, {lost_attempt}",
        facts={
            "situations": Fact(len(situations), "situations"),
            **{f"through_{name}": Fact(writes, "writes") for name, writes in zip(names, through, strict=True)},
            **{f"lost_{name}": Fact(results, "results") for name, results in zip(names, lost, strict=True)},
        },
        why=differs,
    )


@lesson.experiment(
    "token_and_version",
    "A token never reused and a version never reset both refuse every late write; the version, alone or together with worker and state,"
    " also locks out its owner after any change, such as a stage.",
    "Um token nunca reusado e uma versão nunca zerada recusam toda escrita atrasada; a versão, sozinha ou com worker e estado, barra"
    " também o dono após qualquer mudança, como uma etapa.",
)
def guards_that_hold(stage: Stage) -> Observed:
    table = fencing_table.examine(stage.conninfo)
    names = ("token", "version", "combined")
    through = {name: table.destroyed(name) for name in names}
    finishes = {name: table.owners[name] for name in names}
    kept = all(cell.kept for cell in table.cells if cell.guard in names)
    return Observed(
        not any(through.values()) and kept and finishes == {"token": 1, "version": 0, "combined": 0},
        "late writes that got through in {situations} situations: token {through_token}, version {through_version}, id + version +"
        " worker + state {through_combined}; the owner's finish after a change: token {rows_finish_token} row, version"
        " {rows_finish_version} rows, those four {rows_finish_combined} rows",
        "escritas atrasadas que passaram em {situations} situações: token {through_token}, versão {through_version}, id + versão +"
        " worker + estado {through_combined}; conclusão do dono depois de uma mudança: token {rows_finish_token} linha, versão"
        " {rows_finish_version} linhas, os quatro juntos, {rows_finish_combined}",
        facts={
            "situations": Fact(len(fencing_table.situations()), "situations"),
            **{f"through_{name}": Fact(writes, "writes") for name, writes in through.items()},
            **{f"rows_finish_{name}": Fact(rows, "rows") for name, rows in finishes.items()},
        },
    )


@lesson.scenario("not_taken_over")
def not_taken_over(play: Play) -> Observed:
    ended = flag(play["c_looks"].one("vencida"))
    renewed, finished = len(play["a_renews"].rows), len(play["a_finishes"].rows)
    recovered = len(play["c_recovers"].rows) + len(play["c_recovers_again"].rows)
    tokens = tuple(map(whole, play["c_reads"].column("token_reserva")))
    return Observed(
        (ended, renewed, recovered, finished) == (True, 1, 0, 1) and tokens == (1, 1),
        "lease ended: {ended}; rows: renewal {rows_renew}, finish {rows_finish}, recovered {recovered}; tokens in the audit"
        " {tokens:/ }",
        "reserva vencida: {ended}; linhas: renovação {rows_renew}, conclusão {rows_finish}, recuperadas {recovered}"
        "; tokens na auditoria {tokens:/ }",
        facts={
            "ended": Fact(ended),
            "rows_renew": Fact(renewed, "rows"),
            "rows_finish": Fact(finished, "rows"),
            "recovered": Fact(recovered, "documents"),
            "tokens": Fact(tokens),
        },
    )


@lesson.scenario("audit")
def audit(play: Play) -> Observed:
    claimed, renewed = (
        tuple(whole(play[step].one(name)) for name in ("versao", "token_reserva")) for step in ("a_claims", "a_reads")
    )
    changes = sum(len(play[step].rows) for step in ("a_claims", "c_recovers", "b_claims", "b_fails"))
    renewals = sum(len(play[step].rows) for step in ("a_renews", "a_renews_again"))
    refused = len(play["a_finishes"].rows)
    audited = play["c_audits"]
    version = whole(play["c_reads"].one("versao"))
    chained = audited.column("para")[:-1] == audited.column("de")[1:]
    return Observed(
        claimed == renewed == (1, 1)
        and (renewals, refused) == (2, 0)
        and audited.column("versao") == ("1", "2", "3", "4")
        and changes == version == 4
        and chained,
        "{changes} changes of state, {audit_rows} rows of audit, version {version}"
        "; after {renewals} renewals version {version_renewed} and token {token_renewed}, as before",
        "{changes} mudanças de estado, {audit_rows} linhas de auditoria, versão {version}"
        "; depois de {renewals} renovações, versão {version_renewed} e token {token_renewed}, como antes",
        facts={
            "changes": Fact(changes, "changes"),
            "audit_rows": Fact(len(audited.rows), "rows"),
            "version": Fact(version),
            "renewals": Fact(renewals, "renewals"),
            "version_renewed": Fact(renewed[0]),
            "token_renewed": Fact(renewed[1]),
        },
    )


@lesson.scenario("same_moment", core=False)
def same_moment(play: Play) -> Observed:
    recovered = tuple(map(whole, play["c_recovers"].column("documento_id")))
    late = play["a_finishes_second"]
    first = len(play["a_finishes"].rows)
    return Observed(
        (first, recovered, len(late.rows)) == (1, (2,), 0) and late.waited_for == ("C",),
        "A first at document 1: finish {rows_finish} row; recovery took document {documents}, and A's finish of it, having waited"
        " for {waited_for}, changed {rows_late_finish}",
        "A primeiro no documento 1: conclusão {rows_finish} linha; a recuperação pegou o documento {documents}, e a conclusão dele"
        " por A, depois de esperar por {waited_for}, alterou {rows_late_finish}",
        facts={
            "rows_finish": Fact(first, "rows"),
            "documents": Fact(recovered),
            "waited_for": Fact(late.waited_for),
            "rows_late_finish": Fact(len(late.rows), "rows"),
        },
    )


@lesson.scenario("recovery_in_two_steps", core=False)
def recovery_in_two_steps(play: Play) -> Observed:
    reopened, checked = len(play["c_updates"].rows), len(play["c_updates_checking"].rows)
    document, attempt = (whole(play["b_claims"].one(name)) for name in ("documento_id", "tentativas"))
    return Observed(
        (reopened, checked, document) == (1, 0, 1),
        "finished documents re-opened: {reopened}, with the condition repeated {reopened_checking}"
        "; document {document} given out again, attempt {attempts}",
        "documentos concluídos reabertos: {reopened}; repetindo a condição, {reopened_checking}"
        "; documento {document} entregue de novo, tentativa {attempts}",
        facts={
            "reopened": Fact(reopened, "documents"),
            "reopened_checking": Fact(checked, "documents"),
            "document": Fact(document),
            "attempts": Fact(attempt, "attempts"),
        },
    )


@lesson.scenario("finish_skips", core=False)
def finish_skips(play: Play) -> Observed:
    skipped, finish = len(play["a_skips"].rows), play["a_finishes"]
    status, worker, token = (play["c_reads"].one(name) for name in ("status", "worker_id", "token_reserva"))
    return Observed(
        (skipped, status, worker, token) == (0, "processando", "worker-a", "1")
        and finish.waited_for == ("M",)
        and len(finish.rows) == 1,
        "SKIP LOCKED: {rows_skip_locked} rows while {worker} owned it under token {token}; concluir waited for {waited_for}, then"
        " {rows_finish} row",
        "SKIP LOCKED: {rows_skip_locked} linhas, embora fosse de {worker} com o token {token}; concluir esperou por {waited_for},"
        " e então {rows_finish} linha",
        facts={
            "rows_skip_locked": Fact(skipped, "rows"),
            "worker": Fact(worker),
            "token": Fact(whole(token)),
            "waited_for": Fact(finish.waited_for),
            "rows_finish": Fact(len(finish.rows), "rows"),
        },
    )


@lesson.scenario("token_reset", core=False)
def token_reset(play: Play) -> Observed:
    counted, minted = (
        tuple(whole(play[step].one("token_reserva")) for step in steps)
        for steps in (("a_claims", "b_claims"), ("b_claims_another", "b_claims_again"))
    )
    late, owner = len(play["a_fails"].rows), len(play["b_finishes"].rows)
    return Observed(
        counted == (1, 1) and minted == (1, 2) and (late, owner) == (1, 0),
        "counted in the row: tokens {tokens_counted:/ and }, late failure {rows_late_fail} row, owner's finish {rows_finish}"
        "; from the sequence: tokens {tokens_minted:/ and }",
        "contado na linha: tokens {tokens_counted:/ e }, falha atrasada {rows_late_fail} linha, conclusão do dono {rows_finish}"
        "; da sequência: tokens {tokens_minted:/ e }",
        facts={
            "tokens_counted": Fact(counted),
            "rows_late_fail": Fact(late, "rows"),
            "rows_finish": Fact(owner, "rows"),
            "tokens_minted": Fact(minted),
        },
    )


@lesson.scenario("heartbeat_by_id", core=False)
def heartbeat_by_id(play: Play) -> Observed:
    stolen, by_name = len(play["a_beats"].rows), len(play["b_finishes_by_name"].rows)
    worker, late = play["c_looks"].one("worker_id"), flag(play["c_looks"].one("vencida"))
    renewal, finish = len(play["a_renews"].rows), len(play["b_finishes"].rows)
    return Observed(
        (stolen, by_name, worker, late, renewal, finish) == (1, 0, "worker-a", True, 0, 1),
        "rows: A's heartbeat {rows_renew_by_id}, then B's finish by name {rows_finish_by_name}; with the token: A's heartbeat"
        " {rows_renew}, B's finish {rows_finish}",
        "linhas: sinal de vida de A {rows_renew_by_id}, depois conclusão de B pelo nome {rows_finish_by_name}; com o token: sinal"
        " de A {rows_renew}, conclusão de B {rows_finish}",
        facts={
            "rows_renew_by_id": Fact(stolen, "rows"),
            "rows_finish_by_name": Fact(by_name, "rows"),
            "rows_renew": Fact(renewal, "rows"),
            "rows_finish": Fact(finish, "rows"),
        },
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
        why = say(
            "a server has to be crashed, and the lab crashes only its own",
            "é preciso derrubar um servidor, e o laboratório só derruba o dele",
        )
        return Observed(None, "not run", "não rodou", why)
    crashes = 3  # one that loses the claim is enough
    # No other process writes the log before the crash: not the walwriter, nor by a dirty page or a commit of its own.
    quiet = {
        "wal_writer_delay": "10s",
        "wal_writer_flush_after": "1GB",
        "bgwriter_lru_maxpages": "0",
        "autovacuum": "off",
    }
    with scratch_server(**quiet) as server:
        lazy = [token_after_loss.crashed(server, synchronous_commit="off") for _ in range(crashes)]
        safe = [token_after_loss.crashed(server, synchronous_commit="on") for _ in range(crashes)]
        drawn = [token_after_loss.crashed(server, synchronous_commit="off", counted=False) for _ in range(crashes)]
    ways = {"async": lazy, "sync": safe, "random": drawn}
    repeated = {way: sum(each.before == each.after for each in seen) for way, seen in ways.items()}
    through = {way: sum(each.late_rows for each in seen) for way, seen in ways.items()}
    return Observed(
        repeated["async"] > 0 and through == repeated and repeated["sync"] == repeated["random"] == 0,
        "asynchronous: token {token_async}, after the crash {token_async_after}; repeated {repeated_async} of {crashes}, late writes"
        " {through_async}; synchronous: {token_sync}, then {token_sync_after}; repeated {repeated_sync} of {crashes}, late writes"
        " {through_sync}; asynchronous and random: repeated {repeated_random} of {crashes}, late writes {through_random}",
        "assíncrono: token {token_async}, depois da queda {token_async_after}; repetido {repeated_async} de {crashes}, escritas"
        " atrasadas {through_async}; síncrono: {token_sync}, depois {token_sync_after}; repetido {repeated_sync} de {crashes},"
        " escritas atrasadas {through_sync}; assíncrono e aleatório: repetido {repeated_random} de {crashes}, escritas atrasadas"
        " {through_random}",
        facts={
            "token_async": Fact(lazy[0].before),
            "token_async_after": Fact(lazy[0].after),
            "token_sync": Fact(safe[0].before),
            "token_sync_after": Fact(safe[0].after),
            "crashes": Fact(crashes, "crashes"),
            **{f"repeated_{way}": Fact(tokens, "tokens") for way, tokens in repeated.items()},
            **{f"through_{way}": Fact(writes, "writes") for way, writes in through.items()},
        },
    )


@lesson.experiment(
    "restored_or_promoted",
    "A token that a sequence counts comes again from a restored backup and on a promoted standby, even with synchronous commit, and a"
    " late write gets through; a random token does not.",
    "Um token contado por uma sequência volta num backup restaurado e num standby promovido, mesmo com commit síncrono, e uma escrita"
    " atrasada passa; um token aleatório, não.",
    core=False,
)
def restored_or_promoted(stage: Stage) -> Observed:
    if not stage.embedded:
        why = say(
            "servers have to be copied and crashed, and the lab does that only with its own",
            "é preciso copiar e derrubar servidores, e o laboratório só faz isso com os dele",
        )
        return Observed(None, "not run", "não rodou", why)
    ways = {"restored": token_after_loss.restored, "promoted": token_after_loss.promoted}
    counted = {way: lose(counted=True) for way, lose in ways.items()}
    drawn = {way: lose(counted=False) for way, lose in ways.items()}
    through = [[seen[way].late_rows for way in ways] for seen in (counted, drawn)]
    return Observed(
        through == [[1, 1], [0, 0]] and all(each.before == each.after for each in counted.values()),
        "counted: token {token_restored}, from the backup {token_restored_after}, late writes {late_restored}; token {token_promoted},"
        " on the standby {token_promoted_after}, late writes {late_promoted}; random: late writes {late_restored_random} and"
        " {late_promoted_random}",
        "contado: token {token_restored}, no backup {token_restored_after}, escritas atrasadas {late_restored}; token {token_promoted},"
        " no standby {token_promoted_after}, escritas atrasadas {late_promoted}; aleatório: escritas atrasadas {late_restored_random} e"
        " {late_promoted_random}",
        facts={
            **{f"token_{way}": Fact(seen.before) for way, seen in counted.items()},
            **{f"token_{way}_after": Fact(seen.after) for way, seen in counted.items()},
            **{f"late_{way}": Fact(seen.late_rows, "writes") for way, seen in counted.items()},
            **{f"late_{way}_random": Fact(seen.late_rows, "writes") for way, seen in drawn.items()},
        },
    )
