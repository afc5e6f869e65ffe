-- watch: for a third terminal. Who waits for whom, and how the queue stands; once a second until ^C.
-- @pt Para um terceiro terminal: quem espera por quem e como está a fila; a cada segundo, até ^C.
--
-- Needs  nothing: it waits for the queue, too.
-- Run    psql -X -f sql/watch.sql
-- See    lab/B (pid …) → lab/A while B waits for A, and the query that waits; and the queue as anybody else sees it: what is not
--        committed does not show.
-- @pt Não precisa de nada: espera também pela fila.
-- @pt Veja lab/B (pid …) → lab/A enquanto B espera por A, e a consulta que espera; e a fila como qualquer outra sessão a vê: sem COMMIT,
-- @pt nada aparece.

\set ON_ERROR_STOP on
\set QUIET on
\pset footer off
\pset pager off
SET client_min_messages = warning;
SET search_path = pg_catalog;

-- A look at the table would wait for a rebuild, and end with an error where there is no table; this says what it is.
CREATE FUNCTION pg_temp.documentos()
RETURNS TABLE (visto TEXT, quanto TEXT)
LANGUAGE plpgsql
SET lock_timeout = '200ms'
AS $$
DECLARE
    v_pt BOOLEAN := coalesce(current_setting('lab.lang', TRUE), '') LIKE 'pt%';
BEGIN
    IF to_regclass('sql_semana_12.fila_documentos') IS NULL THEN
        RETURN QUERY SELECT CASE WHEN v_pt THEN 'a fila ainda não foi criada' ELSE 'the queue is not there yet' END, '';
        RETURN;
    END IF;
    RETURN QUERY EXECUTE
        'SELECT status, count(*)::TEXT FROM sql_semana_12.fila_documentos GROUP BY status ORDER BY status';
EXCEPTION WHEN lock_not_available OR undefined_table OR invalid_schema_name THEN
    RETURN QUERY SELECT CASE WHEN v_pt THEN 'a fila está bloqueada por inteiro' ELSE 'the whole queue is locked' END, '';
END
$$;

SELECT
    espera.application_name || ' (pid ' || espera.pid || ') → ' || dono.application_name || ' (pid ' || dono.pid || ')' AS visto,
    round(extract(EPOCH FROM clock_timestamp() - espera.query_start))::TEXT || ' s' AS quanto,
    left(regexp_replace(espera.query, '\s+', ' ', 'g'), 28) AS consulta
FROM pg_stat_activity AS espera
INNER JOIN pg_stat_activity AS dono ON dono.pid = ANY(pg_blocking_pids(espera.pid))
WHERE espera.datname = current_database()
UNION ALL
SELECT
    visto,
    quanto,
    '' AS consulta
FROM pg_temp.documentos()
ORDER BY consulta DESC, visto ASC
\watch 1
