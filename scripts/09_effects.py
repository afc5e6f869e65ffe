"""Lesson 09: a call to the outside cannot be rolled back; a stage, a key and a receiver with a ledger of its own make it safe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.base.errors import LabError
from lab.base.language import Text, brazilian
from lab.drills import ablation, catalogue, report
from lab.drills.ablation import Matrix
from lab.drills.catalogue import DrillOutcome
from lab.lessons.lesson import Lesson, Observed
from lab.scenario.result import Play
from lab.scenario.stage import Stage

lesson = Lesson(
    __file__,
    minutes=12,
    question=Text(
        "A worker dies after its call to the outside. Was it executed, and who may call again?",
        "Um worker morre depois da chamada ao mundo externo. Ela foi executada? E quem pode chamar de novo?",
    ),
    answer=Text(
        "workers killed and stopped at the worst moments, and one effect for each document; take a defence away, and it shows",
        "workers mortos e parados nos piores momentos, e um efeito por documento; tire uma defesa, e a falta aparece",
    ),
    psql_only=Text("partly (the drills need ./lab drill)", "em parte (os ensaios pedem ./lab drill)"),
)

KILLS = ("kill_before_commit", "kill_after_claim", "kill_before_call", "kill_after_call")
ZOMBIES = ("zombie", "zombie_after_call")
RECEIVERS = ("receiver_down", "receiver_away", "receiver_killed")


@lesson.scenario("inside")
def inside(play: Play) -> Observed:
    (lost_status, _, lost), (status, attempts, entries) = play["c_reads"].rows[0], play["c_counts"].rows[0]
    return Observed(
        (lost_status, lost) == ("processando", "0") and (status, attempts, entries) == ("concluido", "2", "1"),
        f"entries after the cut connection: {lost}; after {attempts} attempts, {status}: {entries}",
        f"lançamentos depois da conexão cortada: {lost}; depois de {attempts} tentativas, {status}: {entries}",
    )


@lesson.scenario("unknown")
def unknown(play: Play) -> Observed:
    (_, first_token, first_key, _), (_, token, key, stage) = play["a_claims"].rows[0], play["b_claims"].rows[0]
    blind = play["b_finishes_blindly"].sqlstate
    status, _, _, reference = play["c_looks"].rows[0]
    return Observed(
        first_key == key
        and first_token != token
        and stage == "desconhecido"
        and (status, reference) == ("concluido", "R-000001"),
        f"tokens {first_token} and {token}, one key {key}; stage {stage}; a finish without asking: {blind}; then {status} as {reference}",
        f"tokens {first_token} e {token}, uma chave {key}; etapa {stage}; concluir sem perguntar: {blind}; depois {status} como"
        f" {reference}",
    )


@lesson.scenario("exhausted")
def exhausted(play: Play) -> Observed:
    became = [(stage, status) for _, stage, status in play["c_recovers"].rows]
    left = len(play["b_asks"].rows)
    told = "; ".join(f"{stage}: {status}" for stage, status in became)
    return Observed(
        became == [("nao_chamado", "falhou"), ("desconhecido", "conciliacao"), ("obtido", "concluido")] and left == 0,
        f"{told}; left to claim {left}",
        f"{told}; restam para reservar {left}",
    )


@lesson.experiment(
    "killed_workers",
    "A worker is killed before its claim's commit, after it, before its call and after it: one effect for each document, none lost.",
    "Um worker é morto antes do COMMIT da reserva, depois dele, antes da chamada e depois dela: um efeito por documento, nenhum perdido.",
    judge=lambda held: _judged(held, KILLS),
)
def killed_workers(stage: Stage) -> Observed:
    return _drilled(stage, KILLS)


@lesson.experiment(
    "zombies",
    "A worker stands still past its lease and goes on: the receiver's key refuses its call, the token refuses its writes.",
    "Um worker fica parado além do prazo e volta: a chave no receptor recusa a chamada dele, o token recusa as escritas.",
    judge=lambda held: _judged(held, ZOMBIES),
)
def zombies(stage: Stage) -> Observed:
    return _drilled(stage, ZOMBIES)


@lesson.experiment(
    "defence_matrix",
    "Each defence taken away, one at a time, lets through the damage that the first page counts; with it there is none.",
    "Cada defesa retirada, uma de cada vez, deixa passar o dano que a primeira página conta; com ela não há nenhum.",
    judge=lambda matrix: _worth(matrix),
)
def defence_matrix(stage: Stage) -> Observed:
    return _worth(ablation.examine(stage.conninfo))


def _worth(matrix: Matrix) -> Observed:
    """What a matrix says about the claim; one of some defences only can refute it, and cannot prove it."""
    shown = {each.name: each.shown for each in ablation.defences()}
    en = "; ".join(f"{shown[row.defence].en} {row.with_it.total} → {row.without_it.total}" for row in matrix.rows)
    pt = "; ".join(f"{shown[row.defence].pt} {row.with_it.total} → {row.without_it.total}" for row in matrix.rows)
    kept = ablation.recorded()
    recorded = all(row == kept.row(row.defence) for row in matrix.rows)
    tried = len(matrix.rows)
    good: bool | None = ablation.worth(matrix) and recorded
    why = "" if recorded else f"not the matrix of {ablation.RECORDED.name}, which the first page shows"
    if good and tried < len(shown):
        good, why = None, f"{tried} of {len(shown)} defences tried, as recorded"
    return Observed(
        good,
        f"documents damaged with and without it: {en}",
        f"documentos danificados com e sem ela: {pt}",
        why,
    )


@lesson.scenario("late_stage", core=False)
def late_stage(play: Play) -> Observed:
    late, owner = len(play["a_records"].rows), len(play["b_records"].rows)
    late_word, word = len(play["a_hands_over"].rows), play["b_hands_over"].rows[0][1]
    return Observed(
        (late, owner, late_word, word) == (0, 1, 0, "conciliacao"),
        f"rows: A's stage {late}, B's stage {owner}; B hands it over: {word}; A's late word {late_word}",
        f"linhas: etapa de A {late}, etapa de B {owner}; B encaminha: {word}; palavra atrasada de A {late_word}",
    )


@lesson.experiment(
    "zombie_before_stage",
    "A worker whose document is another's before it wrote its stage gets zero rows, and does not call: no key at the receiver is needed.",
    "Um worker que perde o documento antes de gravar a etapa recebe zero linhas e não chama: nem é preciso a chave no receptor.",
    core=False,
)
def zombie_before_stage(stage: Stage) -> Observed:
    return _drilled(stage, ("zombie_after_claim",))


@lesson.experiment(
    "receiver_away",
    "A receiver that is down, even for longer than all attempts last, or dies before it answers, costs time, but no document.",
    "Um receptor fora do ar, mesmo por mais que todas as tentativas, ou que morre antes de responder, custa tempo, mas nenhum documento.",
    core=False,
    slow=True,
)
def receiver_away(stage: Stage) -> Observed:
    return _drilled(stage, RECEIVERS)


@lesson.experiment(
    "unknown_and_irreversible",
    "Where the result is unknown, the receiver cannot be asked and the effect cannot be undone, the document goes to people.",
    "Quando o resultado é desconhecido, o receptor não responde a consultas e o efeito é irreversível, o documento vai para conciliação"
    " manual.",
    core=False,
    slow=True,
)
def unknown_and_irreversible(stage: Stage) -> Observed:
    return _drilled(stage, ("unknown_and_irreversible",))


@lesson.experiment(
    catalogue.RANDOM_KILLS,
    "Workers from a barrier on, killed at random: a token for each claim, none lost, and no claim passes over a free document.",
    "Workers a partir de uma barreira, mortos ao acaso: um token por reserva, nada perdido, e nenhuma reserva pula um documento livre.",
    core=False,
)
def random_kills(stage: Stage) -> Observed:
    seen = catalogue.hold(catalogue.find(catalogue.RANDOM_KILLS), stage.conninfo)
    assert seen.random_kills
    figures = report.random_kills_figures(seen.random_kills)
    lost, duplicates = seen.damage.lost, seen.damage.duplicates
    return Observed(
        catalogue.each_once(seen),
        f"documents {seen.documents}, effects {seen.effects}, executed twice {duplicates}, lost {lost}; {figures.en}",
        f"documentos {seen.documents}, efeitos {seen.effects}, executados em dobro {duplicates}, perdidos {lost}; {figures.pt}",
        "; ".join(seen.faults),
    )


@lesson.experiment(
    "database_crash",
    "The database crashes while a call is out: the worker connects again and finishes what it holds, under the same token.",
    "O banco cai durante uma chamada: o worker se conecta de novo e conclui o que tem em mãos, com o mesmo token.",
    core=False,
    slow=True,
)
def database_crash(stage: Stage) -> Observed:
    if not stage.embedded:
        why = "only a server of the lab's own is crashed"
        return Observed(None, "not run", "não executado", why)
    return _drilled(stage, (catalogue.DATABASE_CRASH,))


def _drilled(stage: Stage, names: Sequence[str]) -> Observed:
    """What drills held one after the other come to."""
    return _judged({name: catalogue.hold(catalogue.find(name), stage.conninfo) for name in names}, names)


def _judged(held: Mapping[str, DrillOutcome], names: Sequence[str]) -> Observed:
    """What these drills came to, all of which the claim needs; the figures are their sums."""
    if missing := [name for name in names if name not in held]:
        raise LabError(f"The claim needs the drill {missing[0]}, which was not held.")
    seen = [held[name] for name in names]
    failed = [name for name in names if not catalogue.find(name).expected(held[name])]

    def total(figure: str) -> int:
        return sum(getattr(outcome, figure) for outcome in seen)

    lost = sum(outcome.damage.lost for outcome in seen)
    duplicates = sum(outcome.damage.duplicates for outcome in seen)
    seconds = f"{max(outcome.seconds for outcome in seen):.1f}"
    return Observed(
        not failed,
        f"drills {len(seen)}: documents {total('documents')}, effects {total('effects')}, executed twice {duplicates}, lost {lost}"
        f"; refused: calls {total('repeated_calls')}, late writes {total('late_writes')}; to people {total('reconciliation')}"
        f"; over after {seconds} s at most",
        f"ensaios {len(seen)}: documentos {total('documents')}, efeitos {total('effects')}, executados em dobro {duplicates}, perdidos"
        f" {lost}; recusadas: chamadas {total('repeated_calls')}, escritas atrasadas {total('late_writes')}; para conciliação"
        f" {total('reconciliation')}; tudo resolvido em no máximo {brazilian(seconds)} s",
        "; ".join(f"{name}: {_why(held[name])}" for name in failed),
    )


def _why(outcome: DrillOutcome) -> str:
    return "; ".join(outcome.faults) or str(outcome)
