-- 09 effects: the call to the outside cannot be rolled back. Who knows whether it happened?
-- @pt A chamada ao mundo externo não pode ser desfeita. Quem sabe se ela aconteceu?
--
-- Needs  sql/08_failures.sql
-- Run    psql -X -f sql/09_effects.sql          (again whenever you like: it upgrades the schema in place)
-- See    every document with the key of its operation, the same at every attempt, and the stage of its call.
-- @pt Precisa de sql/08_failures.sql. Pode rodar de novo quando quiser: ele atualiza o esquema no lugar.
-- @pt Veja cada documento com a chave da operação, a mesma em todas as tentativas, e a etapa da chamada.
--
-- Work inside the database shares the finishing transaction and needs none of this. A call to the outside does: its stage is
-- committed before and after, so that the next worker knows what to ask, and the receiver can tell a repeated key.
-- @pt O trabalho dentro do banco cabe na transação da conclusão e não precisa de nada disso. Uma chamada ao mundo externo precisa: a etapa
-- @pt é gravada com COMMIT antes e depois, para que o próximo worker saiba o que perguntar e o receptor reconheça uma chave repetida.

\set ON_ERROR_STOP on
\setenv PSQL_PAGER ''
SET client_min_messages = warning;
SET "lab.de" = '08';
SET "lab.para" = '09';
SET "lab.muda" = 'sim';
\ir require_state.sql

BEGIN;

COMMENT ON SCHEMA sql_semana_12 IS 'queue lab, state 09';

ALTER TABLE sql_semana_12.fila_documentos
ADD COLUMN IF NOT EXISTS chave_operacao TEXT,
ADD COLUMN IF NOT EXISTS etapa TEXT NOT NULL DEFAULT 'nao_chamado' CHECK (
    etapa IN ('nao_chamado', 'desconhecido', 'obtido', 'confirmando')
),
ADD COLUMN IF NOT EXISTS referencia_externa TEXT,
ADD COLUMN IF NOT EXISTS chamada_basta BOOLEAN NOT NULL DEFAULT FALSE;

-- Until now no call was recorded: every attempt that did not finish may have made one.
UPDATE sql_semana_12.fila_documentos
SET
    chave_operacao = inquilino || '/' || chave,
    etapa = CASE WHEN tentativas > 0 AND status <> 'concluido' THEN 'desconhecido' ELSE 'nao_chamado' END
WHERE chave_operacao IS NULL;

ALTER TABLE sql_semana_12.fila_documentos
ALTER COLUMN chave_operacao SET NOT NULL,
-- The form of the key: the slash ends the tenant's name in it, so that two tenants never meet in one.
DROP CONSTRAINT IF EXISTS fila_documentos_inquilino_check,
ADD CONSTRAINT fila_documentos_inquilino_check
CHECK (inquilino NOT LIKE '%/%'),
DROP CONSTRAINT IF EXISTS fila_documentos_status_check,
ADD CONSTRAINT fila_documentos_status_check
CHECK (status IN ('pendente', 'processando', 'concluido', 'falhou', 'conciliacao'));

-- Their signatures or results change.
DROP FUNCTION IF EXISTS sql_semana_12.reservar(TEXT, INTEGER, INTERVAL, TEXT);
DROP FUNCTION IF EXISTS sql_semana_12.concluir(BIGINT, BIGINT, TEXT);
DROP FUNCTION IF EXISTS sql_semana_12.recuperar(TEXT, TEXT, INTEGER, TEXT);
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
    max_tentativas INTEGER,
    etapa TEXT,
    referencia_externa TEXT,
    chamada_basta BOOLEAN
);

CREATE OR REPLACE FUNCTION sql_semana_12.enfileirar(
    p_chave TEXT,
    p_nome_arquivo TEXT,
    p_conteudo_xml XML,
    p_inquilino TEXT DEFAULT 'padrao',
    p_disponivel_em TIMESTAMPTZ DEFAULT NULL,
    p_max_tentativas INTEGER DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, novo BOOLEAN)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    -- Before the INSERT, which waits where another session is just writing the same key: if that one rolls back, criado_em is of
    -- before the wait. No lease depends on it; to read it afterwards would cost every document a second statement.
    v_agora TIMESTAMPTZ := sql_semana_12.relogio();
    v_resumo BYTEA;
    v_outro BYTEA;
    v_max_tentativas INTEGER := coalesce(p_max_tentativas, (SELECT tentativas FROM sql_semana_12.configuracao));
BEGIN
    PERFORM sql_semana_12.exigir_documento(p_chave, p_nome_arquivo, p_conteudo_xml, p_inquilino, p_disponivel_em, v_max_tentativas);
    v_resumo := sha256(convert_to(p_conteudo_xml::TEXT, 'UTF8'));
    LOOP
        INSERT INTO sql_semana_12.fila_documentos AS fila (
            chave, chave_operacao, nome_arquivo, conteudo_xml, conteudo_sha256, inquilino, criado_em, disponivel_em, max_tentativas
        )
        VALUES (
            p_chave,
            p_inquilino || '/' || p_chave,
            p_nome_arquivo,
            p_conteudo_xml,
            v_resumo,
            p_inquilino,
            v_agora,
            greatest(p_disponivel_em, v_agora),
            v_max_tentativas
        )
        ON CONFLICT (inquilino, chave) DO NOTHING
        RETURNING fila.documento_id INTO documento_id;
        novo := FOUND;
        EXIT WHEN novo;
        SELECT fila.documento_id, fila.conteudo_sha256
        INTO documento_id, v_outro
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.inquilino = p_inquilino AND fila.chave = p_chave;
        -- Not found: it was deleted in between, and its key is free.
        EXIT WHEN FOUND;
    END LOOP;
    IF v_outro <> v_resumo THEN
        RAISE EXCEPTION 'document %: under the key % another content came before', documento_id, p_chave
            USING ERRCODE = 'QL001', HINT = 'Use a new key for a new document. Nothing was changed.';
    END IF;
    RETURN NEXT;
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
    chave_operacao TEXT,
    etapa TEXT,
    referencia_externa TEXT,
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
            WHERE status = 'pendente' AND disponivel_em <= (SELECT sql_semana_12.relogio())
            ORDER BY disponivel_em, documento_id
            FOR NO KEY UPDATE SKIP LOCKED
            LIMIT p_lote
        ) AS escolhido;
    ELSE
        SELECT array_agg(inquilino), array_agg(documento_id), array_agg(versao + 1)
        INTO v_inquilinos, v_documentos, v_versoes
        FROM (
            SELECT inquilino, documento_id, versao
            FROM sql_semana_12.fila_documentos
            WHERE status = 'pendente' AND inquilino = p_inquilino AND disponivel_em <= (SELECT sql_semana_12.relogio())
            ORDER BY disponivel_em, documento_id
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
            ultimo_erro = NULL,
            categoria_erro = NULL
        FROM unnest(v_inquilinos, v_documentos, v_tokens) AS escolhido (inquilino, documento, token)
        WHERE
            fila.inquilino = escolhido.inquilino
            AND fila.documento_id = escolhido.documento
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        RETURNING fila.*
    )

    SELECT
        documento_id,
        inquilino,
        chave,
        token_reserva,
        versao,
        tentativas,
        reservado_ate,
        chave_operacao,
        etapa,
        referencia_externa,
        conteudo_xml
    FROM reservados
    ORDER BY disponivel_em, documento_id;
END
$$;

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
        fila.iniciado_em,
        fila.max_tentativas,
        fila.etapa,
        fila.referencia_externa,
        fila.chamada_basta
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
        -- A finished document has no error, even if its last attempt ended by a failure and its stage was as good as done.
        ultimo_erro = CASE WHEN p_para <> 'concluido' THEN sql_semana_12.resumir(p_erro) END,
        categoria_erro = CASE WHEN p_para <> 'concluido' THEN p_categoria END,
        disponivel_em = coalesce(p_disponivel_em, disponivel_em),
        etapa = p_posse.etapa,
        referencia_externa = p_posse.referencia_externa
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
        sql_semana_12.resumir(p_por_que),
        p_agora
    );
    RETURN p_posse.versao + 1;
END
$$;

-- Where an attempt that did not finish leaves its document. While there are attempts left it is taken up again, stage and all.
-- When there are none, the stage decides: never called is a failure, unknown is for people. So is obtained, unless the call was
-- the whole effect, for then it is done.
CREATE OR REPLACE FUNCTION sql_semana_12.destino(p_etapa TEXT, p_esgotado BOOLEAN, p_chamada_basta BOOLEAN)
RETURNS TEXT
LANGUAGE plpgsql
IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN CASE
        WHEN NOT p_esgotado THEN 'pendente'
        WHEN p_etapa = 'nao_chamado' THEN 'falhou'
        WHEN p_etapa = 'desconhecido' OR p_chamada_basta IS NOT TRUE THEN 'conciliacao'
        ELSE 'concluido'
    END;
END
$$;

-- The same reference may come again, another one may not: there is one result for each key of operation.
CREATE OR REPLACE FUNCTION sql_semana_12.exigir_referencia(p_referencia TEXT, p_referencia_externa TEXT DEFAULT NULL)
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_referencia IS NULL OR p_referencia !~ '[^[:space:]]' OR length(p_referencia) > 200 THEN
        RAISE EXCEPTION 'p_referencia must be the receiver''s reference of the result' USING ERRCODE = '22023';
    END IF;
    IF p_referencia <> p_referencia_externa THEN
        RAISE EXCEPTION 'p_referencia must be the reference that is known already, and no other' USING ERRCODE = '22023';
    END IF;
END
$$;

-- Written before the call (desconhecido), when its result is known (obtido, with the receiver's reference) and before the
-- outcome is confirmed (confirmando). Back to nao_chamado only where the receiver said that it knows nothing of the key.
CREATE OR REPLACE FUNCTION sql_semana_12.registrar_etapa(
    p_documento BIGINT,
    p_token BIGINT,
    p_etapa TEXT,
    p_referencia TEXT DEFAULT NULL,
    p_inquilino TEXT DEFAULT NULL,
    p_prazo INTERVAL DEFAULT '30 seconds',
    p_chamada_basta BOOLEAN DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, etapa TEXT, versao BIGINT, reservado_ate TIMESTAMPTZ)
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
    PERFORM sql_semana_12.exigir_pedido('etapa', 1, p_prazo);
    v_posse := sql_semana_12.travar(p_documento, p_token, p_inquilino);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    IF p_etapa IS NULL OR (v_posse.etapa, p_etapa) NOT IN (
        ('nao_chamado', 'nao_chamado'), -- sent again, since the answer was lost
        ('nao_chamado', 'desconhecido'),
        ('nao_chamado', 'obtido'), -- what said desconhecido was lost with its server
        ('desconhecido', 'desconhecido'),
        ('desconhecido', 'nao_chamado'),
        ('desconhecido', 'obtido'),
        ('obtido', 'obtido'),
        ('obtido', 'confirmando'),
        ('confirmando', 'confirmando')
    ) THEN
        RAISE EXCEPTION 'document %: from stage % it does not go to %', p_documento, v_posse.etapa, left(p_etapa, 50)
            USING ERRCODE = '22023';
    END IF;
    IF p_etapa = 'obtido' OR p_referencia IS NOT NULL THEN
        PERFORM sql_semana_12.exigir_referencia(p_referencia, v_posse.referencia_externa);
    END IF;
    IF p_etapa IN ('nao_chamado', 'desconhecido') AND p_referencia IS NOT NULL THEN
        RAISE EXCEPTION 'document %: at stage % there is no result, so p_referencia must be null', p_documento, p_etapa
            USING ERRCODE = '22023';
    END IF;
    v_agora := sql_semana_12.relogio();
    v_fim := v_posse.iniciado_em + sql_semana_12.tempo_maximo();
    IF p_etapa IN ('desconhecido', 'confirmando') AND v_agora >= v_fim THEN
        RETURN;
    END IF;
    INSERT INTO sql_semana_12.auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
    VALUES (
        v_posse.inquilino,
        p_documento,
        v_posse.versao + 1,
        v_posse.status,
        v_posse.status,
        p_token,
        v_posse.worker_id,
        'etapa ' || p_etapa,
        v_agora
    );
    RETURN QUERY
    UPDATE sql_semana_12.fila_documentos AS fila
    SET
        etapa = p_etapa,
        referencia_externa = coalesce(p_referencia, fila.referencia_externa),
        versao = fila.versao + 1,
        reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, v_fim)),
        chamada_basta = coalesce(p_chamada_basta, fila.chamada_basta)
    WHERE fila.inquilino = v_posse.inquilino AND fila.documento_id = v_posse.documento_id
    RETURNING fila.documento_id, fila.etapa, fila.versao, fila.reservado_ate;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.concluir(
    p_documento BIGINT, p_token BIGINT, p_referencia TEXT DEFAULT NULL, p_inquilino TEXT DEFAULT NULL
)
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
    IF p_referencia IS NOT NULL THEN
        PERFORM sql_semana_12.exigir_referencia(p_referencia, v_posse.referencia_externa);
    END IF;
    v_posse.referencia_externa := coalesce(p_referencia, v_posse.referencia_externa);
    IF v_posse.etapa = 'desconhecido' AND v_posse.referencia_externa IS NULL THEN
        RAISE EXCEPTION 'document %: the result of the call is unknown, so it cannot be finished', p_documento
            USING ERRCODE = '55000', HINT = 'Ask the receiver by chave_operacao, then finish with p_referencia, or use conciliar.';
    END IF;
    IF v_posse.etapa <> 'confirmando' AND v_posse.referencia_externa IS NOT NULL THEN
        v_posse.etapa := 'obtido'; -- the reference says so
    END IF;
    versao := sql_semana_12.mudar(v_posse, 'concluido', v_posse.worker_id, 'conclusao', NULL, sql_semana_12.relogio(), NULL, NULL::TIMESTAMPTZ);
    documento_id := p_documento;
    status := 'concluido';
    RETURN NEXT;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.exigir_lote(p_documentos BIGINT[], p_tokens BIGINT[], p_referencias TEXT[])
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_quantos INTEGER := cardinality(p_documentos);
    v_diferentes INTEGER := v_quantos;
BEGIN
    -- Each query takes as long as a small batch does, so what an expression can tell is told by one.
    IF v_quantos > 0 THEN
        v_diferentes := (SELECT count(DISTINCT documento) FROM unnest(p_documentos) AS documento);
    END IF;
    IF v_quantos IS NULL OR v_quantos > 1000 OR array_ndims(p_documentos) > 1 OR v_diferentes <> v_quantos THEN
        RAISE EXCEPTION 'p_documentos must be a list of at most 1000 documents, none of them null, each of them once'
            USING ERRCODE = '22023';
    END IF;
    IF p_tokens IS NULL OR array_ndims(p_tokens) > 1 OR cardinality(p_tokens) <> v_quantos THEN
        RAISE EXCEPTION 'p_tokens must be the token of each of p_documentos' USING ERRCODE = '22023';
    END IF;
    IF array_position(p_tokens, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'p_tokens must be the token of each of p_documentos' USING ERRCODE = '22023';
    END IF;
    IF p_referencias IS NOT NULL THEN
        IF array_ndims(p_referencias) <> 1 OR cardinality(p_referencias) <> v_quantos THEN
            RAISE EXCEPTION 'p_referencias must be the reference of each of p_documentos, or null' USING ERRCODE = '22023';
        END IF;
        PERFORM sql_semana_12.exigir_referencia(referencia, NULL)
        FROM unnest(p_referencias) AS referencia
        WHERE referencia IS NOT NULL;
    END IF;
END
$$;

-- What concluir does, for a batch in three statements whatever its size. The guard stands here as it stands in travar, word for
-- word: called for each document, it would cost what the batch saves. All are locked in the order of their keys before any is
-- changed, so that two batches never deadlock; one may wait for the other.
CREATE OR REPLACE FUNCTION sql_semana_12.concluir_lote(
    p_documentos BIGINT[], p_tokens BIGINT[], p_referencias TEXT[] DEFAULT NULL, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_inquilinos TEXT[];
    v_travados BIGINT[];
    v_versoes BIGINT[];
    v_tokens BIGINT[];
    v_workers TEXT[];
    v_referencias TEXT[];
    v_sem_resultado BIGINT;
    v_outro_resultado BIGINT;
    v_agora TIMESTAMPTZ;
BEGIN
    PERFORM sql_semana_12.exigir_lote(p_documentos, p_tokens, p_referencias);
    SELECT
        array_agg(inquilino),
        array_agg(documento_id),
        array_agg(versao + 1),
        array_agg(token_reserva),
        array_agg(worker_id),
        array_agg(coalesce(p_referencia, referencia_externa)),
        min(documento_id) FILTER (WHERE etapa = 'desconhecido' AND coalesce(p_referencia, referencia_externa) IS NULL),
        min(documento_id) FILTER (WHERE p_referencia <> referencia_externa)
    INTO v_inquilinos, v_travados, v_versoes, v_tokens, v_workers, v_referencias, v_sem_resultado, v_outro_resultado
    FROM (
        SELECT p_documento, p_token, p_referencia
        FROM unnest(p_documentos, p_tokens, p_referencias) AS lista (p_documento, p_token, p_referencia)
        ORDER BY p_documento
    ) AS pedido
    -- One look into the index for each document: joined, they would be compared each with each.
    CROSS JOIN LATERAL (
        SELECT fila.inquilino, fila.documento_id, fila.versao, fila.token_reserva, fila.worker_id, fila.etapa, fila.referencia_externa
        FROM sql_semana_12.fila_documentos AS fila
        WHERE
            fila.documento_id = p_documento
            AND fila.status = 'processando'
            AND fila.token_reserva = p_token
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        FOR NO KEY UPDATE
    ) AS travado;
    IF v_sem_resultado IS NOT NULL THEN
        RAISE EXCEPTION 'document %: the result of the call is unknown, so it cannot be finished', v_sem_resultado
            USING ERRCODE = '55000', HINT = 'Ask the receiver by chave_operacao, then finish with p_referencias, or use conciliar.';
    END IF;
    IF v_outro_resultado IS NOT NULL THEN
        RAISE EXCEPTION 'document %: its p_referencia must be the reference that is known already, and no other', v_outro_resultado
            USING ERRCODE = '22023';
    END IF;
    IF v_travados IS NULL THEN
        RETURN;
    END IF;
    v_agora := sql_semana_12.relogio();
    INSERT INTO sql_semana_12.auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
    SELECT inquilino, documento, versao, 'processando', 'concluido', token, worker, 'conclusao', v_agora
    FROM unnest(v_inquilinos, v_travados, v_versoes, v_tokens, v_workers)
        AS travado (inquilino, documento, versao, token, worker);
    RETURN QUERY
    UPDATE sql_semana_12.fila_documentos AS fila
    SET
        status = 'concluido',
        versao = fila.versao + 1,
        token_reserva = NULL,
        reservado_ate = NULL,
        concluido_em = v_agora,
        ultimo_erro = NULL,
        categoria_erro = NULL,
        -- A reference says that the result was obtained.
        etapa = CASE WHEN fila.etapa <> 'confirmando' AND travado.referencia IS NOT NULL THEN 'obtido' ELSE fila.etapa END,
        referencia_externa = travado.referencia
    FROM unnest(v_inquilinos, v_travados, v_referencias) AS travado (inquilino, documento, referencia)
    WHERE
        fila.inquilino = travado.inquilino
        AND fila.documento_id = travado.documento
        AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
    RETURNING fila.documento_id, fila.status, fila.versao;
END
$$;

-- What concluir_lote and then reservar do, in one call: no client stands between them, in whose absence locks would be held. In this
-- order only: one that claimed first would wait for others with what it has just locked in its hands.
CREATE OR REPLACE FUNCTION sql_semana_12.concluir_e_reservar(
    p_documentos BIGINT[],
    p_tokens BIGINT[],
    p_referencias TEXT[],
    p_worker TEXT,
    p_lote INTEGER DEFAULT 1,
    p_prazo INTERVAL DEFAULT '30 seconds',
    p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (
    resultado TEXT,
    documento_id BIGINT,
    inquilino TEXT,
    chave TEXT,
    token_reserva BIGINT,
    versao BIGINT,
    tentativas INTEGER,
    reservado_ate TIMESTAMPTZ,
    chave_operacao TEXT,
    etapa TEXT,
    referencia_externa TEXT,
    conteudo_xml XML
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    resultado := 'concluido';
    FOR documento_id, versao IN
        SELECT feito.documento_id, feito.versao FROM sql_semana_12.concluir_lote(p_documentos, p_tokens, p_referencias, p_inquilino) AS feito
    LOOP
        RETURN NEXT;
    END LOOP;
    RETURN QUERY
    SELECT
        'reservado'::TEXT,
        novo.documento_id,
        novo.inquilino,
        novo.chave,
        novo.token_reserva,
        novo.versao,
        novo.tentativas,
        novo.reservado_ate,
        novo.chave_operacao,
        novo.etapa,
        novo.referencia_externa,
        novo.conteudo_xml
    FROM sql_semana_12.reservar(p_worker, p_lote, p_prazo, p_inquilino) AS novo;
END
$$;

-- What renovar does, for all that a worker holds, in one round trip. It waits for no lock: one document that is held back costs the
-- others nothing, and is renewed at the next beat. The guard stands here as it stands in travar, word for word.
CREATE OR REPLACE FUNCTION sql_semana_12.renovar_lote(
    p_documentos BIGINT[], p_tokens BIGINT[], p_prazo INTERVAL DEFAULT '30 seconds', p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, resultado TEXT, reservado_ate TIMESTAMPTZ)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_inquilinos TEXT[];
    v_travados BIGINT[];
    v_agora TIMESTAMPTZ;
BEGIN
    PERFORM sql_semana_12.exigir_pedido('renovar', 1, p_prazo);
    PERFORM sql_semana_12.exigir_lote(p_documentos, p_tokens, NULL);
    SELECT coalesce(array_agg(inquilino), '{}'), coalesce(array_agg(documento_id), '{}')
    INTO v_inquilinos, v_travados
    FROM (
        SELECT p_documento, p_token
        FROM unnest(p_documentos, p_tokens) AS lista (p_documento, p_token)
        ORDER BY p_documento
    ) AS pedido
    CROSS JOIN LATERAL (
        SELECT fila.inquilino, fila.documento_id
        FROM sql_semana_12.fila_documentos AS fila
        WHERE
            fila.documento_id = p_documento
            AND fila.status = 'processando'
            AND fila.token_reserva = p_token
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS travado;
    v_agora := sql_semana_12.relogio();
    RETURN QUERY
    WITH renovado AS (
        UPDATE sql_semana_12.fila_documentos AS fila
        SET
            reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, fila.iniciado_em + sql_semana_12.tempo_maximo()))
        FROM unnest(v_inquilinos, v_travados) AS travado (inquilino, documento)
        WHERE
            fila.inquilino = travado.inquilino
            AND fila.documento_id = travado.documento
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
            AND v_agora < fila.iniciado_em + sql_semana_12.tempo_maximo()
        RETURNING fila.documento_id, fila.reservado_ate
    )

    SELECT
        pedido.documento,
        CASE
            WHEN renovado.documento_id IS NOT NULL THEN 'renovada'
            WHEN fila.documento_id IS NULL OR pedido.documento = ANY(v_travados) THEN 'recusada'
            ELSE 'ocupada'
        END,
        renovado.reservado_ate
    FROM unnest(p_documentos, p_tokens) AS pedido (documento, token)
    LEFT JOIN renovado ON pedido.documento = renovado.documento_id
    LEFT JOIN sql_semana_12.fila_documentos AS fila
        ON
            pedido.documento = fila.documento_id
            AND fila.status = 'processando'
            AND pedido.token = fila.token_reserva
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino);
END
$$;

-- What a worker claimed and did not begin, it gives back when it has to end. The audit tells both what was begun and how often it came
-- back: the row of the claim is the last one as long as no stage was recorded under it. So nothing is written for it beforehand.
--
-- A few times the attempt is not charged; after these it is, so that a document that is always given back still ends.
CREATE OR REPLACE FUNCTION sql_semana_12.devolver(p_documento BIGINT, p_token BIGINT, p_inquilino TEXT DEFAULT NULL)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT, tentativas INTEGER)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_posse sql_semana_12.posse;
    v_devolucoes BIGINT;
    v_comecado BOOLEAN;
BEGIN
    v_posse := sql_semana_12.travar(p_documento, p_token, p_inquilino);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    SELECT
        count(*) FILTER (WHERE auditoria.por_que = 'devolucao'),
        count(*) FILTER (WHERE auditoria.versao = v_posse.versao AND auditoria.por_que = 'reserva') = 0
    INTO v_devolucoes, v_comecado
    FROM sql_semana_12.auditoria
    WHERE auditoria.inquilino = v_posse.inquilino AND auditoria.documento_id = v_posse.documento_id;
    IF v_comecado THEN
        RAISE EXCEPTION 'document %: its attempt has begun, so it is not given back', p_documento
            USING ERRCODE = '55000', HINT = 'Bring it to an end: concluir, falhar or conciliar.';
    END IF;
    tentativas := v_posse.tentativas;
    IF v_devolucoes < 3 THEN
        tentativas := tentativas - 1;
        UPDATE sql_semana_12.fila_documentos AS fila
        SET tentativas = v_posse.tentativas - 1
        WHERE fila.inquilino = v_posse.inquilino AND fila.documento_id = v_posse.documento_id;
    END IF;
    documento_id := p_documento;
    status := sql_semana_12.destino(v_posse.etapa, tentativas >= v_posse.max_tentativas, v_posse.chamada_basta);
    versao := sql_semana_12.mudar(
        v_posse,
        status,
        v_posse.worker_id,
        'devolucao',
        CASE WHEN status <> 'pendente' THEN 'devolvido sem tentativa restante' END,
        sql_semana_12.relogio(),
        CASE WHEN status <> 'pendente' THEN 'sistemico' END
    );
    RETURN NEXT;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.falhar(
    p_documento BIGINT, p_token BIGINT, p_categoria TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT, disponivel_em TIMESTAMPTZ)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_posse sql_semana_12.posse;
    v_agora TIMESTAMPTZ;
BEGIN
    IF p_categoria IS NULL OR p_categoria NOT IN ('conteudo', 'sistemico', 'conexao', 'impasse') THEN
        RAISE EXCEPTION 'p_categoria must be conteudo, sistemico, conexao or impasse, not %', left(p_categoria, 50)
            USING ERRCODE = '22023';
    END IF;
    PERFORM sql_semana_12.exigir_motivo(p_motivo);
    v_posse := sql_semana_12.travar(p_documento, p_token, p_inquilino);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    v_agora := sql_semana_12.relogio();
    documento_id := p_documento;
    status := sql_semana_12.destino(v_posse.etapa, p_categoria = 'conteudo' OR v_posse.tentativas >= v_posse.max_tentativas, v_posse.chamada_basta);
    IF status = 'pendente' THEN
        disponivel_em := v_agora + sql_semana_12.recuo(v_posse.tentativas);
    END IF;
    versao := sql_semana_12.mudar(v_posse, status, v_posse.worker_id, 'falha ' || p_categoria, p_motivo, v_agora, p_categoria, disponivel_em);
    RETURN NEXT;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.recuperar(
    p_quem TEXT,
    p_motivo TEXT DEFAULT 'reserva vencida',
    p_limite INTEGER DEFAULT 100,
    p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (
    documento_id BIGINT, status TEXT, versao BIGINT, tentativas INTEGER, worker_anterior TEXT, etapa TEXT
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_agora TIMESTAMPTZ := sql_semana_12.relogio();
    v_posse sql_semana_12.posse;
    v_disponivel_em TIMESTAMPTZ;
BEGIN
    PERFORM sql_semana_12.exigir_quem(p_quem);
    PERFORM sql_semana_12.exigir_quantidade('p_limite', p_limite);
    PERFORM sql_semana_12.exigir_motivo(p_motivo);
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
            fila.max_tentativas,
            fila.etapa,
            fila.referencia_externa,
            fila.chamada_basta
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
        status := sql_semana_12.destino(v_posse.etapa, v_posse.tentativas >= v_posse.max_tentativas, v_posse.chamada_basta);
        v_disponivel_em := CASE WHEN status = 'pendente' THEN v_agora + sql_semana_12.recuo(v_posse.tentativas) END;
        versao := sql_semana_12.mudar(v_posse, status, p_quem, p_motivo, p_motivo, v_agora, 'queda', v_disponivel_em);
        tentativas := v_posse.tentativas;
        worker_anterior := v_posse.worker_id;
        etapa := v_posse.etapa;
        RETURN NEXT;
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.conciliar(
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
    versao := sql_semana_12.mudar(
        v_posse, 'conciliacao', v_posse.worker_id, 'conciliacao', p_motivo, sql_semana_12.relogio(), NULL, NULL::TIMESTAMPTZ
    );
    documento_id := p_documento;
    status := 'conciliacao';
    RETURN NEXT;
END
$$;

DROP VIEW IF EXISTS sql_semana_12.situacao;
CREATE VIEW sql_semana_12.situacao AS
WITH hora AS MATERIALIZED (
    SELECT sql_semana_12.relogio() AS agora
)

SELECT
    count(*) FILTER (WHERE fila.status = 'pendente' AND fila.disponivel_em <= hora.agora) AS aguardando,
    count(*) FILTER (WHERE fila.status = 'pendente' AND fila.disponivel_em > hora.agora) AS adiados,
    count(*) FILTER (WHERE fila.status = 'processando' AND fila.reservado_ate >= hora.agora) AS executando,
    count(*) FILTER (
        WHERE fila.status = 'processando' AND coalesce(fila.reservado_ate, '-infinity') < hora.agora
    ) AS orfaos,
    count(*) FILTER (WHERE fila.status = 'concluido') AS concluidos,
    count(*) FILTER (WHERE fila.status = 'falhou') AS falhos,
    count(*) FILTER (WHERE fila.status = 'conciliacao') AS em_conciliacao,
    max(hora.agora - fila.disponivel_em) FILTER (
        WHERE fila.status = 'pendente' AND fila.disponivel_em <= hora.agora
    ) AS maior_espera,
    max(hora.agora - fila.reservado_ate) FILTER (
        WHERE fila.status = 'processando' AND fila.reservado_ate < hora.agora
    ) AS maior_atraso
FROM sql_semana_12.fila_documentos AS fila
CROSS JOIN hora;

COMMENT ON FUNCTION sql_semana_12.enfileirar IS
'Brings a document into the queue, due at once or from p_disponivel_em on if that is later. novo is false if its tenant has the key '
'in the queue already, which is left as it is; with another content that is an error, QL001. One row, always.';
COMMENT ON FUNCTION sql_semana_12.reservar IS
'Claims up to p_lote due documents, the longest due first, for p_prazo, each under a new token, with its key of operation '
'and the stage an earlier attempt left. Zero rows: nothing is free now (locked, in work or not yet due is not free).';
COMMENT ON FUNCTION sql_semana_12.travar IS
'Locks the document and gives it back if it is in work under this token, else null; the guard of every outcome of one document.';
COMMENT ON FUNCTION sql_semana_12.mudar IS
'Changes the state of a locked document, and writes its row of auditoria.';
COMMENT ON FUNCTION sql_semana_12.destino IS
'The state in which an attempt that did not finish leaves its document, by stage, by whether attempts are left and by whether '
'the call was the whole effect.';
COMMENT ON FUNCTION sql_semana_12.exigir_referencia IS
'Refuses a reference that is null, blank or longer than 200 characters, or other than one known already, with 22023.';
COMMENT ON FUNCTION sql_semana_12.registrar_etapa IS
'Records where the attempt stands towards the outside world, renews its lease as renovar does, and gives it back: a call must end '
'before it. p_chamada_basta says that the call is the whole effect, so that its result is the end. Zero rows: the document is not in '
'work under this token, or its time is up; the worker must not call.';
COMMENT ON FUNCTION sql_semana_12.concluir IS
'Finishes a document in work under this token, with the receiver''s reference if it was called. Zero rows: it is not in work '
'under it, and nothing was changed.';
COMMENT ON FUNCTION sql_semana_12.exigir_lote IS
'Refuses a batch that makes no sense with 22023: more than 1000 documents, a null one, one twice, one without a token.';
COMMENT ON FUNCTION sql_semana_12.concluir_lote IS
'Finishes those of the documents that are in work, each under its token, with the receiver''s reference if it was called; in no '
'order. No row for one that is not in work under it, which is left as it is. Zero rows: nothing was changed.';

COMMENT ON FUNCTION sql_semana_12.concluir_e_reservar IS
'Finishes a batch as concluir_lote does and then claims the next as reservar does, both or neither. resultado tells the rows apart: '
'concluido, of which only documento_id and versao are told, and reservado. p_inquilino is of both. Zero rows: nothing was finished, '
'and nothing is free now.';
COMMENT ON FUNCTION sql_semana_12.renovar_lote IS
'Renews as renovar does, a row for each of p_documentos: renovada; recusada, the worker must stop; ocupada, another session has it '
'locked, and it is to be renewed at the next beat. It waits for no lock. Zero rows: p_documentos is empty.';
COMMENT ON FUNCTION sql_semana_12.devolver IS
'Gives back a document in work under this token whose attempt was not begun, due as before. Three times in its life its attempt is not '
'charged; then it is, and destino tells where it goes. 55000: a stage was recorded. Zero rows: it is not in work under it.';
COMMENT ON FUNCTION sql_semana_12.falhar IS
'Ends an attempt of a document in work under this token: to pendente, due after recuo, or, if attempts are used up or the '
'content is at fault, to the state that its stage demands (destino). Zero rows: it is not in work under it, and nothing was changed.';
COMMENT ON FUNCTION sql_semana_12.recuperar IS
'Takes up to p_limite late documents from their workers: to pendente, due after recuo, or after max_tentativas by their '
'stage (destino); their tokens are void. Zero rows: none is late and free.';
COMMENT ON FUNCTION sql_semana_12.conciliar IS
'Hands a document in work under this token to people: its result is unknown, and the receiver cannot be asked. Zero rows: it '
'is not in work under it.';
COMMENT ON VIEW sql_semana_12.situacao IS
'One row: how many documents are due, are put off, are in work, are orphaned (late), have ended, are for people; how long '
'the first due one waits and how late the latest is.';

COMMIT;

SELECT documento_id, chave_operacao, etapa
FROM sql_semana_12.fila_documentos
ORDER BY documento_id;
