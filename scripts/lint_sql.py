"""Check the style of the SQL files: sqlfluff, taught the clause order of the course, and savepoints.

Run it as sqlfluff itself: python scripts/lint_sql.py lint sql
"""

from __future__ import annotations

from sqlfluff.cli.commands import cli
from sqlfluff.core.parser import OneOf, Ref, Sequence
from sqlfluff.dialects.dialect_ansi import TransactionStatementSegment
from sqlfluff.dialects.dialect_postgres import SelectStatementSegment


def main() -> None:
    """Run sqlfluff's command line with a grammar that takes FOR UPDATE before LIMIT too, and savepoints.

    PostgreSQL takes these clauses in either order, and the episode writes the lock first; sqlfluff knows only LIMIT first.
    """
    SelectStatementSegment.match_grammar = SelectStatementSegment.match_grammar.copy(
        insert=[Ref("ForClauseSegment", optional=True)],
        before=Ref("LimitClauseSegment", optional=True),
    )
    TransactionStatementSegment.match_grammar = OneOf(
        TransactionStatementSegment.match_grammar,
        Sequence("SAVEPOINT", Ref("SingleIdentifierGrammar")),
        Sequence("ROLLBACK", "TO", "SAVEPOINT", Ref("SingleIdentifierGrammar")),
    )
    cli()


if __name__ == "__main__":
    main()
