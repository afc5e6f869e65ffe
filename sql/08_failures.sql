-- 08 failures: what is worth trying again, when, and how often?
--
-- Needs  sql/07_heartbeat.sql
-- Run    psql -X -f sql/08_failures.sql          (again whenever you like: it upgrades the schema in place)
-- See    every document with the moment from which it is due; the functions enfileirar and falhar by category.
--
-- A failure of the content ends the document at once: repeating it unchanged would not help. Everything else comes back later,
-- after a delay that doubles, is capped and is never the same for all; and never more often than max_tentativas.

\set ON_ERROR_STOP on
SET client_min_messages = warning;
SET lab.de = '07';
SET lab.para = '08';
\ir require_state.sql

BEGIN;

COMMENT ON SCHEMA sql_semana_12 IS 'queue lab, state 08';

ALTER TABLE sql_semana_12.fila_documentos
ADD COLUMN IF NOT EXISTS disponivel_em TIMESTAMPTZ,
ADD COLUMN IF NOT EXISTS max_tentativas INTEGER NOT NULL DEFAULT 5 CHECK (max_tentativas > 0),
ADD COLUMN IF NOT EXISTS categoria_erro TEXT
    CHECK (categoria_erro IN ('conteudo', 'sistemico', 'conexao', 'impasse', 'queda'));

UPDATE sql_semana_12.fila_documentos
SET disponivel_em = criado_em
WHERE disponivel_em IS NULL;

-- No default: whoever brings a document says from when on it is due (enfileirar reads the clock).
ALTER TABLE sql_semana_12.fila_documentos ALTER COLUMN disponivel_em SET NOT NULL;

DROP INDEX IF EXISTS sql_semana_12.fila_documentos_pendentes_idx;
CREATE INDEX IF NOT EXISTS fila_documentos_devidos_idx
ON sql_semana_12.fila_documentos (disponivel_em, documento_id)
WHERE status = 'pendente';
CREATE INDEX IF NOT EXISTS fila_documentos_devidos_inquilino_idx
ON sql_semana_12.fila_documentos (inquilino, disponivel_em, documento_id)
WHERE status = 'pendente';

-- Their signatures change.
DROP FUNCTION IF EXISTS sql_semana_12.falhar(BIGINT, BIGINT, TEXT, TEXT);
DROP FUNCTION IF EXISTS sql_semana_12.recuperar(TEXT, TEXT, INTEGER, INTEGER, TEXT);
DROP TYPE IF EXISTS sql_semana_12.posse CASCADE;
CREATE TYPE sql_semana_12.posse AS (
    documento_id BIGINT,
    inquilino TEXT,
    status TEXT,
    versao BIGINT,
    token_reserva BIGINT,
    worker_id TEXT,
    tentativas INTEGER,
    iniciado_em TIMESTAMPTZ,
    max_tentativas INTEGER
);

-- A reason as it may be kept and logged: one short line, without elements of a document and without credentials.
CREATE OR REPLACE FUNCTION sql_semana_12.resumir(p_motivo TEXT)
RETURNS TEXT
LANGUAGE plpgsql
IMMUTABLE
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    -- Cut first, so that a reason of a megabyte costs nothing.
    v_motivo TEXT := left(p_motivo, 2000);
BEGIN
    -- From the first angle bracket to the last one: what stands between two elements is the document's as well.
    v_motivo := regexp_replace(v_motivo, '<.*(>|$)', '<...>');
    v_motivo := regexp_replace(v_motivo, '(password|passwd|senha|token|secret)\s*[=:]\s*\S+', '\1=...', 'gi');
    v_motivo := regexp_replace(v_motivo, '://[^/@\s]*@', '://...@', 'g');
    RETURN left(btrim(regexp_replace(v_motivo, '\s+', ' ', 'g')), 200);
END
$$;

-- The delay before the next attempt: doubled each time up to five minutes, then a random share of the upper half, so that what
-- failed together does not come back together.
CREATE OR REPLACE FUNCTION sql_semana_12.recuo(p_tentativas INTEGER)
RETURNS INTERVAL
LANGUAGE plpgsql
VOLATILE
SET search_path = sql_semana_12, pg_temp
AS $$
BEGIN
    RETURN least(INTERVAL '1 second' * 2 ^ least(p_tentativas - 1, 20), INTERVAL '5 minutes') * (0.5 + random() / 2);
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.enfileirar(
    p_chave TEXT,
    p_nome_arquivo TEXT,
    p_conteudo_xml XML,
    p_inquilino TEXT DEFAULT 'padrao',
    p_disponivel_em TIMESTAMPTZ DEFAULT NULL,
    p_max_tentativas INTEGER DEFAULT 5
)
RETURNS TABLE (documento_id BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_agora TIMESTAMPTZ := relogio();
BEGIN
    RETURN QUERY
    INSERT INTO fila_documentos AS fila (
        chave, nome_arquivo, conteudo_xml, inquilino, criado_em, disponivel_em, max_tentativas
    )
    VALUES (
        p_chave, p_nome_arquivo, p_conteudo_xml, p_inquilino, v_agora, coalesce(p_disponivel_em, v_agora), p_max_tentativas
    )
    ON CONFLICT DO NOTHING
    RETURNING fila.documento_id;
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
    token_reserva BIGINT,
    versao BIGINT,
    tentativas INTEGER,
    reservado_ate TIMESTAMPTZ,
    conteudo_xml XML
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_agora TIMESTAMPTZ;
    v_escolhidos BIGINT[];
BEGIN
    PERFORM exigir_pedido(p_worker, p_lote, p_prazo);
    IF p_inquilino IS NULL THEN
        v_escolhidos := ARRAY(
            SELECT documento_id
            FROM fila_documentos
            WHERE status = 'pendente' AND disponivel_em <= (SELECT relogio())
            ORDER BY disponivel_em, documento_id
            FOR UPDATE SKIP LOCKED
            LIMIT p_lote
        );
    ELSE
        v_escolhidos := ARRAY(
            SELECT documento_id
            FROM fila_documentos
            WHERE status = 'pendente' AND inquilino = p_inquilino AND disponivel_em <= (SELECT relogio())
            ORDER BY disponivel_em, documento_id
            FOR UPDATE SKIP LOCKED
            LIMIT p_lote
        );
    END IF;
    IF cardinality(v_escolhidos) = 0 THEN
        RETURN;
    END IF;
    v_agora := relogio();
    UPDATE fila_documentos AS fila
    SET
        status = 'processando',
        tentativas = fila.tentativas + 1,
        versao = fila.versao + 1,
        token_reserva = nextval('token_reserva_seq'),
        worker_id = p_worker,
        reservado_ate = v_agora + p_prazo,
        iniciado_em = v_agora,
        concluido_em = NULL,
        ultimo_erro = NULL,
        categoria_erro = NULL
    WHERE fila.documento_id = ANY(v_escolhidos);
    INSERT INTO auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
    SELECT
        fila.inquilino, fila.documento_id, fila.versao, 'pendente', 'processando', fila.token_reserva, p_worker, 'reserva', v_agora
    FROM fila_documentos AS fila
    WHERE fila.documento_id = ANY(v_escolhidos);
    RETURN QUERY
    SELECT
        fila.documento_id,
        fila.inquilino,
        fila.chave,
        fila.token_reserva,
        fila.versao,
        fila.tentativas,
        fila.reservado_ate,
        fila.conteudo_xml
    FROM fila_documentos AS fila
    WHERE fila.documento_id = ANY(v_escolhidos)
    ORDER BY fila.disponivel_em, fila.documento_id;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.travar(p_documento BIGINT, p_token BIGINT, p_inquilino TEXT)
RETURNS sql_semana_12.posse
LANGUAGE plpgsql
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_posse posse;
BEGIN
    SELECT
        fila.documento_id,
        fila.inquilino,
        fila.status,
        fila.versao,
        fila.token_reserva,
        fila.worker_id,
        fila.tentativas,
        fila.iniciado_em,
        fila.max_tentativas
    INTO v_posse
    FROM fila_documentos AS fila
    WHERE
        fila.documento_id = p_documento
        AND fila.status = 'processando'
        AND fila.token_reserva = p_token
        AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
    FOR NO KEY UPDATE;
    RETURN v_posse;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.mudar(
    p_posse sql_semana_12.posse,
    p_para TEXT,
    p_quem TEXT,
    p_por_que TEXT,
    p_erro TEXT,
    p_agora TIMESTAMPTZ,
    p_categoria TEXT DEFAULT NULL,
    p_disponivel_em TIMESTAMPTZ DEFAULT NULL
)
RETURNS BIGINT
LANGUAGE plpgsql
SET search_path = sql_semana_12, pg_temp
AS $$
BEGIN
    UPDATE fila_documentos
    SET
        status = p_para,
        versao = p_posse.versao + 1,
        token_reserva = NULL, -- void, so that nobody may act under it any more
        worker_id = CASE WHEN p_para <> 'pendente' THEN p_posse.worker_id END,
        reservado_ate = NULL,
        concluido_em = CASE WHEN p_para IN ('concluido', 'falhou') THEN p_agora END,
        ultimo_erro = resumir(p_erro),
        categoria_erro = p_categoria,
        disponivel_em = coalesce(p_disponivel_em, disponivel_em)
    WHERE documento_id = p_posse.documento_id;
    INSERT INTO auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
    VALUES (
        p_posse.inquilino,
        p_posse.documento_id,
        p_posse.versao + 1,
        p_posse.status,
        p_para,
        p_posse.token_reserva,
        p_quem,
        resumir(p_por_que),
        p_agora
    );
    RETURN p_posse.versao + 1;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.falhar(
    p_documento BIGINT, p_token BIGINT, p_categoria TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT, disponivel_em TIMESTAMPTZ)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    v_posse posse;
    v_agora TIMESTAMPTZ;
BEGIN
    IF p_categoria IS NULL OR p_categoria NOT IN ('conteudo', 'sistemico', 'conexao', 'impasse') THEN
        RAISE EXCEPTION 'p_categoria must be conteudo, sistemico, conexao or impasse, not %', p_categoria
            USING ERRCODE = '22023';
    END IF;
    v_posse := travar(p_documento, p_token, p_inquilino);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    v_agora := relogio();
    documento_id := p_documento;
    IF p_categoria = 'conteudo' OR v_posse.tentativas >= v_posse.max_tentativas THEN
        status := 'falhou';
    ELSE
        status := 'pendente';
        disponivel_em := v_agora + recuo(v_posse.tentativas);
    END IF;
    versao := mudar(v_posse, status, v_posse.worker_id, 'falha ' || p_categoria, p_motivo, v_agora, p_categoria, disponivel_em);
    RETURN NEXT;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.recuperar(
    p_quem TEXT,
    p_motivo TEXT DEFAULT 'reserva vencida',
    p_limite INTEGER DEFAULT 100,
    p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT, tentativas INTEGER, worker_anterior TEXT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_agora TIMESTAMPTZ := relogio();
    v_posse posse;
BEGIN
    PERFORM exigir_pedido(p_quem, p_limite, '1 second');
    FOR v_posse IN
        SELECT
            fila.documento_id,
            fila.inquilino,
            fila.status,
            fila.versao,
            fila.token_reserva,
            fila.worker_id,
            fila.tentativas,
            fila.iniciado_em,
            fila.max_tentativas
        FROM fila_documentos AS fila
        WHERE
            fila.status = 'processando'
            AND fila.reservado_ate < v_agora
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        ORDER BY fila.documento_id
        LIMIT p_limite
        FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        documento_id := v_posse.documento_id;
        status := CASE WHEN v_posse.tentativas < v_posse.max_tentativas THEN 'pendente' ELSE 'falhou' END;
        versao := mudar(
            v_posse, status, p_quem, p_motivo, p_motivo, v_agora, 'queda', v_agora + recuo(v_posse.tentativas)
        );
        tentativas := v_posse.tentativas;
        worker_anterior := v_posse.worker_id;
        RETURN NEXT;
    END LOOP;
END
$$;

DROP VIEW IF EXISTS sql_semana_12.situacao;
CREATE VIEW sql_semana_12.situacao AS
SELECT
    count(*) FILTER (WHERE fila.status = 'pendente' AND fila.disponivel_em <= hora.agora) AS aguardando,
    count(*) FILTER (WHERE fila.status = 'pendente' AND fila.disponivel_em > hora.agora) AS adiados,
    count(*) FILTER (WHERE fila.status = 'processando' AND fila.reservado_ate >= hora.agora) AS executando,
    count(*) FILTER (WHERE fila.status = 'processando' AND fila.reservado_ate < hora.agora) AS orfaos,
    count(*) FILTER (WHERE fila.status = 'concluido') AS concluidos,
    count(*) FILTER (WHERE fila.status = 'falhou') AS falhos,
    max(hora.agora - fila.disponivel_em) FILTER (
        WHERE fila.status = 'pendente' AND fila.disponivel_em <= hora.agora
    ) AS maior_espera,
    max(hora.agora - fila.reservado_ate) FILTER (
        WHERE fila.status = 'processando' AND fila.reservado_ate < hora.agora
    ) AS maior_atraso
FROM sql_semana_12.fila_documentos AS fila
CROSS JOIN (SELECT sql_semana_12.relogio() AS agora OFFSET 0) AS hora;

COMMENT ON FUNCTION sql_semana_12.enfileirar IS
'Brings a document into the queue, due at once or from p_disponivel_em on. Zero rows: its key is in the queue already.';
COMMENT ON FUNCTION sql_semana_12.reservar IS
'Claims up to p_lote due documents, the longest due first, for p_prazo, each under a new token. Zero rows: nothing is free now (locked, in work or not yet due is not free).';
COMMENT ON FUNCTION sql_semana_12.travar IS
'Locks the document and gives it back if it is in work under this token, else null; the one guard of all outcomes.';
COMMENT ON FUNCTION sql_semana_12.mudar IS
'Changes the state of a locked document, and writes its row of auditoria.';
COMMENT ON FUNCTION sql_semana_12.resumir IS
'A reason cut to one line of 200 characters, without elements of a document and without credentials.';
COMMENT ON FUNCTION sql_semana_12.recuo IS
'The delay before the attempt after this one: doubled each time, at most five minutes, the upper half of it random.';
COMMENT ON FUNCTION sql_semana_12.falhar IS
'Ends an attempt of a document in work under this token: conteudo, or the last attempt, to falhou; else pendente, due after recuo. Zero rows: it is not in work under it, and nothing was changed.';
COMMENT ON FUNCTION sql_semana_12.recuperar IS
'Puts up to p_limite late documents back to pendente, due after recuo, or to falhou after max_tentativas; their tokens are void. Zero rows: none is late.';
COMMENT ON VIEW sql_semana_12.situacao IS
'One row: how many documents are due, are put off, are in work, are orphaned (late), have ended; how long the first due one waits and how late the latest is.';

COMMIT;

SELECT documento_id, status, tentativas, max_tentativas, disponivel_em
FROM sql_semana_12.fila_documentos
ORDER BY disponivel_em, documento_id;
