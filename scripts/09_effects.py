"""Lesson 09: a call to the outside cannot be rolled back; a stage, a key and a receiver with a ledger of its own make it safe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.base.errors import LabError
from lab.base.facts import Fact
from lab.base.language import Text, say
from lab.drills import ablation, catalogue, report
from lab.drills.ablation import Matrix
from lab.drills.catalogue import DrillOutcome
from lab.lessons.lesson import Lesson, Observed
from lab.scenario.result import Play, whole
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
    cut, done = play["c_reads"], play["c_counts"]
    entries_cut, entries, attempts = (
        whole(run.one(name)) for run, name in ((cut, "lancamentos"), (done, "lancamentos"), (done, "tentativas"))
    )
    status = done.one("status")
    return Observed(
        (cut.one("status"), entries_cut) == ("processando", 0) and (status, attempts, entries) == ("concluido", 2, 1),
        "entries after the cut connection: {entries_cut}; after {attempts} attempts, {status}: {entries}",
        "lançamentos depois da conexão cortada: {entries_cut}; depois de {attempts} tentativas, {status}: {entries}",
        facts={
            "entries_cut": Fact(entries_cut, "entries"),
            "attempts": Fact(attempts, "attempts"),
            "status": Fact(status),
            "entries": Fact(entries, "entries"),
        },
    )


@lesson.scenario("unknown")
def unknown(play: Play) -> Observed:
    first, second = play["a_claims"], play["b_claims"]
    tokens = tuple(whole(claim.one("token_reserva")) for claim in (first, second))
    key, stage = second.one("chave_operacao"), second.one("etapa")
    blind = play["b_finishes_blindly"].sqlstate
    status, reference = (play["c_looks"].one(name) for name in ("status", "referencia_externa"))
    return Observed(
        first.one("chave_operacao") == key
        and len(set(tokens)) == 2
        and stage == "desconhecido"
        and blind is not None
        and (status, reference) == ("concluido", "R-000001"),
        "tokens {tokens:/ and }, one key {key}; stage {stage}; a finish without asking: {sqlstate}; then {status} as {reference}",
        "tokens {tokens:/ e }, uma chave {key}; etapa {stage}; concluir sem perguntar: {sqlstate}; depois {status} como"
        " {reference}",
        facts={
            "tokens": Fact(tokens),
            "key": Fact(key),
            "stage": Fact(stage),
            "sqlstate": Fact(blind),
            "status": Fact(status),
            "reference": Fact(reference),
        },
    )


@lesson.scenario("exhausted")
def exhausted(play: Play) -> Observed:
    recovered = play["c_recovers"]
    became = dict(zip(recovered.column("etapa"), recovered.column("status"), strict=True))
    left = len(play["b_asks"].rows)
    return Observed(
        became == {"nao_chamado": "falhou", "desconhecido": "conciliacao", "obtido": "concluido"} and left == 0,
        "nao_chamado: {status_not_called}; desconhecido: {status_unknown}; obtido: {status_obtained}; left to claim {left}",
        "nao_chamado: {status_not_called}; desconhecido: {status_unknown}; obtido: {status_obtained}; restam para reservar {left}",
        facts={
            "status_not_called": Fact(became.get("nao_chamado")),
            "status_unknown": Fact(became.get("desconhecido")),
            "status_obtained": Fact(became.get("obtido")),
            "left": Fact(left, "documents"),
        },
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
    matrix = ablation.examine(stage.conninfo)
    stage.compare(ablation.RECORDED, matrix.as_json())
    return _worth(matrix, kept=matrix if stage.recording else None)


def _worth(matrix: Matrix, kept: Matrix | None = None) -> Observed:
    """What a matrix says about the claim; one of some defences only can refute it, and cannot prove it.

    `kept` is the matrix that it must be, without it the one that is recorded.
    """
    shown = {each.name: each.shown for each in ablation.defences()}
    en = "; ".join(_with_and_without(row.defence, shown[row.defence].en) for row in matrix.rows)
    pt = "; ".join(_with_and_without(row.defence, shown[row.defence].pt) for row in matrix.rows)
    kept = kept or ablation.recorded()
    recorded = all(row == kept.row(row.defence) for row in matrix.rows)
    tried = len(matrix.rows)
    good: bool | None = ablation.worth(matrix) and recorded
    name = ablation.RECORDED.name
    differs = say(
        f"not the matrix of {name}, which the first page shows",
        f"não é a matriz de {name}, que a primeira página mostra",
    )
    why = "" if recorded else differs
    if good and tried < len(shown):
        good = None
        why = say(
            f"{tried} of {len(shown)} defences tried, as recorded",
            f"{tried} de {len(shown)} defesas testadas, como registrado",
        )
    return Observed(
        good,
        f"documents damaged with and without it: {en}",
        f"documentos danificados com e sem ela: {pt}",
        why,
        facts={
            **{f"{row.defence}_with": Fact(row.with_it.total, "documents") for row in matrix.rows},
            **{f"{row.defence}_without": Fact(row.without_it.total, "documents") for row in matrix.rows},
        },
    )


def _with_and_without(defence: str, shown: str) -> str:
    """The part of the sentence that tells of one defence, around its two facts."""
    return f"{shown} {{{defence}_with}} → {{{defence}_without}}"


@lesson.scenario("late_stage", core=False)
def late_stage(play: Play) -> Observed:
    late_stage, stage, late_hand_over = (len(play[step].rows) for step in ("a_records", "b_records", "a_hands_over"))
    status = play["b_hands_over"].one("status")
    return Observed(
        (late_stage, stage, late_hand_over, status) == (0, 1, 0, "conciliacao"),
        "rows: A's stage {rows_late_stage}, B's stage {rows_stage}; B hands it over: {status}; A's late word"
        " {rows_late_reconcile}",
        "linhas: etapa de A {rows_late_stage}, etapa de B {rows_stage}; B encaminha: {status}; escrita atrasada de A:"
        " {rows_late_reconcile} linhas",
        facts={
            "rows_late_stage": Fact(late_stage, "rows"),
            "rows_stage": Fact(stage, "rows"),
            "status": Fact(status),
            "rows_late_reconcile": Fact(late_hand_over, "rows"),
        },
    )


@lesson.scenario("confirming", core=False)
def confirming(play: Play) -> Observed:
    cut, claim, done = play["c_reads"], play["b_claims"], play["c_counts"]
    entries_cut, attempts, calls, entries = (
        whole(run.one(name))
        for run, name in ((cut, "lancamentos"), (done, "tentativas"), (done, "chamadas"), (done, "lancamentos"))
    )
    stage, reference = claim.one("etapa"), claim.one("referencia_externa")
    back = play["b_records"].sqlstate
    return Observed(
        (cut.one("status"), cut.one("etapa"), entries_cut) == ("processando", "confirmando", 0)
        and (stage, reference, back) == ("confirmando", "R-000001", "22023")
        and (done.one("status"), attempts, calls, entries) == ("concluido", 2, 1, 1),
        "entries after the cut {entries_cut}; B gets stage {stage} with {reference}; announcing a call: {sqlstate}; after {attempts}"
        " attempts: calls {calls}, entries {entries}",
        "lançamentos depois do corte: {entries_cut}; B recebe a etapa {stage} com {reference}; anunciar uma chamada: {sqlstate};"
        " depois de {attempts} tentativas: chamadas {calls}, lançamentos {entries}",
        facts={
            "entries_cut": Fact(entries_cut, "entries"),
            "stage": Fact(stage),
            "reference": Fact(reference),
            "sqlstate": Fact(back),
            "attempts": Fact(attempts, "attempts"),
            "calls": Fact(calls, "calls"),
            "entries": Fact(entries, "entries"),
        },
    )


@lesson.scenario("missing_entry", core=False)
def missing_entry(play: Play) -> Observed:
    recovered, found = play["c_recovers"], play["c_looks"]
    status, stage = recovered.one("status"), recovered.one("etapa")
    return Observed(
        (status, stage, len(found.rows)) == ("conciliacao", "confirmando", 0),
        "recovered from {stage} to {status}; finished without an entry: {missing}",
        "recuperado de {stage} para {status}; concluídos sem lançamento: {missing}",
        facts={"stage": Fact(stage), "status": Fact(status), "missing": Fact(len(found.rows), "documents")},
    )


@lesson.scenario("lock_order", core=False)
def lock_order(play: Play) -> Observed:
    lost, kept, waited = play["a_finishes"], play["a_finishes_again"], play["b_waits"]
    balances = tuple(whole(play[step].one("saldo")) for step in ("a_books", "a_books_again"))
    attempts = tuple(map(whole, play["c_reads"].column("tentativas")))
    return Observed(
        (lost.sqlstate, lost.waited_for, play["b_corrects"].waited_for) == ("40P01", ("B",), ("A",))
        and (balances, len(kept.rows), attempts) == ((10, 9), 1, (1, 1))
        and (waited.waited_for, waited.sqlstate) == (("A",), None),
        "opposite orders: {sqlstate}; A's balance {balances:/, then }; rows under the same token {rows_again};"
        " attempts {attempts}; one order: B waits for {waited_for}, and gets document {document}",
        "ordens opostas: {sqlstate}; saldo de A: {balances:/, depois }; linhas com o mesmo token {rows_again}; tentativas"
        " {attempts}; uma só ordem: B espera por {waited_for} e recebe o documento {document}",
        facts={
            "sqlstate": Fact(lost.sqlstate),
            "balances": Fact(balances),
            "rows_again": Fact(len(kept.rows), "rows"),
            "attempts": Fact(attempts, "attempts"),
            "waited_for": Fact(waited.waited_for),
            "document": Fact(whole(waited.one("documento_id"))),
        },
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
    "in_progress",
    "A receiver that answers that it is still at it is waited for: no second call, and nothing for people, until the result is there.",
    "Espera-se pelo receptor que responde que ainda está executando: sem segunda chamada e sem conciliação, até o resultado aparecer.",
    core=False,
)
def in_progress(stage: Stage) -> Observed:
    return _drilled(stage, ("in_progress",))


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
    return Observed(
        catalogue.each_once(seen),
        "documents {total}, effects {effects}, executed twice {duplicates}, lost {lost}; " + report.RANDOM_KILLS.en,
        "{total} documentos, {effects} efeitos; executados em dobro {duplicates}, perdidos {lost}; "
        + report.RANDOM_KILLS.pt,
        "; ".join(seen.faults),
        facts={**_figures([seen]), **seen.random_kills.facts},
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
        why = say("only a server of the lab's own is crashed", "só se derruba um servidor do próprio laboratório")
        return Observed(None, "not run", "não executado", why)
    return _drilled(stage, (catalogue.DATABASE_CRASH,))


def _drilled(stage: Stage, names: Sequence[str]) -> Observed:
    """What drills held one after the other come to."""
    return _judged({name: catalogue.hold(catalogue.find(name), stage.conninfo) for name in names}, names)


def _judged(held: Mapping[str, DrillOutcome], names: Sequence[str]) -> Observed:
    """What these drills came to, all of which the claim needs; the figures are their sums."""
    if missing := [name for name in names if name not in held]:
        raise LabError(
            say(
                f"The claim needs the drill {missing[0]}, which was not held.",
                f"A afirmação precisa do ensaio {missing[0]}, que não foi feito.",
            )
        )
    seen = [held[name] for name in names]
    failed = [name for name in names if not catalogue.find(name).expected(held[name])]
    return Observed(
        not failed,
        "drills {drills}: documents {total}, effects {effects}, executed twice {duplicates}, lost {lost}; refused: calls"
        " {calls_refused}, late writes {writes_refused}; to people {reconciliation}; over after {longest:1} s at most",
        ("{drills} ensaio" if len(seen) == 1 else "{drills} ensaios")
        + ", {total} documentos, {effects} efeitos; executados em dobro {duplicates}, perdidos {lost}; recusadas:"
        " chamadas {calls_refused}, escritas atrasadas {writes_refused}; para conciliação {reconciliation}; tudo resolvido em no"
        " máximo {longest:1} s",
        "; ".join(f"{name}: {_why(held[name])}" for name in failed),
        facts={
            "drills": Fact(len(seen), "drills"),
            **_figures(seen),
            "calls_refused": Fact(sum(outcome.repeated_calls for outcome in seen), "calls"),
            "writes_refused": Fact(sum(outcome.late_writes for outcome in seen), "writes"),
            "reconciliation": Fact(sum(outcome.reconciliation for outcome in seen), "documents"),
            "longest": Fact(max(outcome.seconds for outcome in seen), "s"),
        },
    )


def _figures(seen: Sequence[DrillOutcome]) -> Mapping[str, Fact]:
    """What counts in every drill, summed up over these."""
    return {
        "total": Fact(sum(outcome.documents for outcome in seen), "documents"),
        "effects": Fact(sum(outcome.effects for outcome in seen), "effects"),
        "duplicates": Fact(sum(outcome.damage.duplicates for outcome in seen), "effects"),
        "lost": Fact(sum(outcome.damage.lost for outcome in seen), "documents"),
    }


def _why(outcome: DrillOutcome) -> str:
    return "; ".join(outcome.faults) or str(outcome)
