"""Lesson 18: a transaction that is open for long keeps dead entries at the head of the index, and every claim walks over them."""

from __future__ import annotations

from lab.base.errors import CannotRunHere
from lab.base.facts import Fact
from lab.base.language import Text, say
from lab.experiments import old_snapshots
from lab.experiments.old_snapshots import REPORT, SLOT, Holder, Phases
from lab.lessons.lesson import Lesson, Observed
from lab.scenario.result import Play, whole
from lab.scenario.stage import Stage

lesson = Lesson(
    __file__,
    minutes=12,
    question=Text(
        "Claims become slower hour by hour, though the queue is short and no worker waits. What do they read, and who makes them?",
        "As reservas ficam mais lentas a cada hora, embora a fila seja curta e nenhum worker espere. O que elas leem, e por culpa de quem?",
    ),
    answer=Text(
        "dead entries that an old snapshot keeps; one query names who it is, be it a session, a prepared transaction or a slot",
        "entradas mortas que um retrato antigo mantém; uma consulta diz quem é: sessão, transação preparada ou slot",
    ),
    psql_only=Text("partly (measuring needs ./lab run 18)", "em parte (medir pede ./lab run 18)"),
)

DOCUMENTS = 10_000  # finished while something old is open
FEWER = 3_000  # the same for one that is compared only
LOCKED = (0, 100, 1_000, 10_000)


def _held_back(seen: Phases) -> bool:
    """Whether claims paid for the holder while it was there, and no longer afterwards."""
    return seen.during.buffers > 2 * seen.before.buffers and seen.after.buffers < 0.7 * seen.during.buffers


def _phase_facts(seen: Phases) -> dict[str, Fact]:
    names = ("before", "during", "first", "after", "vacuumed")
    return {name: Fact(getattr(seen, name).buffers, "buffers") for name in names}


@lesson.experiment(
    "dead_entries",
    "While a report elsewhere keeps an old snapshot, every finished document leaves an entry that each claim walks over; once it ends, one"
    " more claim walks over them and marks them, the next passes them, and a vacuum takes them away.",
    "Enquanto um relatório mantém um retrato antigo, cada documento concluído deixa uma entrada por onde toda reserva passa; quando ele"
    " acaba, mais uma reserva passa por elas e as marca, a seguinte já as pula, e um vacuum as leva embora.",
)
def dead_entries(stage: Stage) -> Observed:
    seen = old_snapshots.phases(stage.conninfo, old_snapshots.snapshot, DOCUMENTS)
    without = old_snapshots.phases(stage.conninfo, old_snapshots.nobody, DOCUMENTS)
    before, during, first, after, vacuumed = (
        each.buffers for each in (seen.before, seen.during, seen.first, seen.after, seen.vacuumed)
    )
    return Observed(
        during > 3 * before
        and during > 2 * without.during.buffers
        and first >= during
        and after < during / 2
        and vacuumed < after
        and vacuumed <= 2 * before,
        "buffers a claim: before {before} ({before_ms:2} ms), after {documents} finished {during} ({during_ms:2} ms; without the report"
        " {without}); once it ended {first}, then {after} ({after_ms:2} ms); after a vacuum {vacuumed} ({vacuumed_ms:2} ms)",
        "buffers por reserva: antes {before} ({before_ms:2} ms), depois de {documents} concluídos {during} ({during_ms:2} ms; sem o"
        " relatório {without}); encerrado ele {first}, depois {after} ({after_ms:2} ms); depois de um vacuum {vacuumed}"
        " ({vacuumed_ms:2} ms)",
        facts={
            "documents": Fact(DOCUMENTS, "documents"),
            **_phase_facts(seen),
            "without": Fact(without.during.buffers, "buffers"),
            "before_ms": Fact(seen.before.ms, "ms"),
            "during_ms": Fact(seen.during.ms, "ms"),
            "after_ms": Fact(seen.after.ms, "ms"),
            "vacuumed_ms": Fact(seen.vacuumed.ms, "ms"),
        },
    )


@lesson.scenario("who_holds")
def who_holds(play: Play) -> Observed:
    begun, writing, ended = (play[step].column("quem") for step in ("o_asks", "o_asks_again", "o_asks_at_last"))
    return Observed(
        (begun, writing, ended) == (("lab/R",), ("lab/I", "lab/R"), ()),
        "named while I has only begun: {begun}; once I has written: {writing}; in the end {ended}",
        "aparecem enquanto I só começou: {begun}; depois que I gravou: {writing}; no fim {ended}",
        facts={"begun": Fact(begun), "writing": Fact(writing), "ended": Fact(len(ended), "sessions")},
    )


def _one(stage: Stage, holder: Holder) -> Phases:
    return old_snapshots.phases(stage.conninfo, holder, FEWER)


@lesson.experiment(
    "prepared",
    "A prepared transaction that was forgotten holds the dead entries like an open one, though no session is connected: the query finds"
    " it in pg_prepared_xacts.",
    "Uma transação preparada e esquecida segura as entradas mortas como uma aberta, embora nenhuma sessão esteja conectada: a consulta a"
    " acha em pg_prepared_xacts.",
)
def prepared(stage: Stage) -> Observed:
    seen = _one(stage, old_snapshots.prepared)
    return Observed(
        _held_back(seen) and [where for where, _ in seen.named] == ["pg_prepared_xacts"],
        "buffers a claim: before {before}, with it {during}, rolled back {first}, then {after}, after a vacuum {vacuumed}; found in"
        " {where}",
        "buffers por reserva: antes {before}, com ela {during}, desfeita {first}, depois {after}, depois de um vacuum {vacuumed}; achada em"
        " {where}",
        facts={**_phase_facts(seen), "where": Fact(tuple(where for where, _ in seen.named))},
    )


@lesson.experiment(
    "locked_rows",
    "Skipping is not free: a claim looks at every locked row before the first free one; rows that are leased, with their transaction"
    " committed, are out of the index and cost next to nothing.",
    "Pular não sai de graça: a reserva olha cada linha bloqueada antes da primeira livre; as que estão reservadas, com a transação já"
    " confirmada, estão fora do índice e custam quase nada.",
)
def locked_rows(stage: Stage) -> Observed:
    seen = old_snapshots.behind_locked(stage.conninfo, LOCKED)
    leased = old_snapshots.behind_leased(stage.conninfo, LOCKED[-1])
    buffers = [each.buffers for each in seen.values()]
    return Observed(
        buffers == sorted(set(buffers)) and buffers[-1] > LOCKED[-1] and leased.buffers < buffers[-1] / 50,
        "buffers a claim behind {locked} locked rows: {buffers}; ms: {ms:2}; behind {most} leased ones: {leased}",
        "buffers por reserva atrás de {locked} linhas bloqueadas: {buffers}; ms: {ms:2}; atrás de {most} reservadas: {leased}",
        facts={
            "locked": Fact(tuple(seen), "rows"),
            "buffers": Fact(tuple(buffers), "buffers"),
            "ms": Fact(tuple(each.ms for each in seen.values()), "ms"),
            "most": Fact(LOCKED[-1], "rows"),
            "leased": Fact(leased.buffers, "buffers"),
        },
    )


@lesson.scenario("long_worker")
def long_worker(play: Play) -> Observed:
    got, again = (whole(play[step].one("documento_id")) for step in ("b_claims", "b_claims_again"))
    waited = play["b_claims"].waited_for
    pending = play["c_counts"].column("status").count("pendente")
    return Observed(
        (got, again, waited) == (3, 1, ()) and play["b_claims"].seconds < 1 and pending == 3,
        "B got document {got} in {seconds:2} s and waited for {waited}; {pending} of {all} look pending; after A's end B got document"
        " {again}",
        "B recebeu o documento {got} em {seconds:2} s e esperou por {waited}; {pending} de {all} parecem pendentes; depois do fim de A, B"
        " recebeu o documento {again}",
        facts={
            "got": Fact(got),
            "seconds": Fact(play["b_claims"].seconds, "s"),
            "waited": Fact(waited),
            "pending": Fact(pending, "documents"),
            "all": Fact(len(play["c_counts"].rows), "documents"),
            "again": Fact(again),
        },
    )


@lesson.experiment(
    "false_suspects",
    "Not every old transaction is to blame: one that has only read under READ COMMITTED, by plain statements, and one in another database"
    " hold nothing, and the query does not name them; one that has written something, anywhere in this database, does.",
    "Nem toda transação velha tem culpa: uma que só leu em READ COMMITTED, com comandos simples, e uma em outro banco não seguram nada, e"
    " a consulta não as mostra; uma que gravou algo, em qualquer lugar deste banco, segura.",
    core=False,
)
def false_suspects(stage: Stage) -> Observed:
    idle, elsewhere, written = (
        _one(stage, holder) for holder in (old_snapshots.idle, old_snapshots.elsewhere, old_snapshots.written)
    )
    return Observed(
        not _held_back(idle)
        and not _held_back(elsewhere)
        and _held_back(written)
        and (idle.named, elsewhere.named, written.named) == ((), (), (("pg_stat_activity", REPORT),)),
        "buffers a claim before and during: only read {idle:/ → }; another database {elsewhere:/ → }; has written {written:/ → };"
        " named: {named_idle}, {named_elsewhere}, {named_written}",
        "buffers por reserva antes e durante: só leu {idle:/ → }; outro banco {elsewhere:/ → }; gravou {written:/ → }; apontadas:"
        " {named_idle}, {named_elsewhere}, {named_written}",
        facts={
            name: Fact((seen.before.buffers, seen.during.buffers), "buffers")
            for name, seen in {"idle": idle, "elsewhere": elsewhere, "written": written}.items()
        }
        | {
            f"named_{name}": Fact(len(seen.named), "sessions")
            for name, seen in {"idle": idle, "elsewhere": elsewhere, "written": written}.items()
        },
    )


@lesson.experiment(
    "open_portal",
    "How a driver sends its query decides, too: a query with parameters (the extended protocol) leaves its portal open, and idle in the"
    " transaction the session keeps the snapshot of that query; the same query without parameters, sent as plain text, keeps none.",
    "Também conta como o driver envia a consulta: com parâmetros (protocolo estendido), o portal fica aberto, e a sessão parada na"
    " transação mantém o retrato dessa consulta; a mesma consulta sem parâmetros, enviada como texto, não mantém nenhum.",
    core=False,
)
def open_portal(stage: Stage) -> Observed:
    plain, with_parameters = (_one(stage, holder) for holder in (old_snapshots.idle, old_snapshots.portal))
    return Observed(
        not _held_back(plain)
        and _held_back(with_parameters)
        and (plain.named, with_parameters.named) == ((), (("pg_stat_activity", REPORT),)),
        "buffers a claim before and during: without parameters {plain:/ → }, with parameters {parameters:/ → }; named: {named_plain},"
        " {named_parameters}",
        "buffers por reserva antes e durante: sem parâmetros {plain:/ → }, com parâmetros {parameters:/ → }; apontadas: {named_plain},"
        " {named_parameters}",
        facts={
            "plain": Fact((plain.before.buffers, plain.during.buffers), "buffers"),
            "parameters": Fact((with_parameters.before.buffers, with_parameters.during.buffers), "buffers"),
            "named_plain": Fact(len(plain.named), "sessions"),
            "named_parameters": Fact(len(with_parameters.named), "sessions"),
        },
    )


@lesson.experiment(
    "standby_slot",
    "The slot of a standby with hot_standby_feedback that went away holds the dead entries until it is dropped; a logical slot does not:"
    " it holds back the catalog only.",
    "O slot de um standby com hot_standby_feedback que se foi segura as entradas mortas até ser removido; um slot lógico, não: ele só"
    " segura o catálogo.",
    core=False,
)
def standby_slot(stage: Stage) -> Observed:
    if not stage.embedded:
        raise CannotRunHere(
            say(
                "it makes a server and a standby, from the lab's own",
                "cria um servidor e um standby, a partir do servidor do laboratório",
            )
        )
    seen = old_snapshots.slots(FEWER)
    return Observed(
        seen.standby > 1.5 * seen.none
        and seen.logical <= 1.2 * seen.none
        and seen.dropped <= 1.2 * seen.none
        and (seen.named_logical, seen.named_standby) == ((), (("pg_replication_slots", SLOT),)),
        "buffers a claim after {documents} finished: no slot {none}, logical slot {logical}, slot of the standby {standby} (named:"
        " {where}), dropped {dropped}",
        "buffers por reserva depois de {documents} concluídos: sem slot {none}, slot lógico {logical}, slot do standby {standby} (apontado:"
        " {where}), removido {dropped}",
        facts={
            "documents": Fact(FEWER, "documents"),
            "none": Fact(seen.none, "buffers"),
            "logical": Fact(seen.logical, "buffers"),
            "standby": Fact(seen.standby, "buffers"),
            "where": Fact(tuple(where for where, _ in seen.named_standby)),
            "dropped": Fact(seen.dropped, "buffers"),
        },
    )
