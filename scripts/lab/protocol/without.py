"""The text of sql/without.sql: with psql alone, take one defence out of the lab's protocol, and put it back at the second call."""

from __future__ import annotations

from lab.protocol import source
from lab.server import schema
from lab.server.session import SCHEMA


def text() -> str:
    """The script, made from the marks in sql/protocol/."""
    latest = schema.latest()
    names = source.defences()
    known = " ".join(names)
    head = f"""\
-- without: take one defence out of the lab's protocol, and put it back at the second call. Generated: ./lab generate
-- @pt Tira uma defesa do protocolo do laboratório e a devolve na segunda chamada.
--
-- Needs  sql/all.sql
-- Run    psql -X -v without=token -f sql/without.sql          (one of: {known})
-- See    what is off now. A scenario of ./lab walk rebuilds the queue and puts it back: try it in psql (docs/defences.md).
-- @pt Precisa de sql/all.sql. Escolha uma: {known}.
-- @pt Veja o que está desligado. Um cenário de ./lab walk recria a fila e a devolve: experimente no psql (docs/pt/defences.md).

\\set ON_ERROR_STOP on
\\setenv PSQL_PAGER ''
SET client_min_messages = warning;
SET "lab.de" = '{latest:02}';
SET "lab.para" = '99';
\\ir require_state.sql

\\if :{{?without}}
\\else
\\set without ''
\\endif
SELECT
    :'without' = ANY('{{{",".join(names)}}}') AS conhecida,
    coalesce(current_setting('lab.lang', TRUE), '') LIKE 'pt%' AS em_portugues
\\gset
\\if :conhecida
\\else
\\if :em_portugues
\\echo 'Qual delas? psql -X -v without=NOME -f sql/without.sql, com uma destas: {known}'
\\else
\\echo 'Which one? psql -X -v without=NAME -f sql/without.sql, with one of: {known}'
\\endif
\\quit
\\endif
"""
    return "\n".join([head, *(_toggle(name, latest) for name in names)])


def _toggle(name: str, latest: int) -> str:
    """What is done if this defence is the one named: its functions are made without it, or again with it."""
    concerned = [(each, taken) for each in source.sources() if (taken := each.without(f"defence {name}", latest))]
    mark = f"-- without {name}"
    # The mark in the body tells the second call that the defence is off.
    off = "\n\n".join(f"{taken.replace('AS $$', f'AS $$ {mark}', 1)};" for _, taken in concerned)
    on = "\n\n".join(f"{each.statement(latest)};" for each, _ in concerned)
    return f"""\
SELECT
    :'without' = '{name}' AS esta,
    (
        SELECT count(*) > 0
        FROM pg_proc
        WHERE pronamespace = '{SCHEMA}'::REGNAMESPACE AND prosrc LIKE '%{mark}%'
    ) AS desligada
\\gset
\\if :esta
\\if :desligada

{on}

\\if :em_portugues
\\echo '{name} está ligada de novo.'
\\else
\\echo '{name} is on again.'
\\endif
\\else

{off}

\\if :em_portugues
\\echo '{name} está desligada. O mesmo comando a devolve.'
\\else
\\echo '{name} is off. The same command puts it back.'
\\endif
\\endif
\\endif
"""
