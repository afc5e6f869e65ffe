"""Parts of README.md, LEIAME.md and docs/ that are made from what the lab is and saw; `lab generate` puts them in, a test compares."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

from lab.base import config, paths
from lab.base.language import say
from lab.base.sql_text import without_comments
from lab.drills import ablation
from lab.experiments import fencing_table as guards_tried
from lab.lessons import registry
from lab.maintain import observations
from lab.measure import bench
from lab.measure.guarantee_cost import PENDING
from lab.measure.rounds import Spread
from lab.scenario.transcript import condition

PEERS_PT = {"bare": "sem garantias", "pgmq, pipelined": "pgmq, em pipeline"}
PRICES_PT = {
    "the episode's claim (04)": "a reserva do episódio (04)",
    "+ lease (05)": "+ prazo da reserva (05)",
    "+ token and audit (06)": "+ token e auditoria (06)",
    "all of it (10)": "tudo (10)",
    "all but the audit": "tudo, menos a auditoria",
    "all, finished with the next claim": "tudo, concluindo junto com a reserva seguinte",
}
DECIMALS_PT = str.maketrans(",.", ".,")  # of recorded figures, which are text by then
LESSONS_WITH_A_NAME = 3  # so many have to use a name for the page to explain it


def lessons(language: str) -> str:
    """The table of lessons: minutes, question, answer seen, whether psql alone is enough."""
    heads = {
        "en": ["lesson", "minutes", "question", "what you will have seen", "with psql only"],
        "pt": ["lição", "minutos", "pergunta", "o que você terá visto", "só com psql"],
    }
    rows = []
    with config.changed(LAB_LANG=language):
        for each in registry.lessons():
            folder = say("notebooks", "notebooks/pt")
            notebook = f"[{each.name}]({folder}/{each.name}.ipynb)"
            rows.append([notebook, str(each.minutes), str(each.question), str(each.answer), str(each.psql_only)])
    return _table(heads[language], rows)


def tour(language: str, *steps: int) -> str:
    """These steps of the tour as it was recorded, after the lines that it opens with."""
    text = (paths.OBSERVED / f"tour_{language}.txt").read_text(encoding="utf-8")
    opening, *told = re.split(r"^(?=\d  )", text.partition("\n\n")[0], flags=re.MULTILINE)
    chosen = "".join(f"{told[step - 1].rstrip()}\n" for step in steps)
    return f"```text\n{opening}{chosen}```"


def truth_table(language: str, *only: str) -> str:
    """The truth table of lesson 06 as it was recorded: what a late write destroys, by its guard (only these, if any is named)."""
    heads = {
        "en": ("the write's guard", "the owner's finish after any other change"),
        "pt": ("a condição do WHERE", "conclusão do dono depois de outra mudança qualquer"),
    }
    table = guards_tried.recorded()
    with config.changed(LAB_LANG=language):
        first, last = heads[language]
        rows = [
            [f"`{guard.shown}`"]
            + [_strong_unless("0", str(table.cell(guard.name, each.name).text)) for each in guards_tried.situations()]
            + [_strong_unless("1", str(table.owners[guard.name]))]
            for guard in guards_tried.guards()
            if guard.name in only or not only
        ]
        return _table([first, *(str(each.shown) for each in guards_tried.situations()), last], rows)


def defence_matrix(language: str, *only: str) -> str:
    """The defence matrix of lesson 09 as it was recorded: documents damaged without each defence (only these, if any is named)."""
    heads = {"en": ("without", "when", "with it"), "pt": ("sem", "quando", "com ela")}
    matrix = ablation.recorded()
    with config.changed(LAB_LANG=language):
        rows = []
        for each in ablation.defences():
            if only and each.name not in only:
                continue
            row = matrix.row(each.name)
            damaged = [str(getattr(row.without_it, kind)) for kind, _ in ablation.kinds()]
            cells = [str(row.with_it.total), *damaged]
            rows.append([str(each.shown), str(each.situation), *(_strong_unless("0", cell) for cell in cells)])
        return _table([*heads[language], *(str(shown) for _, shown in ablation.kinds())], rows)


def servers(language: str) -> str:
    """The server versions that the lab was run on, and how many checks held there, as recorded."""
    heads = {"en": ["PostgreSQL", "checks passed", "not run"], "pt": ["PostgreSQL", "verificações", "não rodaram"]}
    counted = Counter(
        (row["server"], row["value"])
        for each in registry.lessons()
        for row in observations.of_lesson(each.name)
        if row["fact"] == "holds"
    )
    kinds = ("yes", observations.NOT_RUN)
    rows = [[server, *(str(counted[server, kind]) for kind in kinds)] for server in observations.servers()]
    return _table(heads[language], rows)


def rates(language: str) -> str:
    """Documents a second of the worker as a ratio to pgbench, by batch and number of workers, as `lab bench` recorded them."""
    seen = bench.recorded()
    clients = sorted({cell.clients for cell in seen.cells})
    cells = {(cell.batch, cell.clients): _spread(language, cell.ratio) for cell in seen.cells}
    rows = [
        [str(batch), *(cells[batch, number] for number in clients)] for batch in sorted({batch for batch, _ in cells})
    ]
    heads = [f"{number} worker{'s' if number > 1 else ''}" for number in clients]
    batch, cores = {"en": ("batch", "cores, load"), "pt": ("lote", "núcleos, carga")}[language]
    where = f"PostgreSQL {seen.server}, {seen.cores} {cores} " + _number(language, f"{seen.busy:.1f}")
    return _table([f"{batch} ({where})", *heads], rows)


def peers(language: str) -> str:
    """Documents a second of the worker beside other queues, and what each writes to the disk, as `lab bench` recorded them."""
    heads = {
        "en": ["batch", "queue", "documents a second", "× pgmq", "WAL bytes a document", "fsyncs"],
        "pt": ["lote", "fila", "documentos por segundo", "× pgmq", "bytes de WAL por documento", "fsyncs"],
    }
    rows = [
        [
            str(each.batch),
            each.name if language == "en" else PEERS_PT.get(each.name, each.name),
            _number(language, f"{each.rate:,.0f}"),
            _spread(language, each.ratio) if each.ratio else "",
            *(_number(language, figure) for figure in (f"{each.wal:,.0f}", f"{each.fsyncs:.2f}")),
        ]
        for each in bench.recorded().peers
    ]
    return _table(heads[language], rows)


def prices(language: str) -> str:
    """What claiming and finishing one document costs with each guarantee, as a ratio to the episode's statements, as recorded."""
    heads = {
        "en": ["claim and finish", "time", "time, not waiting for the disk", "WAL bytes a document", "fsyncs"],
        "pt": ["reservar e concluir", "tempo", "tempo sem esperar pelo disco", "bytes de WAL por documento", "fsyncs"],
    }
    rows = [
        [
            each.name if language == "en" else PRICES_PT[each.name],
            *(_spread(language, spread) for spread in (each.time, each.in_memory)),
            *(_number(language, figure) for figure in (f"{each.wal:,.0f}", f"{each.fsyncs:.2f}")),
        ]
        for each in bench.recorded().prices
    ]
    return _table(heads[language], rows)


def among(language: str) -> str:
    """How much longer a claim takes among many pending documents, as recorded."""
    few, many = (_number(language, f"{size:,}") for size in PENDING)
    ratios = {each.tenant: _number(language, f"{each.ratio:.2f}") for each in bench.recorded().among}
    if language == "pt":
        return (
            f"Entre {many} de documentos pendentes, uma reserva leva {ratios['any']} vez (qualquer inquilino) e"
            f" {ratios['rare']} vez (inquilino raro) o tempo que leva entre {few}."
        )
    told = " and ".join(f"{ratio} times ({tenant} tenant)" for tenant, ratio in ratios.items())
    return f"A claim among {many} pending documents takes {told} as long as one among {few}."


def sqlstates(language: str) -> str:
    """The SQLSTATEs that a reader meets: the condition, the server's words, what it means, and what to do."""
    heads = {
        "en": ["SQLSTATE", "condition", "the server says", "here it means", "then"],
        "pt": ["SQLSTATE", "condição", "o servidor diz", "aqui significa", "então"],
    }
    with (paths.DATA / "sqlstates.csv").open(encoding="utf-8", newline="") as file:
        rows = [
            [row["sqlstate"], condition(row["sqlstate"]), row["message"], row[language], row[f"then_{language}"]]
            for row in csv.DictReader(file)
        ]
    return _table(heads[language], rows)


def glossary(language: str) -> str:
    """Names in the database and what they mean: those that the reader meets in the scenarios of several lessons."""
    heads = {"en": ["in the database", "English", "meaning"], "pt": ["no banco", "em inglês", "significado"]}
    meaning = {"en": "meaning", "pt": "meaning_pt"}[language]
    lessons_with = Counter[str]()
    for folder in paths.SQL.glob("[0-9][0-9]_*/"):
        lessons_with.update({name for path in folder.glob("*.sql") for name in _words(path)})
    with (paths.DATA / "glossary.csv").open(encoding="utf-8", newline="") as file:
        known = [row for row in csv.DictReader(file) if lessons_with[row["pt"]] >= LESSONS_WITH_A_NAME]
    rows = [[f"`{row['pt']}`", row["en"].replace("_", " "), row[meaning]] for row in known]
    return _table(heads[language], rows)


def coverage(language: str) -> str:
    """How many statements of each source the lab shows, refines, contradicts, or has planned, as data/coverage.csv lists them."""
    heads = {
        "en": ("statements of", "shown", "refined", "contradicted", "planned", "in all"),
        "pt": ("afirmações", "mostradas", "refinadas", "desmentidas", "planejadas", "ao todo"),
    }
    sources = {
        "en": {"episode": "the episode", "article": "the article"},
        "pt": {"episode": "do episódio", "article": "do artigo"},
    }
    with (paths.DATA / "coverage.csv").open(encoding="utf-8", newline="") as file:
        listed = Counter((row["source"], row["state"]) for row in csv.DictReader(file))
    rows = []
    for source, shown in sources[language].items():
        counts = [listed[source, state] for state in ("shown", "refined", "contradicted", "planned")]
        rows.append([shown, *map(str, counts), str(sum(counts))])
    return _table(list(heads[language]), rows)


def _words(path: Path) -> list[str]:
    """The words of a script that are not in its comments."""
    return re.findall(r"\w+", without_comments(path.read_text(encoding="utf-8")))


def _number(language: str, figures: str) -> str:
    """Figures as they are written in this language: of `1,234.5` Portuguese makes `1.234,5`."""
    return figures.translate(DECIMALS_PT) if language == "pt" else figures


def _spread(language: str, spread: Spread) -> str:
    """A spread in the page's language, whatever the language of the one who makes the page."""
    to = {"en": "to", "pt": "a"}[language]
    return _number(language, f"{spread.median:.2f} ({spread.smallest:.2f} {to} {spread.largest:.2f})")


def _strong_unless(good: str, cell: str) -> str:
    return cell if cell == good else f"**{cell}**"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
