-- 18 old_snapshots: what does a claim read while a report elsewhere is open for long, and who is it that holds the dead rows?
-- @pt O que uma reserva lê enquanto um relatório fica muito tempo aberto em outro lugar, e quem segura as linhas mortas?
--
-- Needs  sql/all.sql
-- Run    psql -X -f sql/18_old_snapshots.sql          (again whenever you like: it takes away what it made)
-- See    one query, first right after 5,000 rows were finished, then once they may be removed: read "Buffers: shared".
-- @pt Precisa de sql/all.sql. Pode rodar de novo quando quiser: ele remove o que criou.
-- @pt Veja uma consulta, primeiro logo depois de 5.000 linhas concluídas, e depois que elas podem sair: leia "Buffers: shared".
--
-- To see the difference, open another terminal first: BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; and leave it open.
-- While it is there, the second plan is as dear as the first, and the last query names it. This lesson changes no schema.
-- @pt Para ver a diferença, abra antes outro terminal: BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; e deixe assim.
-- @pt Com ele aberto, o segundo plano custa tanto quanto o primeiro, e a última consulta o mostra. Esta lição não altera o esquema.

\set ON_ERROR_STOP on
\setenv PSQL_PAGER ''
SET client_min_messages = warning;
SET "lab.de" = '10';
SET "lab.para" = '99';
\ir require_state.sql

DROP TABLE IF EXISTS sql_semana_12.fila_medida;
CREATE TABLE sql_semana_12.fila_medida (documento_id, status) WITH (autovacuum_enabled = off) AS
SELECT
    n AS documento_id,
    'pendente' AS status
FROM generate_series(1, 10000) AS n;
CREATE INDEX medida_pendentes_idx ON sql_semana_12.fila_medida (documento_id) WHERE status = 'pendente';
VACUUM (ANALYZE) sql_semana_12.fila_medida;

UPDATE sql_semana_12.fila_medida
SET status = 'concluido'
WHERE documento_id <= 5000;

-- The first claim walks over the entries of all that is finished, and marks those that no one may see any more.
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF)
SELECT documento_id
FROM sql_semana_12.fila_medida
WHERE status = 'pendente'
ORDER BY documento_id
LIMIT 1;

-- The second passes the marked ones, without a look at the table.
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF)
SELECT documento_id
FROM sql_semana_12.fila_medida
WHERE status = 'pendente'
ORDER BY documento_id
LIMIT 1;

-- A vacuum takes them out of the index.
VACUUM sql_semana_12.fila_medida;
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF)
SELECT documento_id
FROM sql_semana_12.fila_medida
WHERE status = 'pendente'
ORDER BY documento_id
LIMIT 1;

DROP TABLE sql_semana_12.fila_medida;

-- Who keeps dead rows from being removed? No row: all may go.
\ir horizon.sql
