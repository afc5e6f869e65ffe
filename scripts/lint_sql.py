"""Check the style of the SQL files: sqlfluff, taught the clause order of the course.

Run it as sqlfluff itself: python scripts/lint_sql.py lint sql
"""

from __future__ import annotations

from sqlfluff.cli.commands import cli
from sqlfluff.core.parser import Ref
from sqlfluff.dialects.dialect_postgres import SelectStatementSegment


def main() -> None:
    """Run sqlfluff's command line with a grammar that takes FOR UPDATE before LIMIT too.

    PostgreSQL takes these clauses in either order, and the episode writes the lock first; sqlfluff knows only LIMIT first.
    """
    SelectStatementSegment.match_grammar = SelectStatementSegment.match_grammar.copy(
        insert=[Ref("ForClauseSegment", optional=True)],
        before=Ref("LimitClauseSegment", optional=True),
    )
    cli()


if __name__ == "__main__":
    main()
