"""Lesson 05: a deadline, so that a worker that died can be told from one that works."""

from __future__ import annotations

from lab.base.facts import Fact
from lab.base.language import Text
from lab.experiments import clock_skew
from lab.lessons.lesson import Lesson, Observed
from lab.measure import buffers
from lab.scenario.result import Play, StepRun, flag, whole
from lab.scenario.stage import Stage

lesson = Lesson(
    __file__,
    minutes=12,
    question=Text(
        "A worker has died after its claim's commit. Who notices, and who gets its document?",
        "Um worker morreu depois do COMMIT da reserva. Quem percebe, e quem recebe o documento dele?",
    ),
    answer=Text(
        "the deadline shows who is late; recuperar takes back that one and leaves the live one alone",
        "o prazo mostra quem está atrasado; recuperar pega só esse de volta e não mexe no que está vivo",
    ),
    psql_only=Text("partly (clocks and lengths need ./lab run 05)", "em parte (relógios e prazos pedem ./lab run 05)"),
)


@lesson.scenario("orphan")
def orphan(play: Play) -> Observed:
    locks = whole(play["c_counts"].one("bloqueios_de_a"))
    days = whole((play["c_moves"].one("adiantado") or "").partition(" ")[0])
    got, later = tuple(map(whole, play["b_claims"].column("documento_id"))), len(play["b_asks_again"].rows)
    status, worker, late = (play["c_looks"].one(name) for name in ("status", "worker_id", "vencida"))
    return Observed(
        locks == 0 and 1 not in got and later == 0 and (status, late) == ("processando", "t"),
        "locks held while working: {locks}; after {days} day B got {documents:/ }, then {rows_later} rows; document 1:"
        " {status}, {worker}",
        "bloqueios durante o trabalho: {locks}; depois de {days} dia, B recebeu {documents:/ }, e então {rows_later} linhas;"
        " documento 1: {status}, {worker}",
        facts={
            "locks": Fact(locks, "locks"),
            "days": Fact(days, "days"),
            "documents": Fact(got),
            "rows_later": Fact(later, "rows"),
            "status": Fact(status),
            "worker": Fact(worker),
        },
    )


@lesson.scenario("deadline")
def deadline(play: Play) -> Observed:
    running_before, running = (whole(play[step].one("executando")) for step in ("c_before", "c_after"))
    orphaned_before, orphaned = (whole(play[step].one("orfaos")) for step in ("c_before", "c_after"))
    by_status = dict(zip(play["c_status"].column("status"), play["c_status"].column("documentos"), strict=True))
    in_work = whole(by_status.get("processando"))
    whose = zip(play["c_who"].column("worker_id"), play["c_who"].column("vencida"), strict=True)
    late = tuple(worker for worker, is_late in whose if flag(is_late))
    return Observed(
        (running_before, orphaned_before) == (in_work, 0) and running == orphaned == 1 and late == ("worker-a",),
        "by the status {in_work} in work; by the deadline {running} running, {orphaned} orphaned ({workers_late}); before it passed"
        " {running_before} and {orphaned_before}",
        "pelo status, {in_work} em processando; pelo prazo, {running} em execução e {orphaned} órfão ({workers_late}); antes de"
        " vencer, {running_before} e {orphaned_before}",
        facts={
            "in_work": Fact(in_work, "documents"),
            "running": Fact(running, "documents"),
            "orphaned": Fact(orphaned, "documents"),
            "workers_late": Fact(late),
            "running_before": Fact(running_before, "documents"),
            "orphaned_before": Fact(orphaned_before, "documents"),
        },
    )


@lesson.scenario("blanket")
def blanket(play: Play) -> Observed:
    resets = play["o_resets"]
    put_back = zip(resets.column("documento_id"), resets.column("ainda_valia"), strict=True)
    alive = [document for document, still_held in put_back if flag(still_held)]
    again = [document for document in play["c_claims"].column("documento_id") if document in alive]
    first, second = len(play["b_finishes"].rows), len(play["c_finishes"].rows)
    return Observed(
        alive == again == ["2"] and (first, second) == (0, 1),
        "taken from a live worker: {taken_alive}; handed out again: {again}; rows: first finish {rows_first}, second {rows_second}",
        "tirados de um worker vivo: {taken_alive}; entregues de novo: {again}; linhas: primeira conclusão {rows_first},"
        " segunda {rows_second}",
        facts={
            "taken_alive": Fact(len(alive), "documents"),
            "again": Fact(len(again), "documents"),
            "rows_first": Fact(first, "rows"),
            "rows_second": Fact(second, "rows"),
        },
    )


@lesson.scenario("recover")
def recover(play: Play) -> Observed:
    taken, again = play["o_recovers"].rows, len(play["o_recovers_again"].rows)
    kept, finished = whole(play["c_claims"].one("tentativas")), len(play["b_finishes"].rows)
    status, attempts, reason = (play["o_looks"].column(name)[0] for name in ("status", "tentativas", "ultimo_erro"))
    return Observed(
        taken == (("1", "pendente", "1", "worker-a"),)
        and (again, finished, kept) == (0, 1, 2)
        and (status, attempts, reason) == ("falhou", "2", "worker sem resposta"),
        "taken back {recovered}, then {recovered_again}; the live worker's finish: {rows_finish} row; document 1 after attempt"
        " {attempts}: {status} ({reason})",
        "recuperados: {recovered}, depois {recovered_again}; conclusão do worker vivo: {rows_finish} linha; documento 1 depois da"
        " tentativa {attempts}: {status} ({reason})",
        facts={
            "recovered": Fact(len(taken), "documents"),
            "recovered_again": Fact(again, "documents"),
            "rows_finish": Fact(finished, "rows"),
            "attempts": Fact(whole(attempts), "attempts"),
            "status": Fact(status),
            "reason": Fact(reason),
        },
    )


@lesson.experiment(
    "lease_length",
    "A lease too long delays recovery: a dead worker's document waits for the whole of it.",
    "Um prazo longo demais atrasa a recuperação: o documento de um worker morto espera até o fim dele.",
)
def lease_length(stage: Stage) -> Observed:
    short, long = (clock_skew.recovery_delay(stage, each) for each in ("30 seconds", "1 hour"))
    return Observed(
        30 <= short < 60 and 3600 <= long < 3660,
        "seconds on the lab's clock until recuperar took it: {delay_short} with a lease of {lease_short} s, {delay_long} with one"
        " of {lease_long} h",
        "segundos no relógio do laboratório até recuperar pegá-lo: {delay_short} com prazo de {lease_short} s, {delay_long} com"
        " prazo de {lease_long} h",
        facts={
            "lease_short": Fact(30, "s"),
            "delay_short": Fact(short, "s"),
            "lease_long": Fact(1, "h"),
            "delay_long": Fact(long, "s"),
        },
    )


@lesson.experiment(
    "skewed_clocks",
    "Worker clocks that run fast or slow change nothing, since only the database's clock is asked.",
    "Relógios de workers adiantados ou atrasados não mudam nada, porque só o relógio do banco é consultado.",
)
def skewed_clocks(stage: Stage) -> Observed:
    own, database = (clock_skew.deadlines(stage, own_clocks=own) for own in (True, False))
    return Observed(
        min(own.born_expired, own.hours_too_long, own.taken_from_the_living) > 0
        and own.leases == database.leases
        and database.born_expired == database.hours_too_long == database.taken_from_the_living == 0,
        "{leases} leases by the workers' clocks: {born_expired} born expired, {hours_too_long} hours too long, {taken_alive} taken"
        " from live workers; by the database's: {database_born_expired}, {database_hours_too_long}, {database_taken_alive}",
        "{leases} reservas pelos relógios dos workers: {born_expired} já nascem vencidas, {hours_too_long} longas demais por horas,"
        " {taken_alive} tiradas de workers vivos; pelo do banco: {database_born_expired}, {database_hours_too_long},"
        " {database_taken_alive}",
        facts={
            "leases": Fact(own.leases, "leases"),
            "born_expired": Fact(own.born_expired, "leases"),
            "hours_too_long": Fact(own.hours_too_long, "leases"),
            "taken_alive": Fact(own.taken_from_the_living, "documents"),
            "database_born_expired": Fact(database.born_expired, "leases"),
            "database_hours_too_long": Fact(database.hours_too_long, "leases"),
            "database_taken_alive": Fact(database.taken_from_the_living, "documents"),
        },
    )


@lesson.scenario("frozen_now")
def frozen_now(play: Play) -> Observed:
    by_now, by_clock = (whole(play["a_counts"].one(name)) for name in ("do_now", "do_relogio"))
    names = ("futuro_pelo_now", "futuro_pelo_relogio")
    future_by_now, future_by_clock = (flag(play["a_compares"].one(name)) for name in names)
    return Observed(
        (by_now, by_clock) == (1, 2) and (future_by_now, future_by_clock) == (True, False),
        "two readings gave {times_by_now} time by now() and {times_by_clock} by clock_timestamp(); B's committed row is from the"
        " future by now(): {future_by_now}",
        "duas leituras deram {times_by_now} horário por now() e {times_by_clock} por clock_timestamp(); a linha de B, já com"
        " COMMIT, é do futuro por now(): {future_by_now}",
        facts={
            "times_by_now": Fact(by_now, "times"),
            "times_by_clock": Fact(by_clock, "times"),
            "future_by_now": Fact(future_by_now),
        },
    )


@lesson.scenario("now_loop", core=False)
def now_loop(play: Play) -> Observed:
    steps = ("a_looks", "a_looks_again", "a_reads_the_clock")
    by_now, by_now_again, by_clock = (whole(play[step].one("vencidas")) for step in steps)
    recovered = len(play["a_recovers"].rows)
    return Observed(
        (by_now, by_now_again, by_clock) == (0, 0, 1) and recovered == 1,
        "late by now(): {late_by_now}, then {late_by_now_again}; by clock_timestamp(): {late_by_clock}; recuperar took {recovered}",
        "vencidas por now(): {late_by_now}, depois {late_by_now_again}; por clock_timestamp(): {late_by_clock}; recuperar pegou"
        " {recovered}",
        facts={
            "late_by_now": Fact(by_now, "leases"),
            "late_by_now_again": Fact(by_now_again, "leases"),
            "late_by_clock": Fact(by_clock, "leases"),
            "recovered": Fact(recovered, "documents"),
        },
    )


@lesson.scenario("born_expired", core=False)
def born_expired(play: Play) -> Observed:
    valid = flag(play["c_looks"].one("vale"))
    taken = tuple(map(whole, play["c_recovers"].column("documento_id")))
    return Observed(
        valid is False and taken == (1,) and all(play[step].waited_for == ("B",) for step in ("a_claims", "a_locks")),
        "the deadline computed before the wait holds: {valid}; of the two recuperar took document {documents}, the one whose lock"
        " was not taken first",
        "o prazo calculado antes da espera vale: {valid}; dos dois documentos, recuperar pegou o documento {documents}, aquele cujo"
        " bloqueio não foi pego primeiro",
        facts={"valid": Fact(valid), "documents": Fact(taken)},
    )


@lesson.experiment(
    "clock_in_where",
    "clock_timestamp() in a WHERE disables an index on the deadline; the clock read once, before the statement, keeps it.",
    "Com clock_timestamp() no WHERE, um índice no prazo não é usado; com o relógio lido uma vez, antes do comando, é.",
    core=False,
)
def clock_in_where(stage: Stage) -> Observed:
    documents, late = 20_000, 10
    stage.build(5)
    with stage.connection() as connection:
        connection.execute(
            "INSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml, status, reservado_ate)"
            " SELECT 'LOTE-' || n, 'lote.xml', '<nfe/>', 'processando', relogio() + CASE WHEN n <= %s THEN -1 ELSE 1 END"
            " * INTERVAL '1 hour' FROM generate_series(1, %s) AS n",
            [late, documents],
        )
        # The lab has no such index: it would cost every renewal its heap-only update (lesson 07).
        connection.execute("CREATE INDEX ON fila_documentos (reservado_ate) WHERE status = 'processando'")
        connection.execute("ANALYZE fila_documentos")
        looks = "SELECT documento_id FROM fila_documentos WHERE status = 'processando' AND reservado_ate < {}"
        a_row = buffers.touched(connection, looks.format("clock_timestamp()"))
        now = connection.execute("SELECT relogio()").fetchone()
        once = buffers.touched(connection, looks.format("%s"), now or ())
    return Observed(
        a_row > 10 * once,
        "buffers to find {late} late of {in_work} in work: clock_timestamp() in the WHERE {in_where}, the clock read once {once}",
        "buffers para achar {late} vencidos entre {in_work} em processando: clock_timestamp() no WHERE, {in_where}; relógio lido"
        " uma vez, {once}",
        facts={
            "late": Fact(late, "documents"),
            "in_work": Fact(documents, "documents"),
            "in_where": Fact(a_row, "buffers"),
            "once": Fact(once, "buffers"),
        },
    )


@lesson.experiment(
    "clock_a_row",
    "A function is no clock read once because it is STABLE: in a target list or a filter it runs once a row; in a sub-select, once.",
    "Ser STABLE não faz a função ler o relógio uma vez só: na lista de colunas ou no filtro, roda a cada linha; em subconsulta, uma vez.",
    core=False,
)
def clock_a_row(stage: Stage) -> Observed:
    rows = 1000
    stage.build(5)
    with stage.connection() as connection:
        # Counted by a sequence, which only a function that is called moves on.
        connection.execute("CREATE SEQUENCE leituras")
        connection.execute(
            "CREATE FUNCTION relogio_contado() RETURNS TIMESTAMPTZ LANGUAGE plpgsql STABLE"
            " AS $$BEGIN PERFORM nextval('leituras'); RETURN relogio(); END$$"
        )
        counted = []
        for query in (
            "SELECT relogio_contado() FROM generate_series(1, %s)",
            "SELECT 1 FROM generate_series(1, %s) AS vence WHERE to_timestamp(vence) > relogio_contado()",
            "SELECT (SELECT relogio_contado()) FROM generate_series(1, %s)",
        ):
            connection.execute("ALTER SEQUENCE leituras RESTART")
            connection.execute(query.encode(), [rows])
            read = connection.execute("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM leituras").fetchone()
            counted.append(read[0] if read else 0)
    listed, filtered, once = counted
    return Observed(
        # The planner may read it once more, to estimate how many rows the filter leaves.
        listed == rows and rows <= filtered <= rows + 1 and once == 1,
        "readings for {rows} rows: in the target list {in_list}, in the WHERE {in_where}, in a sub-select {in_subselect}",
        "leituras para {rows} linhas: na lista de colunas {in_list}, no WHERE {in_where}, em subconsulta {in_subselect}",
        facts={
            "rows": Fact(rows, "rows"),
            "in_list": Fact(listed, "readings"),
            "in_where": Fact(filtered, "readings"),
            "in_subselect": Fact(once, "readings"),
        },
    )


@lesson.scenario("time_zone", core=False)
def time_zone(play: Play) -> Observed:
    at_once, later = play["c_looks"], play["c_looks_again"]
    off = at_once.column("diferenca")
    a_at_once, b_at_once = map(flag, at_once.column("vale_sem_fuso"))
    a_later, b_later = map(flag, later.column("vale_sem_fuso"))
    return Observed(
        (a_at_once, b_at_once, a_later, b_later) == (False, True, False, True)
        and (at_once.column("vale_com_fuso"), later.column("vale_com_fuso")) == (("t", "t"), ("f", "f")),
        "off by {off:/ and }: A's lease of one hour holds at once: {valid_a_at_once}; B's after two hours: {valid_b_later}",
        "diferença de {off:/ e de }: a reserva de uma hora de A vale logo em seguida: {valid_a_at_once}; a de B, depois de duas"
        " horas: {valid_b_later}",
        facts={"off": Fact(off), "valid_a_at_once": Fact(a_at_once), "valid_b_later": Fact(b_later)},
    )


@lesson.scenario("default_now", core=False)
def default_now(play: Play) -> Observed:
    arrived, queued = (_in_order(play["c_compares"], place) for place in ("chegada", "na_fila"))
    first = whole(play["c_claims"].one("documento_id"))
    return Observed(
        arrived == (5, 6) and queued == (6, 5) and first == 6,
        "order of arrival {arrived:/ }, order by criado_em {queued:/ }; claimed first: {document}",
        "ordem de chegada: {arrived:/ }; ordem por criado_em: {queued:/ }; reservado primeiro: {document}",
        facts={"arrived": Fact(arrived), "queued": Fact(queued), "document": Fact(first)},
    )


def _in_order(run: StepRun, place: str) -> tuple[int | None, ...]:
    """The documents that a step returned, in the order that its column of that name gives."""
    documents = zip(run.column(place), run.column("documento_id"), strict=True)
    return tuple(whole(document) for _, document in sorted(documents, key=lambda each: int(each[0] or 0)))
