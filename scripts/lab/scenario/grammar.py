"""A scenario: one annotated SQL file that says which session runs what, and what is to be seen.

The file is valid SQL, read from top to bottom in the order of launching. Comments that begin with `-- @` carry the roles:

    -- @builds_on NN_name               the lesson whose state the scenario starts from; without it, its own lesson
    -- @setup                           statements that prepare the tables, each sent alone
    -- @step NAME SESSION               one statement of one session
             [blocks OTHER]             … which has to be seen waiting for session OTHER
             [errors SQLSTATE]          … which has to fail so
    -- @ends NAME [errors SQLSTATE]     where a waiting step has ended: right below what ends its wait
    -- @teardown                        statements run when all is over
    -- @invariant NAME                  a query that returns no row when all is well; `lab explore` asks it after each order
    -- @pt TEXT                         the Portuguese for the English comment lines above it

Other comment lines are for the reader: at the top of the file they state the claim, under a marker they go with that marker.
Anything else after `-- @` is an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from lab.base import sql_text
from lab.base.errors import ScenarioError
from lab.base.language import Text, say

STEP_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
SESSION_NAME = re.compile(r"[A-Z][A-Za-z0-9]*\Z")
MISPLACED_MARKER = re.compile(r"^--(?! @)\s*@|(?<!^)--\s*@")
MARKERS = (["builds_on"], ["setup"], ["step"], ["ends"], ["teardown"], ["invariant"])
SQLSTATE = re.compile(r"[0-9A-Z]{5}\Z")


@dataclass(frozen=True)
class Step:
    """One statement of one session.

    `blocks` names the session it must be seen waiting for; `errors` is the SQLSTATE it must fail with. A step that
    `blocks` has its error on its `Ends`.
    """

    name: str
    session: str
    sql: str
    line: int
    blocks: str | None = None
    errors: str | None = None
    prose: Text | None = None


@dataclass(frozen=True)
class Ends:
    """Where the waiting step has ended, right below what ended its wait; nothing is launched until it has."""

    step: str
    line: int
    errors: str | None = None
    prose: Text | None = None


@dataclass(frozen=True)
class Invariant:
    """What must hold whatever the order of the steps: a query that returns no row when all is well."""

    name: str
    sql: str
    line: int
    prose: Text | None = None


@dataclass(frozen=True)
class Scenario:
    """A parsed scenario file."""

    path: Path
    claim: Text
    builds_on: str
    setup: tuple[str, ...]
    teardown: tuple[str, ...]
    actions: tuple[Step | Ends, ...]
    invariants: tuple[Invariant, ...] = ()

    @property
    def name(self) -> str:
        """The scenario's name, `NN_case`: the file's name without its ending."""
        return self.path.stem

    @property
    def lesson(self) -> str:
        """The lesson's name, `NN_name`: the folder's name."""
        return self.path.parent.name

    @property
    def state(self) -> int:
        """The number of the state it starts from."""
        return int(self.builds_on[:2])

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps in the order of launching."""
        return tuple(action for action in self.actions if isinstance(action, Step))

    @property
    def sessions(self) -> tuple[str, ...]:
        """The sessions in the order in which they first act."""
        return tuple(dict.fromkeys(step.session for step in self.steps))

    def ends_of(self, step: Step) -> Ends | None:
        """Where the wait of that step is over; None if it does not wait."""
        return next((action for action in self.actions if isinstance(action, Ends) and action.step == step.name), None)

    def step(self, name: str) -> Step:
        """The step of that name; ScenarioError, naming those there are, if there is none."""
        for step in self.steps:
            if step.name == name:
                return step
        there = ", ".join(step.name for step in self.steps)
        raise ScenarioError(
            say(
                f"{self.name} has no step {name}; its steps: {there}.",
                f"{self.name} não tem o passo {name}; os que há: {there}.",
            )
        )


def read(path: Path) -> Scenario:
    """Read and check a scenario file.

    Raises ScenarioError, naming file and line, if the file cannot be read or breaks a rule of the grammar.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(
            say(f"{path}: cannot be read as UTF-8 text: {error}", f"{path}: não dá para ler como texto UTF-8: {error}")
        ) from error
    return parse(text, path)


def parse(text: str, path: Path) -> Scenario:
    """Parse the text of a scenario; `path` gives its name and stands in the messages.

    Raises ScenarioError, naming file and line, if the text breaks a rule of the grammar.
    """
    return _Parser(path).parse(text)


@dataclass
class _Block:
    """A marker with the comment and SQL lines under it."""

    words: list[str]
    line: int
    english: list[str] = field(default_factory=list)
    portuguese: list[str] = field(default_factory=list)
    sql: list[str] = field(default_factory=list)

    @property
    def prose(self) -> Text | None:
        if not self.english and not self.portuguese:
            return None
        return Text(" ".join(self.english), " ".join(self.portuguese))

    @property
    def statement(self) -> str:
        return "\n".join(self.sql).strip()


class _Parser:
    def __init__(self, path: Path) -> None:
        self.path = path

    def error(self, line: int, message: str) -> ScenarioError:
        file = self.path.name
        return ScenarioError(say(f"{file}, line {line}: {message}", f"{file}, linha {line}: {message}"))

    def unknown(self, block: _Block) -> ScenarioError:
        marker = f"`-- @{' '.join(block.words)}`"
        return self.error(
            block.line,
            say(
                f"unknown marker {marker}; known: builds_on LESSON, setup, teardown, "
                "step NAME SESSION [blocks SESSION] [errors SQLSTATE], ends STEP [errors SQLSTATE], invariant NAME, pt TEXT",
                f"marcador desconhecido {marker}; os que existem: builds_on LIÇÃO, setup, teardown, "
                "step NOME SESSÃO [blocks SESSÃO] [errors SQLSTATE], ends PASSO [errors SQLSTATE], invariant NOME, pt TEXTO",
            ),
        )

    def parse(self, text: str) -> Scenario:
        head, *blocks = self.blocks(text)
        if head.sql:
            raise self.error(
                head.line,
                say(
                    "SQL before the first marker; put `-- @setup` or `-- @step NAME SESSION` above it",
                    "há SQL antes do primeiro marcador; ponha `-- @setup` ou `-- @step NOME SESSÃO` acima dele",
                ),
            )
        if head.prose is None:
            raise self.error(
                1,
                say(
                    "the file must begin with a comment that states its claim",
                    "o arquivo tem de começar com um comentário que diz o que ele afirma",
                ),
            )
        builds_on = self.path.parent.name
        setup: tuple[str, ...] = ()
        teardown: tuple[str, ...] = ()
        actions: list[Step | Ends] = []
        invariants: list[Invariant] = []
        for block in blocks:
            match block.words:
                case ["builds_on", lesson]:
                    if not re.match(r"\d\d_[a-z0-9_]+\Z", lesson):
                        raise self.error(
                            block.line,
                            say(
                                f"builds_on wants a lesson such as 04_claim_and_finish, not {lesson}",
                                f"builds_on pede uma lição, como 04_claim_and_finish, e não {lesson}",
                            ),
                        )
                    self.no_sql(block)
                    builds_on = lesson
                case ["setup"]:
                    setup += self.statements(block)
                case ["teardown"]:
                    teardown += self.statements(block)
                case ["step", name, session, *options]:
                    actions.append(self.make_step(block, name, session, options))
                case ["ends", name, *options]:
                    self.no_sql(block)
                    errors = self.options(block, options, {"errors"}).get("errors")
                    actions.append(Ends(name, block.line, errors, block.prose))
                case ["invariant", name]:
                    invariants.append(self.make_invariant(block, name, invariants))
                case _:
                    raise self.unknown(block)
        self.check(actions)
        return Scenario(self.path, head.prose, builds_on, setup, teardown, tuple(actions), tuple(invariants))

    def blocks(self, text: str) -> list[_Block]:
        blocks = [_Block([], 1)]
        for number, line in enumerate(text.splitlines(), start=1):
            block = blocks[-1]
            stripped = line.strip()
            if MISPLACED_MARKER.search(stripped):
                raise self.error(
                    number,
                    say(
                        "a marker has a line of its own that begins with `-- @`, with one space between",
                        "um marcador fica numa linha só dele, que começa com `-- @`, com um espaço no meio",
                    ),
                )
            if stripped.startswith("-- @pt "):
                if block.sql:
                    raise self.error(
                        number,
                        say(
                            "a comment for the reader stands above the statement, not after or inside it",
                            "um comentário para quem lê fica acima do comando, nem depois nem dentro dele",
                        ),
                    )
                if not block.english:
                    raise self.error(
                        number,
                        say(
                            "`@pt` without an English comment line above it",
                            "`@pt` sem uma linha de comentário em inglês acima",
                        ),
                    )
                block.portuguese.append(stripped[len("-- @pt ") :].strip())
            elif stripped.startswith("-- @"):
                blocks.append(_Block(stripped[len("-- @") :].split(), number))
                # Told at once: a misspelt `@pt` would else take the statement from the step above it.
                if blocks[-1].words[:1] not in MARKERS:
                    raise self.unknown(blocks[-1])
            elif stripped.startswith("--"):
                if block.sql:
                    raise self.error(
                        number,
                        say(
                            "a comment for the reader stands above the statement, not after or inside it",
                            "um comentário para quem lê fica acima do comando, nem depois nem dentro dele",
                        ),
                    )
                if block.portuguese:
                    raise self.error(
                        number,
                        say(
                            "write the English lines first, then all their `@pt` lines",
                            "escreva primeiro as linhas em inglês e depois todas as linhas `@pt`",
                        ),
                    )
                block.english.append(stripped[2:].strip())
            elif stripped or block.sql:
                block.sql.append(line.rstrip())
        return blocks

    def statements(self, block: _Block) -> tuple[str, ...]:
        return tuple(f"{each.text};" for each in sql_text.statements(block.statement))

    def no_sql(self, block: _Block) -> None:
        if block.sql:
            word = block.words[0]
            raise self.error(
                block.line, say(f"no SQL may stand under `@{word}`", f"não pode haver SQL embaixo de `@{word}`")
            )

    def options(self, block: _Block, words: list[str], allowed: set[str]) -> dict[str, str]:
        options: dict[str, str] = {}
        for key, value in zip(words[::2], words[1::2] + [""] * (len(words) % 2), strict=True):
            if key not in allowed or not value or key in options:
                given, wanted = " ".join(words), say(" and ", " e ").join(f"{key} …" for key in sorted(allowed))
                raise self.error(
                    block.line,
                    say(
                        f"cannot read `{given}`; after the names only {wanted} may stand, once",
                        f"não dá para entender `{given}`; depois dos nomes só cabe {wanted}, uma vez",
                    ),
                )
            options[key] = value
        if "errors" in options and not SQLSTATE.match(options["errors"]):
            state = options["errors"]
            raise self.error(
                block.line,
                say(
                    f"{state} is not an SQLSTATE (five digits or capital letters)",
                    f"{state} não é um SQLSTATE (cinco dígitos ou letras maiúsculas)",
                ),
            )
        return options

    def make_step(self, block: _Block, name: str, session: str, words: list[str]) -> Step:
        options = self.options(block, words, {"blocks", "errors"})
        if not STEP_NAME.match(name):
            raise self.error(
                block.line,
                say(
                    f"a step's name is lower-case letters, digits and _, not {name}",
                    f"o nome de um passo tem letras minúsculas, dígitos e _, diferente de {name}",
                ),
            )
        if name.startswith("ends_"):
            raise self.error(
                block.line,
                say(
                    f"{name}: names that begin with ends_ are kept for isolationtester's input",
                    f"{name}: nomes que começam com ends_ são reservados para a entrada do isolationtester",
                ),
            )
        if not SESSION_NAME.match(session):
            raise self.error(
                block.line,
                say(
                    f"a session's name begins with a capital letter, as A or B, unlike {session}",
                    f"o nome de uma sessão começa com maiúscula, como A ou B, diferente de {session}",
                ),
            )
        if not block.sql:
            raise self.error(block.line, say(f"step {name} has no statement", f"o passo {name} não tem comando"))
        if len(self.statements(block)) > 1:
            raise self.error(
                block.line,
                say(
                    f"step {name} holds more than one statement; give each a step of its own",
                    f"o passo {name} tem mais de um comando; dê um passo a cada um",
                ),
            )
        if "}" in block.statement:
            raise self.error(
                block.line,
                say(
                    f"step {name} contains a closing brace, where isolationtester would end the step",
                    f"o passo {name} contém uma chave de fechamento, e ali o isolationtester terminaria o passo",
                ),
            )
        return Step(
            name, session, block.statement, block.line, options.get("blocks"), options.get("errors"), block.prose
        )

    def make_invariant(self, block: _Block, name: str, others: list[Invariant]) -> Invariant:
        if not STEP_NAME.match(name):
            raise self.error(
                block.line,
                say(
                    f"an invariant's name is lower-case letters, digits and _, not {name}",
                    f"o nome de um invariante tem letras minúsculas, dígitos e _, diferente de {name}",
                ),
            )
        if any(other.name == name for other in others):
            raise self.error(
                block.line,
                say(f"a second invariant is called {name}", f"um segundo invariante se chama {name}"),
            )
        if len(self.statements(block)) != 1:
            raise self.error(
                block.line,
                say(
                    f"invariant {name} wants one query, which returns no row when all is well",
                    f"o invariante {name} pede uma consulta, que não devolve linha quando tudo está certo",
                ),
            )
        return Invariant(name, block.statement, block.line, block.prose)

    def check(self, actions: list[Step | Ends]) -> None:
        """Check what concerns several markers at once."""
        steps: dict[str, Step] = {}
        waiting: dict[str, Step] = {}  # by session
        sessions = {action.session for action in actions if isinstance(action, Step)}
        for action in actions:
            if isinstance(action, Ends):
                step = steps.get(action.step)
                if step is None:
                    raise self.error(
                        action.line,
                        say(
                            f"`@ends {action.step}`: no step of that name stands above",
                            f"`@ends {action.step}`: não há passo com esse nome acima",
                        ),
                    )
                if waiting.get(step.session) is not step:
                    if step.blocks:
                        why = say("that step has ended already", "esse passo já terminou")
                    else:
                        why = say(
                            "that step is not marked `blocks`, so it does not wait",
                            "esse passo não tem `blocks`, portanto não espera",
                        )
                    raise self.error(action.line, f"`@ends {action.step}`: {why}")
                del waiting[step.session]
                continue
            if action.name in steps:
                raise self.error(
                    action.line,
                    say(f"a second step is called {action.name}", f"um segundo passo se chama {action.name}"),
                )
            steps[action.name] = action
            if action.session in waiting:
                session, step_name = action.session, waiting[action.session].name
                raise self.error(
                    action.line,
                    say(
                        f"session {session} still waits in {step_name}; `@ends {step_name}` must stand above",
                        f"a sessão {session} ainda espera em {step_name}; `@ends {step_name}` tem de vir acima",
                    ),
                )
            if action.blocks is not None:
                if action.blocks == action.session or action.blocks not in sessions:
                    raise self.error(
                        action.line,
                        say(
                            f"step {action.name} cannot wait for {action.blocks}: name another session",
                            f"o passo {action.name} não pode esperar por {action.blocks}: indique outra sessão",
                        ),
                    )
                if action.errors:
                    raise self.error(
                        action.line,
                        say(
                            f"write the error of {action.name} on its `@ends` only: it fails after waiting",
                            f"escreva o erro de {action.name} só no `@ends` dele: ele falha depois de esperar",
                        ),
                    )
                waiting[action.session] = action
        for step in waiting.values():
            raise self.error(
                step.line,
                say(
                    f"step {step.name} waits, but no `@ends {step.name}` says where that is over",
                    f"o passo {step.name} espera, mas nenhum `@ends {step.name}` diz onde a espera acaba",
                ),
            )
        if not steps:
            raise self.error(1, say("the scenario has no step", "o cenário não tem nenhum passo"))
