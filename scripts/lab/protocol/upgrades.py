"""How an installation of an earlier edition becomes one of this: the links in sql/upgrade/, one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.base import paths
from lab.server.session import SCHEMA

FOLDER = paths.SQL / "upgrade"
# The edition that the protocol is now, and how earlier ones marked what they made.
EDITION = 2
MARKS = {1: ("document queue, structure 02ad4f81", "document queue, structure 82d35927")}
# Who had a duty's rights before, by what only that duty has; a link may take such rights away.
DUTIES = {
    "worker": ("EXECUTE", "reservar"),
    "operator": ("EXECUTE", "pausar"),
    "application": ("EXECUTE", "enfileirar"),
    "reader": ("SELECT", "situacao"),
}


@dataclass(frozen=True)
class Link:
    """From one edition to the next: while workers go on, under the lock, once the new edition is there, and after its transaction.

    The last of these is in every installation, and does nothing where nothing is left to do.
    """

    before: int
    live: str
    locked: str
    installed: str
    after: str


def links() -> list[Link]:
    """The links of the chain, in order."""
    return [
        _read(number, (FOLDER / f"{number}_to_{number + 1}.sql").read_text(encoding="utf-8"))
        for number in range(1, EDITION)
    ]


def known(mark: str) -> str:
    """Keeps, within the transaction, of which earlier edition the installation is whose mark this expression gives; 0 if of none."""
    cases = " ".join(f"WHEN '{said}' THEN {number}" for number, marks in MARKS.items() for said in marks)
    return f"PERFORM set_config('document_queue.edition', CASE {mark} {cases} ELSE 0 END::TEXT, TRUE);"


def missing(edition: str) -> str:
    """A condition: that an index which `prepared` makes for this edition is not here, or unfinished."""
    wanted = [(link.before, name) for link in links() for name in re.findall(r"IF NOT EXISTS (\w+)", link.live)]
    listed = ", ".join(f"({before}, '{name}')" for before, name in wanted)
    return f"""\
EXISTS (
        SELECT FROM (VALUES {listed}) AS wanted (before, index_name)
        WHERE before >= {edition} AND {edition} > 0 AND NOT EXISTS (
            SELECT FROM pg_index
            INNER JOIN pg_class ON indexrelid = pg_class.oid
            WHERE relname = index_name AND relnamespace = to_regnamespace('{SCHEMA}') AND indisvalid
        )
    )"""


def prepared(check: str) -> str:
    """What goes before an upgrade, outside a transaction: psql's. An index that an interrupted run left unfinished is made anew."""
    made = "\n\n".join(link.live for link in links())
    return f"""\
{check}
SELECT format('DROP INDEX CONCURRENTLY %s', indexrelid::REGCLASS)
FROM pg_index
INNER JOIN pg_class ON indexrelid = pg_class.oid
WHERE relnamespace = to_regnamespace('{SCHEMA}') AND NOT indisvalid
\\gexec
\\echo building the indexes of the new edition: each waits for transactions that are open now
{made}"""


def locked() -> Iterator[str]:
    """What goes first in the transaction, both tables being locked."""
    for link in links():
        yield _if(link, f"{_remembered()}\n\n{link.locked}")


def installed(rights: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What goes last in the transaction; `rights` are those of each duty: a role that had the duty is given them all."""
    for link in links():
        yield _if(link, f"{link.installed}\n\n{_given(rights)}")


def after() -> str:
    """What goes after the transaction."""
    return "\n\n".join(link.after for link in links())


def _read(number: int, text: str) -> Link:
    _, *parts = re.split(r"^-- @(?:live|locked|installed|after)\n", text, flags=re.MULTILINE)
    return Link(number, *(part.strip() for part in parts))


def _if(link: Link, text: str) -> str:
    return f"""\
DO $link$
BEGIN
    IF current_setting('document_queue.edition')::INTEGER BETWEEN 1 AND {link.before} THEN
        EXECUTE $statements$
{text}
$statements$;
    END IF;
END
$link$;"""


def _remembered() -> str:
    """Keeps who has which duty, and takes from the readers the table with its payload, of which they now have columns."""
    kinds = {
        "EXECUTE": ("pg_proc", "proacl", "proname", "pronamespace"),
        "SELECT": ("pg_class", "relacl", "relname", "relnamespace"),
    }
    asked = "\n            UNION ALL\n".join(
        f"""\
            SELECT '{duty}', grantee::REGROLE::TEXT
            FROM {table}
            CROSS JOIN aclexplode({rights})
            WHERE {where} = to_regnamespace('{SCHEMA}') AND {name} = '{what}' AND privilege_type = '{privilege}'
                AND grantee NOT IN (0, grantor)"""
        for duty, (privilege, what) in DUTIES.items()
        for table, rights, name, where in (kinds[privilege],)
    )
    return f"""\
DO $duties$
DECLARE
    v_duties JSON;
    v_role TEXT;
BEGIN
    SELECT coalesce(json_object_agg(duty, grantees), '{{}}') INTO v_duties
    FROM (
        SELECT duty, json_agg(DISTINCT grantee) AS grantees
        FROM (
{asked}
        ) AS given (duty, grantee)
        GROUP BY duty
    ) AS had;
    PERFORM set_config('document_queue.duties', v_duties::TEXT, TRUE);
    FOR v_role IN SELECT json_array_elements_text(v_duties -> 'reader') LOOP
        EXECUTE format('REVOKE ALL ON {SCHEMA}.fila_documentos FROM %s', v_role);
    END LOOP;
END
$duties$;"""


def _given(rights: Mapping[str, Sequence[str]]) -> str:
    duties = "\n".join(
        f"""\
    FOR v_role IN SELECT json_array_elements_text(v_duties -> '{duty}') LOOP
{"".join(f"        EXECUTE format($right${right} TO %s$right$, v_role);{chr(10)}" for right in given)}\
    END LOOP;"""
        for duty, given in rights.items()
    )
    return f"""\
DO $rights$
DECLARE
    v_duties JSON := current_setting('document_queue.duties');
    v_role TEXT;
BEGIN
{duties}
END
$rights$;"""
