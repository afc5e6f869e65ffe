"""Lesson 05: a deadline, so that a worker that died can be told from one that works."""

from __future__ import annotations

from lab.base.language import Text, brazilian
from lab.experiments import clock_skew
from lab.lessons.lesson import Lesson, Observed
from lab.measure import buffers
from lab.scenario.result import Play
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
    locks, moved = play["c_counts"].value, play["c_moves"].value
    got = [row[0] for row in play["b_claims"].rows]
    later = len(play["b_asks_again"].rows)
    _, status, worker, _, late = play["c_looks"].rows[0]
    listed = " ".join(map(str, got))
    return Observed(
        locks == "0" and "1" not in got and later == 0 and (status, late) == ("processando", "t"),
        f"locks held while working: {locks}; after {moved} B got {listed}, then {later} rows; document 1: {status}, {worker}",
        f"bloqueios durante o trabalho: {locks}; depois de {_days(moved)}, B recebeu {listed}, e então {later} linhas;"
        f" documento 1: {status}, {worker}",
    )


@lesson.scenario("deadline")
def deadline(play: Play) -> Observed:
    before, after = play["c_before"].rows[0], play["c_after"].rows[0]
    (in_work,) = (count for status, count in play["c_status"].rows if status == "processando")
    late = [worker for _, worker, is_late in play["c_who"].rows if is_late == "t"]
    whose = " ".join(map(str, late))
    return Observed(
        (before[1], before[2]) == (in_work, "0") and (after[1], after[2]) == ("1", "1") and late == ["worker-a"],
        f"by the status {in_work} in work; by the deadline {after[1]} running, {after[2]} orphaned ({whose}); before it passed"
        f" {before[1]} and {before[2]}",
        f"pelo status, {in_work} em processando; pelo prazo, {after[1]} em execução e {after[2]} órfão ({whose}); antes de vencer,"
        f" {before[1]} e {before[2]}",
    )


@lesson.scenario("blanket")
def blanket(play: Play) -> Observed:
    alive = [document for document, still_held in play["o_resets"].rows if still_held == "t"]
    again = [document for document, _ in play["c_claims"].rows if document in alive]
    first, second = len(play["b_finishes"].rows), len(play["c_finishes"].rows)
    return Observed(
        alive == again == ["2"] and (first, second) == (0, 1),
        f"taken from a live worker: {len(alive)}; handed out again: {len(again)}; rows: first finish {first}, second {second}",
        f"tirados de um worker vivo: {len(alive)}; entregues de novo: {len(again)}; linhas: primeira conclusão {first},"
        f" segunda {second}",
    )


@lesson.scenario("recover")
def recover(play: Play) -> Observed:
    taken, again = play["o_recovers"].rows, len(play["o_recovers_again"].rows)
    kept, finished = play["c_claims"].rows[0][1], len(play["b_finishes"].rows)
    _, status, attempts, reason = play["o_looks"].rows[0]
    return Observed(
        taken == (("1", "pendente", "1", "worker-a"),)
        and (again, finished, kept) == (0, 1, "2")
        and (status, attempts, reason) == ("falhou", "2", "worker sem resposta"),
        f"taken back {len(taken)}, then {again}; the live worker's finish: {finished} row; document 1 after attempt {attempts}:"
        f" {status} ({reason})",
        f"recuperados: {len(taken)}, depois {again}; conclusão do worker vivo: {finished} linha; documento 1 depois da tentativa"
        f" {attempts}: {status} ({reason})",
    )


@lesson.experiment(
    "lease_length",
    "A lease too long delays recovery: a dead worker's document waits for the whole of it.",
    "Um prazo longo demais atrasa a recuperação: o documento de um worker morto espera até o fim dele.",
)
def lease_length(stage: Stage) -> Observed:
    short, long = (clock_skew.recovery_delay(stage, each) for each in ("30 seconds", "1 hour"))
    seconds = f"{long:,.0f}"
    return Observed(
        30 <= short < 60 and 3600 <= long < 3660,
        f"seconds on the lab's clock until recuperar took it: {short:.0f} with a lease of 30 s, {seconds} with one of 1 h",
        f"segundos no relógio do laboratório até recuperar pegá-lo: {short:.0f} com prazo de 30 s, {brazilian(seconds)} com"
        " prazo de 1 h",
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
        f"{own.leases} leases by the workers' clocks: {own.born_expired} born expired, {own.hours_too_long} hours too long,"
        f" {own.taken_from_the_living} taken from live workers; by the database's: {database.born_expired},"
        f" {database.hours_too_long}, {database.taken_from_the_living}",
        f"{own.leases} reservas pelos relógios dos workers: {own.born_expired} já nascem vencidas, {own.hours_too_long} longas"
        f" demais por horas, {own.taken_from_the_living} tiradas de workers vivos; pelo do banco: {database.born_expired},"
        f" {database.hours_too_long}, {database.taken_from_the_living}",
    )


@lesson.scenario("frozen_now")
def frozen_now(play: Play) -> Observed:
    by_now, by_clock = play["a_counts"].rows[0]
    compared = play["a_compares"].rows[0]
    return Observed(
        (by_now, by_clock) == ("1", "2") and compared == ("t", "f"),
        f"two readings gave {by_now} time by now() and {by_clock} by clock_timestamp(); B's committed row is from the future by"
        f" now(): {_yes(compared[0])}",
        f"duas leituras deram {by_now} horário por now() e {by_clock} por clock_timestamp(); a linha de B, já com COMMIT, é do"
        f" futuro por now(): {_sim(compared[0])}",
    )


@lesson.scenario("now_loop", core=False)
def now_loop(play: Play) -> Observed:
    seen = [play[step].value for step in ("a_looks", "a_looks_again", "a_reads_the_clock")]
    recovered = len(play["a_recovers"].rows)
    return Observed(
        seen == ["0", "0", "1"] and recovered == 1,
        f"late by now(): {seen[0]}, then {seen[1]}; by clock_timestamp(): {seen[2]}; recuperar took {recovered}",
        f"vencidas por now(): {seen[0]}, depois {seen[1]}; por clock_timestamp(): {seen[2]}; recuperar pegou {recovered}",
    )


@lesson.scenario("born_expired", core=False)
def born_expired(play: Play) -> Observed:
    held = play["c_looks"].rows[0][2]
    waits = [" ".join(play[step].waited_for) for step in ("a_claims", "a_locks")]
    taken = [row[0] for row in play["c_recovers"].rows]
    listed = " ".join(map(str, taken))
    return Observed(
        held == "f" and waits == ["B", "B"] and taken == ["1"],
        f"the deadline computed before the wait holds: {_yes(held)}; of the two recuperar took document {listed}, the one whose"
        " lock was not taken first",
        f"o prazo calculado antes da espera vale: {_sim(held)}; dos dois documentos, recuperar pegou o documento {listed}, aquele cujo"
        " bloqueio não foi pego primeiro",
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
    in_work = f"{documents:,}"
    return Observed(
        a_row > 10 * once,
        f"buffers to find {late} late of {in_work} in work: clock_timestamp() in the WHERE {a_row}, the clock read once {once}",
        f"buffers para achar {late} vencidos entre {brazilian(in_work)} em processando: clock_timestamp() no WHERE, {a_row};"
        f" relógio lido uma vez, {once}",
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
        f"readings for {rows} rows: in the target list {listed}, in the WHERE {filtered}, in a sub-select {once}",
        f"leituras para {rows} linhas: na lista de colunas {listed}, no WHERE {filtered}, em subconsulta {once}",
    )


@lesson.scenario("time_zone", core=False)
def time_zone(play: Play) -> Observed:
    at_once, later = play["c_looks"].rows, play["c_looks_again"].rows
    behind, ahead = (row[3] for row in at_once)
    holds = [row[1:3] for row in at_once] == [("t", "f"), ("t", "t")]
    ended = [row[1:3] for row in later] == [("f", "f"), ("f", "t")]
    return Observed(
        holds and ended,
        f"off by {behind} and {ahead}: A's lease of 1 h holds at once: {_yes(at_once[0][2])}; B's after 2 h: {_yes(later[1][2])}",
        f"diferença de {behind} e de {ahead}: a reserva de 1 h de A vale logo em seguida: {_sim(at_once[0][2])}; a de B, depois de"
        f" 2 h: {_sim(later[1][2])}",
    )


@lesson.scenario("default_now", core=False)
def default_now(play: Play) -> Observed:
    arrived = [row[0] for row in sorted(play["c_compares"].rows, key=lambda row: str(row[1]))]
    queued = [row[0] for row in sorted(play["c_compares"].rows, key=lambda row: str(row[2]))]
    first = play["c_claims"].value
    orders = [" ".join(map(str, order)) for order in (arrived, queued)]
    return Observed(
        arrived == ["5", "6"] and queued == ["6", "5"] and first == "6",
        f"order of arrival {orders[0]}, order by criado_em {orders[1]}; claimed first: {first}",
        f"ordem de chegada: {orders[0]}; ordem por criado_em: {orders[1]}; reservado primeiro: {first}",
    )


def _yes(value: str | None) -> str:
    return "yes" if value == "t" else "no"


def _sim(value: str | None) -> str:
    return "sim" if value == "t" else "não"


def _days(interval: str | None) -> str:
    return (interval or "").replace("days", "dias").replace("day", "dia")
