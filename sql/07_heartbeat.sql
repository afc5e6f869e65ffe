-- 07 heartbeat: long work outlives its lease. How does it keep the document without keeping it for ever?
-- @pt Um trabalho longo passa do prazo. Como manter o documento sem ficar com ele para sempre?
--
-- Needs  sql/06_token.sql
-- Run    psql -X -f sql/07_heartbeat.sql          (again whenever you like: it upgrades the schema in place)
-- See    renovar now stops at a maximum run time, however often it is called.
-- @pt Precisa de sql/06_token.sql. Pode rodar de novo quando quiser: ele atualiza o esquema no lugar.
-- @pt Veja que renovar agora para num tempo máximo, por mais que seja chamada.

\set ON_ERROR_STOP on
\setenv PSQL_PAGER ''
SET client_min_messages = warning;
SET "lab.de" = '06';
SET "lab.para" = '07';
SET "lab.muda" = 'sim';
\ir require_state.sql

BEGIN;

COMMENT ON SCHEMA sql_semana_12 IS 'queue lab, state 07';

-- What an installation sets for itself, in one row: change it by UPDATE. A script that is run again leaves it as it is.
CREATE TABLE IF NOT EXISTS sql_semana_12.configuracao (
    unica BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (unica),
    duracao_maxima INTERVAL NOT NULL DEFAULT '15 minutes' CHECK (duracao_maxima > INTERVAL '0')
);
INSERT INTO sql_semana_12.configuracao DEFAULT VALUES ON CONFLICT DO NOTHING;

CREATE OR REPLACE FUNCTION sql_semana_12.tempo_maximo()
RETURNS INTERVAL
LANGUAGE plpgsql
STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_tempo INTERVAL;
BEGIN
    SELECT duracao_maxima INTO STRICT v_tempo FROM sql_semana_12.configuracao;
    RETURN v_tempo;
END
$$;

-- A lease cannot be longer than an attempt may run.
CREATE OR REPLACE FUNCTION sql_semana_12.exigir_pedido(p_worker TEXT, p_lote INTEGER, p_prazo INTERVAL)
RETURNS VOID
LANGUAGE plpgsql
STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_worker IS NULL OR p_worker !~ '[^[:space:]]' OR length(p_worker) > 200 THEN
        RAISE EXCEPTION 'p_worker must name the worker, in at most 200 characters' USING ERRCODE = '22023';
    END IF;
    PERFORM sql_semana_12.exigir_quantidade('p_lote', p_lote);
    -- Days and months are compared as 24 hours and 30 days, but added by the calendar: '1 month -30 days 1 second' may be a day.
    IF
        p_prazo IS NULL
        OR p_prazo <= INTERVAL '0'
        OR p_prazo > sql_semana_12.tempo_maximo()
        OR (extract(YEAR FROM p_prazo), extract(MONTH FROM p_prazo), extract(DAY FROM p_prazo)) <> (0, 0, 0)
    THEN
        RAISE EXCEPTION 'p_prazo must be hours, minutes and seconds, more than nothing and at most %, not %', sql_semana_12.tempo_maximo(), p_prazo
            USING ERRCODE = '22023';
    END IF;
END
$$;

-- reservado_ate is in no index, so where its page has room a renewal stays there and touches no index (a heap-only update).
CREATE OR REPLACE FUNCTION sql_semana_12.renovar(
    p_documento BIGINT, p_token BIGINT, p_prazo INTERVAL DEFAULT '30 seconds', p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, reservado_ate TIMESTAMPTZ)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_posse sql_semana_12.posse;
    v_agora TIMESTAMPTZ;
    v_fim TIMESTAMPTZ;
BEGIN
    PERFORM sql_semana_12.exigir_pedido('renovar', 1, p_prazo);
    v_posse := sql_semana_12.travar(p_documento, p_token, p_inquilino);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    v_agora := sql_semana_12.relogio();
    v_fim := v_posse.iniciado_em + sql_semana_12.tempo_maximo();
    IF v_agora >= v_fim THEN
        RETURN;
    END IF;
    RETURN QUERY
    UPDATE sql_semana_12.fila_documentos AS fila
    SET reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, v_fim))
    WHERE fila.inquilino = v_posse.inquilino AND fila.documento_id = v_posse.documento_id
    RETURNING fila.documento_id, fila.reservado_ate;
END
$$;

COMMENT ON TABLE sql_semana_12.configuracao IS
'What this installation sets for itself: one row. Its owner changes it by UPDATE, and running an installation again leaves it.';
COMMENT ON COLUMN sql_semana_12.configuracao.duracao_maxima IS
'How long one attempt may run, renewals included. No lease is longer.';
COMMENT ON FUNCTION sql_semana_12.tempo_maximo IS
'How long one attempt may run, renewals included.';
COMMENT ON FUNCTION sql_semana_12.renovar IS
'Moves the deadline of a document in work under this token to p_prazo from now, never to an earlier one, at most to tempo_maximo() '
'from its claim. Zero rows: the worker must stop.';

COMMIT;

SELECT sql_semana_12.tempo_maximo();
