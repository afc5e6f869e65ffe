-- 13 indexes: a large table, nearly all of it finished. What index finds the few rows that are due, and what loses it?
-- @pt Uma tabela grande, quase toda concluída. Que índice acha as poucas linhas na hora, e o que faz perdê-lo?
--
-- Needs  sql/all.sql
-- Run    psql -X -f sql/13_indexes.sql          (again whenever you like: it rolls back)
-- See    one query by four plans; read "Buffers: shared", not the time: how many pages each of them touched.
-- @pt Precisa de sql/all.sql. Pode rodar de novo quando quiser: ele desfaz tudo.
-- @pt Veja uma consulta com quatro planos; leia "Buffers: shared", não o tempo: quantas páginas cada um tocou.
--
-- This lesson changes no table of the queue: it fills one of its own, of 100,000 rows, and takes it away again.
-- @pt Esta lição não altera nenhuma tabela da fila: enche uma sua, de 100.000 linhas, e a remove no fim.

\set ON_ERROR_STOP on
\setenv PSQL_PAGER ''
SET client_min_messages = warning;
SET "lab.de" = '10';
SET "lab.para" = '99';
\ir require_state.sql

BEGIN;

CREATE TABLE sql_semana_12.fila_medida AS
SELECT
    n AS documento_id,
    CASE WHEN n % 100 = 0 THEN 'pendente' ELSE 'concluido' END AS status,
    now() - (100000 - n) * INTERVAL '1 second' AS disponivel_em,
    repeat('x', 150) AS resto
FROM generate_series(1, 100000) AS n;
ANALYZE sql_semana_12.fila_medida;

PREPARE devidos AS
SELECT documento_id
FROM sql_semana_12.fila_medida
WHERE status = 'pendente' AND disponivel_em <= now()
ORDER BY disponivel_em, documento_id
LIMIT 10;

-- Without an index: the whole table.
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE devidos; -- noqa: PRS

-- The state as the first column: an entry for every row, also for those that are finished.
CREATE INDEX medida_completo_idx ON sql_semana_12.fila_medida (status, disponivel_em, documento_id);
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE devidos; -- noqa: PRS
SELECT pg_size_pretty(pg_relation_size('sql_semana_12.medida_completo_idx')) AS tamanho;
DROP INDEX sql_semana_12.medida_completo_idx;

-- Partial: only the rows that wait.
CREATE INDEX medida_parcial_idx ON sql_semana_12.fila_medida (disponivel_em, documento_id) WHERE status = 'pendente';
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE devidos; -- noqa: PRS
SELECT pg_size_pretty(pg_relation_size('sql_semana_12.medida_parcial_idx')) AS tamanho;

-- The same query with the state as a parameter, and a plan for any state: the index is lost.
PREPARE devidos_de (TEXT) AS
SELECT documento_id
FROM sql_semana_12.fila_medida
WHERE status = $1 AND disponivel_em <= now()
ORDER BY disponivel_em, documento_id
LIMIT 10;
SET LOCAL plan_cache_mode = force_generic_plan;
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE devidos_de ('pendente'); -- noqa: PRS

ROLLBACK;

DEALLOCATE devidos;
DEALLOCATE devidos_de;
