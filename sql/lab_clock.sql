-- lab_clock: the lab's own clock, which can be moved, so that a lease ends without waiting. Never for production.
-- @pt O relógio do laboratório, que pode ser adiantado: um prazo vence sem espera. Nunca em produção.
--
-- Needs  sql/05_lease.sql
-- Run    psql -X -f sql/lab_clock.sql          (again whenever you like: it sets the clock right; and after sql/05_lease.sql)
-- See    relogio() now adds the interval kept in relogio_do_laboratorio, which only the owner may write:
--        UPDATE sql_semana_12.relogio_do_laboratorio SET adiantado = adiantado + INTERVAL '1 minute';
-- @pt Precisa de sql/05_lease.sql. Pode rodar de novo quando quiser (acerta o relógio), e depois de cada sql/05_lease.sql.
-- @pt Veja que relogio() agora soma o intervalo guardado em relogio_do_laboratorio, que só o dono pode alterar.

\set ON_ERROR_STOP on
SET client_min_messages = warning;
SET "lab.de" = '05';
SET "lab.para" = '99';
SET "lab.muda" = 'sim';
\ir require_state.sql

BEGIN;

DROP TABLE IF EXISTS sql_semana_12.relogio_do_laboratorio;
CREATE TABLE sql_semana_12.relogio_do_laboratorio (adiantado INTERVAL NOT NULL);
INSERT INTO sql_semana_12.relogio_do_laboratorio (adiantado) VALUES (INTERVAL '0');

CREATE OR REPLACE FUNCTION sql_semana_12.relogio()
RETURNS TIMESTAMPTZ
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN clock_timestamp() + (SELECT adiantado FROM sql_semana_12.relogio_do_laboratorio);
END
$$;

COMMIT;
