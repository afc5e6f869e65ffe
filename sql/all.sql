-- all: the queue as the last lesson leaves it, in one run: script 01, then every upgrade, in order.
-- @pt A fila como a última lição a deixa, de uma só vez: o script 01 e depois todas as atualizações, em ordem.
--
-- Needs  PostgreSQL 14 or later built with libxml, and the right to create a schema in this database.
-- Run    psql -X -f sql/all.sql          (again whenever you like: it rebuilds the schema sql_semana_12)
-- See    what each of the scripts shows; the last one shows document 1 as an operator sees it.
-- @pt Precisa de PostgreSQL 14 ou mais novo, compilado com libxml, e do direito de criar um esquema neste banco.
-- @pt Pode rodar de novo quando quiser: recria o esquema sql_semana_12. Veja o que cada script mostra.
--
-- Its clock is the server's and its tokens are random. The lab's own clock, which can be moved, and its tokens, which count, come on top
-- where a lesson needs them: sql/lab_clock.sql, sql/lab_tokens.sql.
-- @pt O relógio é o do servidor e os tokens são sorteados. O relógio do laboratório, que pode ser adiantado, e os tokens dele, que contam,
-- @pt entram onde uma lição precisa: sql/lab_clock.sql, sql/lab_tokens.sql.

\set ON_ERROR_STOP on
\ir 01_queue.sql
\ir 05_lease.sql
\ir 06_token.sql
\ir 07_heartbeat.sql
\ir 08_failures.sql
\ir 09_effects.sql
\ir 10_operators.sql
