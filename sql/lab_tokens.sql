-- lab_tokens: tokens that count 1, 2, 3 …, so that you can type them. Never for production: a restored backup hands them out again.
-- @pt Tokens que contam 1, 2, 3 …, para você poder digitá-los. Nunca em produção: um backup restaurado os repete.
--
-- Needs  sql/06_token.sql
-- Run    psql -X -f sql/lab_tokens.sql          (again whenever you like: it counts on; and after sql/06_token.sql)
-- See    novos_tokens() now draws from the sequence token_reserva_seq, in the order in which documents are claimed.
-- @pt Precisa de sql/06_token.sql. Pode rodar de novo quando quiser (continua a contagem), e depois de cada sql/06_token.sql.
-- @pt Veja que novos_tokens() agora tira números da sequência token_reserva_seq, na ordem em que os documentos são reservados.

\set ON_ERROR_STOP on
SET client_min_messages = warning;
SET "lab.de" = '06';
SET "lab.para" = '99';
\ir require_state.sql

BEGIN;

CREATE SEQUENCE IF NOT EXISTS sql_semana_12.token_reserva_seq AS BIGINT NO CYCLE;

CREATE OR REPLACE FUNCTION sql_semana_12.novos_tokens(p_quantos INTEGER)
RETURNS BIGINT[]
LANGUAGE plpgsql
VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN ARRAY(SELECT nextval('sql_semana_12.token_reserva_seq') FROM generate_series(1, p_quantos));
END
$$;

COMMIT;
