-- watch: for a third terminal. Who waits for whom, and how the queue stands; once a second until ^C.
-- @pt Para um terceiro terminal: quem espera por quem e como está a fila; a cada segundo, até ^C.
--
-- Needs  sql/01_queue.sql
-- Run    psql -X -f sql/watch.sql
-- See    lab/B → lab/A while B waits for A; and the queue as anybody else sees it: what is not committed does not show.
-- @pt Precisa de sql/01_queue.sql.
-- @pt Veja lab/B → lab/A enquanto B espera por A; e a fila como qualquer outra sessão a vê: sem COMMIT, nada aparece.

\set ON_ERROR_STOP on
\set QUIET on
\pset footer off

WITH esperas AS (
    SELECT
        espera.application_name || ' → ' || dono.application_name AS visto,
        date_trunc('second', clock_timestamp() - espera.query_start)::TEXT AS quanto
    FROM pg_stat_activity AS espera
    INNER JOIN pg_stat_activity AS dono ON dono.pid = ANY(pg_blocking_pids(espera.pid))
    WHERE espera.datname = current_database()
),

estados AS (
    SELECT
        status AS visto,
        count(*) || ' documentos' AS quanto
    FROM sql_semana_12.fila_documentos
    GROUP BY status
)

SELECT visto, quanto FROM esperas
UNION ALL
SELECT visto, quanto FROM estados
ORDER BY visto
\watch 1
