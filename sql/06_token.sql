-- 06 token: a worker that comes back late must change nothing. What tells it from the one that took over?
-- @pt Um worker que volta atrasado não pode mudar nada. O que o distingue de quem assumiu?
--
-- Needs  sql/05_lease.sql
-- Run    psql -X -f sql/06_token.sql          (again whenever you like: it upgrades the schema in place)
-- See    every claim mints a token that is never used again; every change of state leaves a row in auditoria.
-- @pt Precisa de sql/05_lease.sql. Pode rodar de novo quando quiser: ele atualiza o esquema no lugar.
-- @pt Veja que cada reserva cria um token que nunca se repete; cada mudança de estado deixa uma linha em auditoria.
--
-- Outcomes name the token instead of the worker. The worker that took over got a new one, so the old one matches no row.
-- @pt As conclusões citam o token, e não o worker. Quem assumiu recebeu um token novo, e o antigo não acha mais nenhuma linha.

\set ON_ERROR_STOP on
\setenv PSQL_PAGER ''
SET client_min_messages = warning;
SET "lab.de" = '05';
SET "lab.para" = '06';
SET "lab.muda" = 'sim';
\ir require_state.sql

BEGIN;

COMMENT ON SCHEMA sql_semana_12 IS 'queue lab, state 06';

ALTER TABLE sql_semana_12.fila_documentos
ADD COLUMN IF NOT EXISTS token_reserva BIGINT,
ADD COLUMN IF NOT EXISTS versao BIGINT NOT NULL DEFAULT 0;

CREATE TABLE IF NOT EXISTS sql_semana_12.auditoria (
    inquilino TEXT NOT NULL,
    documento_id BIGINT NOT NULL,
    versao BIGINT NOT NULL,
    de TEXT NOT NULL,
    para TEXT NOT NULL,
    token_reserva BIGINT,
    quem TEXT NOT NULL,
    por_que TEXT NOT NULL,
    quando TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (inquilino, documento_id, versao)
);

-- Their signatures or results change.
DROP FUNCTION IF EXISTS sql_semana_12.reservar(TEXT, INTEGER, INTERVAL, TEXT);
DROP FUNCTION IF EXISTS sql_semana_12.travar(BIGINT, TEXT, TEXT);
DROP FUNCTION IF EXISTS sql_semana_12.concluir(BIGINT, TEXT, TEXT);
DROP FUNCTION IF EXISTS sql_semana_12.falhar(BIGINT, TEXT, TEXT, TEXT);
DROP FUNCTION IF EXISTS sql_semana_12.recuperar(TEXT, INTEGER, INTEGER, TEXT);

-- A document as a function holds it once it is locked: without the payload, which would be read at every hand-over.
DROP TYPE IF EXISTS sql_semana_12.posse CASCADE;
CREATE TYPE sql_semana_12.posse AS (
    documento_id BIGINT,
    inquilino TEXT,
    status TEXT,
    versao BIGINT,
    token_reserva BIGINT,
    worker_id TEXT,
    tentativas INTEGER,
    iniciado_em TIMESTAMPTZ
);

CREATE OR REPLACE FUNCTION sql_semana_12.exigir_quem(p_quem TEXT)
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_quem IS NULL OR p_quem !~ '[^[:space:]]' OR length(p_quem) > 200 THEN
        RAISE EXCEPTION 'p_quem must say who does this, in at most 200 characters' USING ERRCODE = '22023';
    END IF;
END
$$;

-- The one place that mints tokens. 63 random bits of a UUID (it has 122): they do not come again, not even from a standby that was
-- promoted, a backup that was restored or a crash that lost a commit. A sequence would hand its numbers out once more.
CREATE OR REPLACE FUNCTION sql_semana_12.novos_tokens(p_quantos INTEGER)
RETURNS BIGINT[]
LANGUAGE plpgsql
VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN ARRAY(
        -- The first 12 digits and the last 4: those between them hold the UUID's version and variant.
        SELECT ('x' || left(digitos, 12) || right(digitos, 4))::BIT(64)::BIGINT & 9223372036854775807
        FROM (SELECT replace(gen_random_uuid()::TEXT, '-', '') AS digitos FROM generate_series(1, p_quantos)) AS sorteio
    );
END
$$;

-- The one place that opens an attempt.
CREATE OR REPLACE FUNCTION sql_semana_12.reservar(
    p_worker TEXT,
    p_lote INTEGER DEFAULT 1,
    p_prazo INTERVAL DEFAULT '30 seconds',
    p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (
    documento_id BIGINT,
    inquilino TEXT,
    chave TEXT,
    token_reserva BIGINT,
    versao BIGINT,
    tentativas INTEGER,
    reservado_ate TIMESTAMPTZ,
    conteudo_xml XML
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_agora TIMESTAMPTZ;
    v_inquilinos TEXT[];
    v_documentos BIGINT[];
    v_versoes BIGINT[];
    v_tokens BIGINT[];
BEGIN
    PERFORM sql_semana_12.exigir_pedido(p_worker, p_lote, p_prazo);
    IF p_inquilino IS NULL THEN
        SELECT array_agg(inquilino), array_agg(documento_id), array_agg(versao + 1)
        INTO v_inquilinos, v_documentos, v_versoes
        FROM (
            SELECT inquilino, documento_id, versao
            FROM sql_semana_12.fila_documentos
            WHERE status = 'pendente'
            ORDER BY criado_em, documento_id
            FOR NO KEY UPDATE SKIP LOCKED
            LIMIT p_lote
        ) AS escolhido;
    ELSE
        SELECT array_agg(inquilino), array_agg(documento_id), array_agg(versao + 1)
        INTO v_inquilinos, v_documentos, v_versoes
        FROM (
            SELECT inquilino, documento_id, versao
            FROM sql_semana_12.fila_documentos
            WHERE status = 'pendente' AND inquilino = p_inquilino
            ORDER BY criado_em, documento_id
            FOR NO KEY UPDATE SKIP LOCKED
            LIMIT p_lote
        ) AS escolhido;
    END IF;
    IF v_documentos IS NULL THEN
        RETURN;
    END IF;
    v_agora := sql_semana_12.relogio();
    -- Before the UPDATE, in which nothing is volatile.
    v_tokens := sql_semana_12.novos_tokens(cardinality(v_documentos));
    INSERT INTO sql_semana_12.auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
    SELECT inquilino, documento, versao, 'pendente', 'processando', token, p_worker, 'reserva', v_agora
    FROM unnest(v_inquilinos, v_documentos, v_versoes, v_tokens) AS escolhido (inquilino, documento, versao, token);
    RETURN QUERY
    WITH reservados AS (
        UPDATE sql_semana_12.fila_documentos AS fila
        SET
            status = 'processando',
            tentativas = fila.tentativas + 1,
            versao = fila.versao + 1,
            token_reserva = escolhido.token,
            worker_id = p_worker,
            reservado_ate = v_agora + p_prazo,
            iniciado_em = v_agora,
            concluido_em = NULL,
            ultimo_erro = NULL
        FROM unnest(v_inquilinos, v_documentos, v_tokens) AS escolhido (inquilino, documento, token)
        WHERE
            fila.inquilino = escolhido.inquilino
            AND fila.documento_id = escolhido.documento
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        RETURNING fila.*
    )

    SELECT documento_id, inquilino, chave, token_reserva, versao, tentativas, reservado_ate, conteudo_xml
    FROM reservados
    ORDER BY criado_em, documento_id;
END
$$;

-- The one guard: the document is in work under this token. The worker's name and the number of the attempt prove nothing.
-- Gives the document back, locked; null if the guard does not let it pass.
CREATE OR REPLACE FUNCTION sql_semana_12.travar(p_documento BIGINT, p_token BIGINT, p_inquilino TEXT)
RETURNS sql_semana_12.posse
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_posse sql_semana_12.posse;
BEGIN
    SELECT
        fila.documento_id,
        fila.inquilino,
        fila.status,
        fila.versao,
        fila.token_reserva,
        fila.worker_id,
        fila.tentativas,
        fila.iniciado_em
    INTO v_posse
    FROM sql_semana_12.fila_documentos AS fila
    WHERE
        fila.documento_id = p_documento
        AND fila.status = 'processando'
        AND fila.token_reserva = p_token
        AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
    FOR NO KEY UPDATE;
    RETURN v_posse;
END
$$;

-- Where a document leaves a state other than by a claim or in a batch: versao grows by one, with one row in auditoria.
CREATE OR REPLACE FUNCTION sql_semana_12.mudar(
    p_posse sql_semana_12.posse,
    p_para TEXT,
    p_quem TEXT,
    p_por_que TEXT,
    p_erro TEXT,
    p_agora TIMESTAMPTZ
)
RETURNS BIGINT
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE sql_semana_12.fila_documentos
    SET
        status = p_para,
        versao = p_posse.versao + 1,
        token_reserva = NULL, -- void: no write passes under it any more
        worker_id = CASE WHEN p_para <> 'pendente' THEN p_posse.worker_id END,
        reservado_ate = NULL,
        concluido_em = CASE WHEN p_para IN ('concluido', 'falhou', 'cancelado') THEN p_agora END,
        ultimo_erro = left(p_erro, 200)
    WHERE inquilino = p_posse.inquilino AND documento_id = p_posse.documento_id;
    INSERT INTO sql_semana_12.auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
    VALUES (
        p_posse.inquilino,
        p_posse.documento_id,
        p_posse.versao + 1,
        p_posse.status,
        p_para,
        p_posse.token_reserva,
        p_quem,
        left(p_por_que, 200),
        p_agora
    );
    RETURN p_posse.versao + 1;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.concluir(p_documento BIGINT, p_token BIGINT, p_inquilino TEXT DEFAULT NULL)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_posse sql_semana_12.posse := sql_semana_12.travar(p_documento, p_token, p_inquilino);
BEGIN
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    versao := sql_semana_12.mudar(v_posse, 'concluido', v_posse.worker_id, 'conclusao', NULL, sql_semana_12.relogio());
    documento_id := p_documento;
    status := 'concluido';
    RETURN NEXT;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.falhar(
    p_documento BIGINT, p_token BIGINT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_posse sql_semana_12.posse;
BEGIN
    PERFORM sql_semana_12.exigir_motivo(p_motivo);
    v_posse := sql_semana_12.travar(p_documento, p_token, p_inquilino);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    versao := sql_semana_12.mudar(v_posse, 'falhou', v_posse.worker_id, 'falha', p_motivo, sql_semana_12.relogio());
    documento_id := p_documento;
    status := 'falhou';
    RETURN NEXT;
END
$$;

-- A renewal is no change of state: neither versao nor token_reserva moves, and auditoria gets no row.
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
BEGIN
    PERFORM sql_semana_12.exigir_pedido('renovar', 1, p_prazo);
    v_posse := sql_semana_12.travar(p_documento, p_token, p_inquilino);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    v_agora := sql_semana_12.relogio();
    RETURN QUERY
    UPDATE sql_semana_12.fila_documentos AS fila
    SET reservado_ate = greatest(fila.reservado_ate, v_agora + p_prazo)
    WHERE fila.inquilino = v_posse.inquilino AND fila.documento_id = v_posse.documento_id
    RETURNING fila.documento_id, fila.reservado_ate;
END
$$;

-- Only what is late, only so many at a time, only so many attempts, under a name, for a reason. No deadline promises nothing.
CREATE OR REPLACE FUNCTION sql_semana_12.recuperar(
    p_quem TEXT,
    p_motivo TEXT DEFAULT 'reserva vencida',
    p_limite INTEGER DEFAULT 100,
    p_max_tentativas INTEGER DEFAULT 5,
    p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT, tentativas INTEGER, worker_anterior TEXT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_agora TIMESTAMPTZ := sql_semana_12.relogio();
    v_posse sql_semana_12.posse;
BEGIN
    PERFORM sql_semana_12.exigir_quem(p_quem);
    PERFORM sql_semana_12.exigir_quantidade('p_limite', p_limite);
    PERFORM sql_semana_12.exigir_motivo(p_motivo);
    PERFORM sql_semana_12.exigir_quantidade('p_max_tentativas', p_max_tentativas);
    FOR v_posse IN
        SELECT
            fila.documento_id,
            fila.inquilino,
            fila.status,
            fila.versao,
            fila.token_reserva,
            fila.worker_id,
            fila.tentativas,
            fila.iniciado_em
        FROM sql_semana_12.fila_documentos AS fila
        WHERE
            fila.status = 'processando'
            AND coalesce(fila.reservado_ate, '-infinity') < v_agora
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        ORDER BY fila.documento_id
        LIMIT p_limite
        FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        v_agora := sql_semana_12.relogio(); -- again: the look may have waited for a lock on the table
        documento_id := v_posse.documento_id;
        status := CASE WHEN v_posse.tentativas < p_max_tentativas THEN 'pendente' ELSE 'falhou' END;
        versao := sql_semana_12.mudar(v_posse, status, p_quem, p_motivo, p_motivo, v_agora);
        tentativas := v_posse.tentativas;
        worker_anterior := v_posse.worker_id;
        RETURN NEXT;
    END LOOP;
END
$$;

COMMENT ON TABLE sql_semana_12.auditoria IS
'Every change of state: from, to, version, token, who, why, when. versao of a document grows by exactly one with every row.';
COMMENT ON FUNCTION sql_semana_12.exigir_quem IS
'Refuses a name that is null, blank or longer than 200 characters with 22023.';
COMMENT ON FUNCTION sql_semana_12.novos_tokens IS
'So many new tokens: random and positive.';
COMMENT ON FUNCTION sql_semana_12.reservar IS
'Claims up to p_lote free documents, oldest first, for p_prazo, each under a new token. Zero rows: nothing is free now.';
COMMENT ON FUNCTION sql_semana_12.travar IS
'Locks the document and gives it back if it is in work under this token, else null; the guard of every outcome of one document.';
COMMENT ON FUNCTION sql_semana_12.mudar IS
'Changes the state of a locked document, and writes its row of auditoria.';
COMMENT ON FUNCTION sql_semana_12.concluir IS
'Finishes a document in work under this token. Zero rows: it is not (another took over, or it has ended), and nothing was changed.';
COMMENT ON FUNCTION sql_semana_12.falhar IS
'Fails a document in work under this token. Zero rows: it is not (another took over, or it has ended), and nothing was changed.';
COMMENT ON FUNCTION sql_semana_12.renovar IS
'Moves the deadline of a document in work under this token, even if it has passed. Zero rows: it is not, and the worker must stop.';
COMMENT ON FUNCTION sql_semana_12.recuperar IS
'Puts up to p_limite late documents back to pendente, or to falhou after so many attempts; their tokens are void. '
'Zero rows: none is late and free.';

COMMIT;

SELECT documento_id, token_reserva, versao, tentativas
FROM sql_semana_12.fila_documentos
ORDER BY documento_id;
