-- 10 operators: people step in. How do they, without taking a document from a worker that lives?
--
-- Needs  sql/09_effects.sql
-- Run    psql -X -f sql/10_operators.sql          (again whenever you like: it upgrades the schema in place)
-- See    examinar shows a document before anything is changed; four roles, each with what it needs and no more.
--
-- Every command names the version that its user has seen, and wants a reason. If the document has moved on meanwhile, the version
-- no longer matches, and nothing is changed.

\set ON_ERROR_STOP on
SET client_min_messages = warning;
SET lab.de = '09';
SET lab.para = '10';
\ir require_state.sql

BEGIN;

COMMENT ON SCHEMA sql_semana_12 IS 'queue lab, state 10';

ALTER TABLE sql_semana_12.fila_documentos
DROP CONSTRAINT IF EXISTS fila_documentos_status_check,
ADD CONSTRAINT fila_documentos_status_check
CHECK (status IN ('pendente', 'processando', 'concluido', 'falhou', 'conciliacao', 'pausado'));

CREATE OR REPLACE FUNCTION sql_semana_12.examinar(p_documento BIGINT, p_inquilino TEXT DEFAULT NULL)
RETURNS TABLE (
    documento_id BIGINT,
    inquilino TEXT,
    chave TEXT,
    status TEXT,
    versao BIGINT,
    tentativas INTEGER,
    max_tentativas INTEGER,
    worker_id TEXT,
    reservado_ate TIMESTAMPTZ,
    reserva_viva BOOLEAN,
    etapa TEXT,
    chave_operacao TEXT,
    referencia_externa TEXT,
    categoria_erro TEXT,
    ultimo_erro TEXT
)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_agora TIMESTAMPTZ := relogio();
BEGIN
    RETURN QUERY
    SELECT
        fila.documento_id,
        fila.inquilino,
        fila.chave,
        fila.status,
        fila.versao,
        fila.tentativas,
        fila.max_tentativas,
        fila.worker_id,
        fila.reservado_ate,
        fila.status = 'processando' AND fila.reservado_ate >= v_agora,
        fila.etapa,
        fila.chave_operacao,
        fila.referencia_externa,
        fila.categoria_erro,
        fila.ultimo_erro
    FROM fila_documentos AS fila
    WHERE fila.documento_id = p_documento AND fila.inquilino = coalesce(p_inquilino, fila.inquilino);
END
$$;

-- The guard of the operators' commands: the document is as they saw it, in a state the command is for, and in no live worker's
-- hands. Gives it back, locked; null if the guard does not let it pass.
CREATE OR REPLACE FUNCTION sql_semana_12.travar_para_operador(
    p_documento BIGINT, p_versao BIGINT, p_de TEXT[], p_quem TEXT, p_motivo TEXT, p_inquilino TEXT
)
RETURNS sql_semana_12.posse
LANGUAGE plpgsql
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_posse posse;
    v_reservado_ate TIMESTAMPTZ;
BEGIN
    IF coalesce(btrim(p_quem), '') = '' OR coalesce(btrim(p_motivo), '') = '' THEN
        RAISE EXCEPTION 'p_quem and p_motivo must say who does this, and why' USING ERRCODE = '22023';
    END IF;
    SELECT
        fila.documento_id,
        fila.inquilino,
        fila.status,
        fila.versao,
        fila.token_reserva,
        fila.worker_id,
        fila.tentativas,
        fila.iniciado_em,
        fila.max_tentativas,
        fila.etapa,
        fila.referencia_externa
    INTO v_posse
    FROM fila_documentos AS fila
    WHERE
        fila.documento_id = p_documento
        AND fila.versao = p_versao
        AND fila.status = ANY(p_de)
        AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
    FOR NO KEY UPDATE;
    IF v_posse.status = 'processando' THEN
        -- Read after the lock: a renewal may have moved it, and a renewal does not change versao.
        SELECT fila.reservado_ate INTO v_reservado_ate FROM fila_documentos AS fila WHERE fila.documento_id = p_documento;
        IF v_reservado_ate >= relogio() THEN
            RETURN NULL;
        END IF;
    END IF;
    RETURN v_posse;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.pausar(
    p_documento BIGINT, p_versao BIGINT, p_quem TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    v_posse posse := travar_para_operador(
        p_documento, p_versao, '{pendente,processando}', p_quem, p_motivo, p_inquilino
    );
BEGIN
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    versao := mudar(v_posse, 'pausado', p_quem, p_motivo, p_motivo, relogio());
    documento_id := p_documento;
    status := 'pausado';
    RETURN NEXT;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.retomar(
    p_documento BIGINT, p_versao BIGINT, p_quem TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    v_posse posse := travar_para_operador(p_documento, p_versao, '{pausado}', p_quem, p_motivo, p_inquilino);
    v_agora TIMESTAMPTZ := relogio();
BEGIN
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    -- The pause may have come in the last attempt: then its stage decides, as at any end of attempts.
    status := destino(v_posse.etapa, v_posse.tentativas >= v_posse.max_tentativas);
    versao := mudar(v_posse, status, p_quem, p_motivo, NULL, v_agora, NULL, v_agora);
    documento_id := p_documento;
    RETURN NEXT;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.confirmar(
    p_documento BIGINT,
    p_versao BIGINT,
    p_referencia TEXT,
    p_quem TEXT,
    p_motivo TEXT,
    p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    v_posse posse := travar_para_operador(p_documento, p_versao, '{conciliacao}', p_quem, p_motivo, p_inquilino);
BEGIN
    IF coalesce(btrim(p_referencia), '') = '' THEN
        RAISE EXCEPTION 'p_referencia must be the receiver''s reference of the result' USING ERRCODE = '22023';
    END IF;
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    v_posse.referencia_externa := p_referencia;
    versao := mudar(v_posse, 'concluido', p_quem, p_motivo, NULL, relogio());
    documento_id := p_documento;
    status := 'concluido';
    RETURN NEXT;
END
$$;

-- More attempts, never fewer behind it: tentativas, token and versao go on from where they are, and the stage and the key of
-- operation stay, so that the next worker asks the receiver before it calls.
CREATE OR REPLACE FUNCTION sql_semana_12.reenfileirar(
    p_documento BIGINT,
    p_versao BIGINT,
    p_quem TEXT,
    p_motivo TEXT,
    p_mais_tentativas INTEGER DEFAULT 1,
    p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    v_posse posse := travar_para_operador(p_documento, p_versao, '{falhou,conciliacao}', p_quem, p_motivo, p_inquilino);
    v_agora TIMESTAMPTZ := relogio();
BEGIN
    IF p_mais_tentativas IS NULL OR p_mais_tentativas NOT BETWEEN 1 AND 100 THEN
        RAISE EXCEPTION 'p_mais_tentativas must be from 1 to 100, not %', p_mais_tentativas USING ERRCODE = '22023';
    END IF;
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    UPDATE fila_documentos AS fila
    SET max_tentativas = greatest(fila.max_tentativas, fila.tentativas + p_mais_tentativas)
    WHERE fila.documento_id = p_documento;
    versao := mudar(v_posse, 'pendente', p_quem, p_motivo, NULL, v_agora, NULL, v_agora);
    documento_id := p_documento;
    status := 'pendente';
    RETURN NEXT;
END
$$;

DROP VIEW IF EXISTS sql_semana_12.situacao;
CREATE VIEW sql_semana_12.situacao AS
SELECT
    count(*) FILTER (WHERE fila.status = 'pendente' AND fila.disponivel_em <= hora.agora) AS aguardando,
    count(*) FILTER (WHERE fila.status = 'pendente' AND fila.disponivel_em > hora.agora) AS adiados,
    count(*) FILTER (WHERE fila.status = 'processando' AND fila.reservado_ate >= hora.agora) AS executando,
    count(*) FILTER (WHERE fila.status = 'processando' AND fila.reservado_ate < hora.agora) AS orfaos,
    count(*) FILTER (WHERE fila.status = 'pausado') AS pausados,
    count(*) FILTER (WHERE fila.status = 'conciliacao') AS em_conciliacao,
    count(*) FILTER (WHERE fila.status = 'falhou') AS falhos,
    count(*) FILTER (WHERE fila.status = 'concluido') AS concluidos,
    max(hora.agora - fila.disponivel_em) FILTER (
        WHERE fila.status = 'pendente' AND fila.disponivel_em <= hora.agora
    ) AS maior_espera,
    max(hora.agora - fila.reservado_ate) FILTER (
        WHERE fila.status = 'processando' AND fila.reservado_ate < hora.agora
    ) AS maior_atraso
FROM sql_semana_12.fila_documentos AS fila
CROSS JOIN (SELECT sql_semana_12.relogio() AS agora OFFSET 0) AS hora;

-- Functions are executable by everyone until that is revoked; the schema's closed door was all that kept others out.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sql_semana_12 FROM PUBLIC;

-- Four roles, for all databases of the server, marked by their comments. Whoever may not create roles gets all but them.
DO $roles$
DECLARE
    v_papel TEXT;
    v_pode BOOLEAN;
BEGIN
    SELECT rolcreaterole OR rolsuper INTO v_pode FROM pg_roles WHERE rolname = current_user;
    FOREACH v_papel IN ARRAY ARRAY[
        'sql_semana_12_worker', 'sql_semana_12_reader', 'sql_semana_12_operator', 'sql_semana_12_application'
    ] LOOP
        IF to_regrole(v_papel) IS NULL AND v_pode THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', v_papel);
            EXECUTE format('COMMENT ON ROLE %I IS %L', v_papel, 'queue lab');
        ELSIF to_regrole(v_papel) IS NULL THEN
            RAISE WARNING 'role % may not create roles, so % was left out', current_user, v_papel
                USING HINT = format('Ask for: ALTER ROLE %I CREATEROLE;', current_user);
        ELSIF shobj_description(to_regrole(v_papel), 'pg_authid') IS DISTINCT FROM 'queue lab' THEN
            RAISE EXCEPTION 'a role % that this lab did not make is here; it was left untouched', v_papel
                USING HINT = format('ALTER ROLE %I RENAME TO %I;', v_papel, v_papel || '_mine');
        END IF;
    END LOOP;
    IF to_regrole('sql_semana_12_worker') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA sql_semana_12 TO sql_semana_12_worker;
        GRANT EXECUTE ON FUNCTION
            sql_semana_12.reservar,
            sql_semana_12.renovar,
            sql_semana_12.registrar_etapa,
            sql_semana_12.concluir,
            sql_semana_12.falhar,
            sql_semana_12.conciliar,
            sql_semana_12.recuperar
        TO sql_semana_12_worker;
    END IF;
    IF to_regrole('sql_semana_12_reader') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA sql_semana_12 TO sql_semana_12_reader;
        GRANT SELECT ON sql_semana_12.fila_documentos, sql_semana_12.auditoria, sql_semana_12.situacao
        TO sql_semana_12_reader;
        -- A view reads tables as its owner, but calls functions as its reader.
        GRANT EXECUTE ON FUNCTION sql_semana_12.relogio TO sql_semana_12_reader;
    END IF;
    IF to_regrole('sql_semana_12_operator') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA sql_semana_12 TO sql_semana_12_operator;
        GRANT SELECT ON sql_semana_12.auditoria, sql_semana_12.situacao TO sql_semana_12_operator;
        GRANT EXECUTE ON FUNCTION
            sql_semana_12.relogio,
            sql_semana_12.examinar,
            sql_semana_12.pausar,
            sql_semana_12.retomar,
            sql_semana_12.confirmar,
            sql_semana_12.reenfileirar,
            sql_semana_12.recuperar
        TO sql_semana_12_operator;
    END IF;
    IF to_regrole('sql_semana_12_application') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA sql_semana_12 TO sql_semana_12_application;
        GRANT EXECUTE ON FUNCTION sql_semana_12.enfileirar TO sql_semana_12_application;
    END IF;
END
$roles$;

COMMENT ON FUNCTION sql_semana_12.examinar IS
'A document as an operator should see it before changing anything, without its payload. Zero rows: there is none.';
COMMENT ON FUNCTION sql_semana_12.travar_para_operador IS
'Locks the document and gives it back if it is as the operator saw it and in no live worker''s hands, else null; the one guard of the operators.';
COMMENT ON FUNCTION sql_semana_12.pausar IS
'Takes a waiting or orphaned document out of work; an orphan''s token is void. Zero rows: it has moved on since p_versao, or a worker holds a live lease on it.';
COMMENT ON FUNCTION sql_semana_12.retomar IS
'Gives a paused document back to the queue, or ends it by its stage if its attempts are used up. Zero rows: it has moved on since p_versao, or is not paused.';
COMMENT ON FUNCTION sql_semana_12.confirmar IS
'Finishes a document in conciliacao with the result that people found at the receiver. Zero rows: it has moved on since p_versao, or is not there.';
COMMENT ON FUNCTION sql_semana_12.reenfileirar IS
'Gives an ended or unreconciled document more attempts. Zero rows: it has moved on since p_versao, or is in no such state.';
COMMENT ON VIEW sql_semana_12.situacao IS
'One row: how many documents are due, are put off, are in work, are orphaned (late), are paused, are for people, have failed, are finished; how long the first due one waits and how late the latest is.';

COMMIT;

SELECT documento_id, status, versao, reserva_viva
FROM sql_semana_12.examinar(1);
