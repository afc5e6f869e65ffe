-- 05 lease: after the claim's commit no lock is left. How does anyone see that a worker is late?
-- @pt Depois do COMMIT da reserva não sobra bloqueio. Como se vê que um worker está atrasado?
--
-- Needs  sql/01_queue.sql
-- Run    psql -X -f sql/05_lease.sql          (again whenever you like: it upgrades the schema in place)
-- See    the functions reservar, concluir, falhar and recuperar; the view situacao counts four documents waiting.
-- @pt Precisa de sql/01_queue.sql. Pode rodar de novo quando quiser: ele atualiza o esquema no lugar.
-- @pt Veja as funções reservar, concluir, falhar e recuperar; a visão situacao conta quatro documentos à espera.
--
-- A claim now writes a deadline, reservado_ate. It is no lock and stops no session: it tells the queue's readers that a worker is
-- late, so that recovery can be a policy (who, when, how many, why) and not "everything back to pendente".
-- @pt A reserva agora grava um prazo, reservado_ate. Ele não é bloqueio e não segura ninguém: diz a quem lê a fila que um worker está
-- @pt atrasado, para que a recuperação seja uma regra (quem, quando, quantos, por quê) e não "tudo de volta a pendente".

\set ON_ERROR_STOP on
\setenv PSQL_PAGER ''
SET client_min_messages = warning;
SET "lab.de" = '01';
SET "lab.para" = '05';
SET "lab.muda" = 'sim';
\ir require_state.sql

BEGIN;

COMMENT ON SCHEMA sql_semana_12 IS 'queue lab, state 05';

ALTER TABLE sql_semana_12.fila_documentos
ADD COLUMN IF NOT EXISTS inquilino TEXT NOT NULL DEFAULT 'padrao',
ADD COLUMN IF NOT EXISTS reservado_ate TIMESTAMPTZ;

-- Every key begins with the tenant: what one calls a document is no other's affair, and their rows can be kept apart.
ALTER TABLE sql_semana_12.fila_documentos
DROP CONSTRAINT IF EXISTS fila_documentos_pkey,
ADD CONSTRAINT fila_documentos_pkey PRIMARY KEY (inquilino, documento_id),
DROP CONSTRAINT IF EXISTS fila_documentos_chave_key,
DROP CONSTRAINT IF EXISTS fila_documentos_inquilino_chave_key,
ADD CONSTRAINT fila_documentos_inquilino_chave_key UNIQUE (inquilino, chave);

-- For recovery. The deadline itself stays unindexed, so that a renewal can be a heap-only update.
CREATE INDEX IF NOT EXISTS fila_documentos_processando_idx
ON sql_semana_12.fila_documentos (documento_id)
WHERE status = 'processando';

-- Functions are executable by everyone unless that is revoked; without the schema only the owner reaches them (lesson 10).
REVOKE ALL ON SCHEMA sql_semana_12 FROM public;

CREATE OR REPLACE FUNCTION sql_semana_12.relogio()
RETURNS TIMESTAMPTZ
LANGUAGE plpgsql
STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN clock_timestamp();
END
$$;

-- A document in work under the claim of lesson 04 gets a deadline too, a generous one: else it could never be called late.
UPDATE sql_semana_12.fila_documentos
SET reservado_ate = sql_semana_12.relogio() + INTERVAL '1 hour'
WHERE status = 'processando' AND reservado_ate IS NULL;

CREATE OR REPLACE FUNCTION sql_semana_12.exigir_motivo(p_motivo TEXT)
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_motivo IS NULL OR p_motivo !~ '[^[:space:]]' THEN
        RAISE EXCEPTION 'p_motivo must give the reason' USING ERRCODE = '22023';
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.exigir_quantidade(p_nome TEXT, p_quantidade INTEGER)
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_quantidade IS NULL OR p_quantidade NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION '% must be from 1 to 1000, not %', p_nome, p_quantidade USING ERRCODE = '22023';
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.exigir_pedido(p_worker TEXT, p_lote INTEGER, p_prazo INTERVAL)
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
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
        OR p_prazo > INTERVAL '24 hours'
        OR (extract(YEAR FROM p_prazo), extract(MONTH FROM p_prazo), extract(DAY FROM p_prazo)) <> (0, 0, 0)
    THEN
        RAISE EXCEPTION 'p_prazo must be hours, minutes and seconds, more than nothing and at most 24 hours, not %', p_prazo
            USING ERRCODE = '22023';
    END IF;
END
$$;

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
BEGIN
    PERFORM sql_semana_12.exigir_pedido(p_worker, p_lote, p_prazo);
    IF p_inquilino IS NULL THEN
        SELECT array_agg(inquilino), array_agg(documento_id)
        INTO v_inquilinos, v_documentos
        FROM (
            SELECT inquilino, documento_id
            FROM sql_semana_12.fila_documentos
            WHERE status = 'pendente'
            ORDER BY criado_em, documento_id
            FOR NO KEY UPDATE SKIP LOCKED
            LIMIT p_lote
        ) AS escolhido;
    ELSE
        SELECT array_agg(inquilino), array_agg(documento_id)
        INTO v_inquilinos, v_documentos
        FROM (
            SELECT inquilino, documento_id
            FROM sql_semana_12.fila_documentos
            WHERE status = 'pendente' AND inquilino = p_inquilino
            ORDER BY criado_em, documento_id
            FOR NO KEY UPDATE SKIP LOCKED
            LIMIT p_lote
        ) AS escolhido;
    END IF;
    v_agora := sql_semana_12.relogio();
    RETURN QUERY
    WITH reservados AS (
        UPDATE sql_semana_12.fila_documentos AS fila
        SET
            status = 'processando',
            tentativas = fila.tentativas + 1,
            worker_id = p_worker,
            reservado_ate = v_agora + p_prazo,
            iniciado_em = v_agora,
            concluido_em = NULL,
            ultimo_erro = NULL
        FROM unnest(v_inquilinos, v_documentos) AS escolhido (inquilino, documento)
        WHERE
            fila.inquilino = escolhido.inquilino
            AND fila.documento_id = escolhido.documento
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        RETURNING fila.*
    )

    SELECT documento_id, inquilino, chave, tentativas, reservado_ate, conteudo_xml
    FROM reservados
    ORDER BY criado_em, documento_id;
END
$$;

-- The guard of this lesson: id, state and worker. Lesson 06 shows what gets past it.
CREATE OR REPLACE FUNCTION sql_semana_12.travar(p_documento BIGINT, p_worker TEXT, p_inquilino TEXT)
RETURNS TEXT
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_inquilino TEXT;
BEGIN
    SELECT inquilino
    INTO v_inquilino
    FROM sql_semana_12.fila_documentos
    WHERE
        documento_id = p_documento
        AND status = 'processando'
        AND worker_id = p_worker
        AND inquilino = coalesce(p_inquilino, inquilino)
    FOR NO KEY UPDATE;
    RETURN v_inquilino;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.concluir(p_documento BIGINT, p_worker TEXT, p_inquilino TEXT DEFAULT NULL)
RETURNS TABLE (documento_id BIGINT, status TEXT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_inquilino TEXT := sql_semana_12.travar(p_documento, p_worker, p_inquilino);
    v_agora TIMESTAMPTZ;
BEGIN
    IF v_inquilino IS NULL THEN
        RETURN;
    END IF;
    v_agora := sql_semana_12.relogio();
    RETURN QUERY
    UPDATE sql_semana_12.fila_documentos AS fila
    SET status = 'concluido', reservado_ate = NULL, concluido_em = v_agora, ultimo_erro = NULL
    WHERE fila.inquilino = v_inquilino AND fila.documento_id = p_documento
    RETURNING fila.documento_id, fila.status;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.falhar(
    p_documento BIGINT, p_worker TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_inquilino TEXT;
    v_agora TIMESTAMPTZ;
BEGIN
    PERFORM sql_semana_12.exigir_motivo(p_motivo);
    v_inquilino := sql_semana_12.travar(p_documento, p_worker, p_inquilino);
    IF v_inquilino IS NULL THEN
        RETURN;
    END IF;
    v_agora := sql_semana_12.relogio();
    RETURN QUERY
    UPDATE sql_semana_12.fila_documentos AS fila
    SET status = 'falhou', reservado_ate = NULL, concluido_em = v_agora, ultimo_erro = left(p_motivo, 200)
    WHERE fila.inquilino = v_inquilino AND fila.documento_id = p_documento
    RETURNING fila.documento_id, fila.status;
END
$$;

-- Only what is late, only so many at a time, only so many attempts, and with a reason. No deadline promises nothing.
CREATE OR REPLACE FUNCTION sql_semana_12.recuperar(
    p_motivo TEXT DEFAULT 'reserva vencida',
    p_limite INTEGER DEFAULT 100,
    p_max_tentativas INTEGER DEFAULT 5,
    p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, tentativas INTEGER, worker_anterior TEXT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_agora TIMESTAMPTZ := sql_semana_12.relogio();
    v_vencido RECORD;
BEGIN
    PERFORM sql_semana_12.exigir_motivo(p_motivo);
    PERFORM sql_semana_12.exigir_quantidade('p_limite', p_limite);
    PERFORM sql_semana_12.exigir_quantidade('p_max_tentativas', p_max_tentativas);
    FOR v_vencido IN
        SELECT
            fila.documento_id,
            fila.inquilino,
            fila.worker_id,
            fila.tentativas >= p_max_tentativas AS esgotado
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
        RETURN QUERY
        UPDATE sql_semana_12.fila_documentos AS fila
        SET
            status = CASE WHEN v_vencido.esgotado THEN 'falhou' ELSE 'pendente' END,
            worker_id = CASE WHEN v_vencido.esgotado THEN fila.worker_id END,
            reservado_ate = NULL,
            concluido_em = CASE WHEN v_vencido.esgotado THEN v_agora END,
            ultimo_erro = left(p_motivo, 200)
        WHERE fila.inquilino = v_vencido.inquilino AND fila.documento_id = v_vencido.documento_id
        RETURNING fila.documento_id, fila.status, fila.tentativas, v_vencido.worker_id;
    END LOOP;
END
$$;

CREATE OR REPLACE VIEW sql_semana_12.situacao AS
WITH hora AS MATERIALIZED (
    SELECT sql_semana_12.relogio() AS agora
)

SELECT
    count(*) FILTER (WHERE fila.status = 'pendente') AS aguardando,
    count(*) FILTER (WHERE fila.status = 'processando' AND fila.reservado_ate >= hora.agora) AS executando,
    count(*) FILTER (
        WHERE fila.status = 'processando' AND coalesce(fila.reservado_ate, '-infinity') < hora.agora
    ) AS orfaos,
    count(*) FILTER (WHERE fila.status = 'concluido') AS concluidos,
    count(*) FILTER (WHERE fila.status = 'falhou') AS falhos,
    max(hora.agora - fila.reservado_ate) FILTER (
        WHERE fila.status = 'processando' AND fila.reservado_ate < hora.agora
    ) AS maior_atraso
FROM sql_semana_12.fila_documentos AS fila
CROSS JOIN hora;

COMMENT ON FUNCTION sql_semana_12.relogio IS
'The one clock of the protocol, the database''s. A function reads it once, after the lock wherever it may have waited for one.';
COMMENT ON FUNCTION sql_semana_12.exigir_motivo IS
'Refuses a reason that is null or blank with 22023.';
COMMENT ON FUNCTION sql_semana_12.exigir_quantidade IS
'Refuses a quantity that is not from 1 to 1000 with 22023; p_nome is its name in the message.';
COMMENT ON FUNCTION sql_semana_12.exigir_pedido IS
'Refuses a request that makes no sense with 22023, before anything is changed.';
COMMENT ON FUNCTION sql_semana_12.reservar IS
'Claims up to p_lote free documents, oldest first, for p_prazo. Zero rows: nothing is free now (locked or in work is not free).';
COMMENT ON FUNCTION sql_semana_12.travar IS
'Locks the document if it is in work by this worker; the guard of every outcome of one document.';
COMMENT ON FUNCTION sql_semana_12.concluir IS
'Finishes a document in work by this worker. Zero rows: it is not, and nothing was changed.';
COMMENT ON FUNCTION sql_semana_12.falhar IS
'Fails a document in work by this worker. Zero rows: it is not, and nothing was changed.';
COMMENT ON FUNCTION sql_semana_12.recuperar IS
'Puts up to p_limite documents whose deadline has passed back to pendente, or to falhou after so many attempts. '
'Zero rows: none is late and free.';
COMMENT ON VIEW sql_semana_12.situacao IS
'One row: how many documents wait, are in work, are orphaned (late), have ended; and how late the latest is.';

COMMIT;

SELECT aguardando, executando, orfaos, concluidos, falhos
FROM sql_semana_12.situacao;
