"""Keep the rows and sequences of a database aside, and put them back as often as wanted: quicker than building it anew."""

from __future__ import annotations

import psycopg
from psycopg import sql

KEPT = "lab_kept"  # the schema of the copies
OURS = f"nspname !~ '^pg_' AND nspname NOT IN ('information_schema', '{KEPT}')"

TABLES = f"""
SELECT c.oid::regclass::text, array_agg(quote_ident(a.attname) ORDER BY a.attnum) FILTER (WHERE a.attgenerated = '')
FROM pg_class AS c
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
INNER JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind = 'r' AND {OURS}
GROUP BY c.oid
ORDER BY c.oid
"""

SEQUENCES = f"""
SELECT c.oid::regclass::text
FROM pg_class AS c
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'S' AND {OURS}
"""

# What the catalogue says of the schema; a row of it that was written again has another xmin (that of a truncated table has, too).
CATALOGUE = f"""
WITH ours AS (SELECT oid FROM pg_namespace WHERE {OURS})
SELECT count(*), coalesce(sum(hashtextextended(found.what, 0)), 0)
FROM (
    SELECT 'c' || c.oid || ' ' || c.relname || ' ' || c.relnatts || ' ' || coalesce(c.relacl::text, '')
    FROM pg_class AS c WHERE c.relnamespace IN (SELECT oid FROM ours)
    UNION ALL
    SELECT 'a' || a.attrelid || ' ' || a.attname || ' ' || a.xmin
    FROM pg_attribute AS a INNER JOIN pg_class AS c ON c.oid = a.attrelid WHERE c.relnamespace IN (SELECT oid FROM ours)
    UNION ALL
    SELECT 'p' || p.oid || ' ' || p.xmin FROM pg_proc AS p WHERE p.pronamespace IN (SELECT oid FROM ours)
    UNION ALL
    SELECT 'k' || k.oid || ' ' || k.xmin FROM pg_constraint AS k WHERE k.connamespace IN (SELECT oid FROM ours)
    UNION ALL
    SELECT 't' || t.oid || ' ' || t.xmin FROM pg_trigger AS t
    UNION ALL
    SELECT 'n' || n.oid || ' ' || n.xmin FROM pg_namespace AS n WHERE n.nspname !~ '^pg_'
) AS found (what)
"""


class Snapshot:
    """The rows and sequences of a database as they were when this was made.

    Raises psycopg.Error if the connection's user may not copy them: it wants a superuser, for which triggers and foreign keys
    stay still while rows are put back.
    """

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        connection.execute(f"DROP SCHEMA IF EXISTS {KEPT} CASCADE; CREATE SCHEMA {KEPT}")
        back = []
        tables = connection.execute(TABLES.encode()).fetchall()
        for place, (table, columns) in enumerate(tables):
            connection.execute(f"CREATE TABLE {KEPT}.rows_{place} AS TABLE {table}".encode())
            if columns:
                names = ", ".join(columns)
                back.append(
                    f"INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE SELECT {names} FROM {KEPT}.rows_{place}"
                )
        if tables:
            back.insert(0, "TRUNCATE " + ", ".join(table for table, _ in tables))
        for (sequence,) in connection.execute(SEQUENCES.encode()).fetchall():
            row = connection.execute(f"SELECT last_value, is_called FROM {sequence}".encode()).fetchone()
            assert row
            back.append(sql.SQL("SELECT setval({}, {}, {})").format(sequence, row[0], row[1]).as_string(connection))
        self.back = "; ".join(["SET LOCAL session_replication_role = replica", *back])
        self.catalogue = self._catalogue()

    def holds(self) -> bool:
        """Whether the schema is still the one whose rows are kept: if not, it has to be built anew."""
        return self._catalogue() == self.catalogue

    def restore(self) -> None:
        """Put rows and sequences back, in one transaction."""
        with self.connection.transaction():
            self.connection.execute(self.back.encode())

    def drop(self) -> None:
        """Drop the copies."""
        self.connection.execute(f"DROP SCHEMA IF EXISTS {KEPT} CASCADE")

    def _catalogue(self) -> tuple[object, ...] | None:
        return self.connection.execute(CATALOGUE.encode()).fetchone()
