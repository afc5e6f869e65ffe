-- all: the queue as the last lesson leaves it, in one run: script 01, then every upgrade, in order.
--
-- Needs  PostgreSQL 14 or later built with libxml, and the right to create a schema in this database.
-- Run    psql -X -f sql/all.sql          (again whenever you like: it rebuilds the schema sql_semana_12)
-- See    what each of the scripts shows; the last one shows document 1 as an operator sees it.
--
-- Its clock is the server's and its tokens are random. The lab's own clock, which can be moved, and its tokens, which count, come on top
-- where a lesson needs them: sql/lab_clock.sql, sql/lab_tokens.sql.

\set ON_ERROR_STOP on
\ir 01_queue.sql
\ir 05_lease.sql
\ir 06_token.sql
\ir 07_heartbeat.sql
\ir 08_failures.sql
\ir 09_effects.sql
\ir 10_operators.sql
