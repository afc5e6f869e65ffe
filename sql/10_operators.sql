-- 10 operators: people step in. How do they, without taking a document from a worker that lives?
-- @pt Pessoas intervêm. Como, sem tirar o documento de um worker que está vivo?
--
-- Needs  sql/09_effects.sql
-- Run    psql -X -f sql/10_operators.sql          (again whenever you like: it upgrades the schema in place)
-- See    examinar shows a document before anything is changed; four roles, each with what it needs and no more.
--        Roles belong to the whole server: sql/teardown.sql removes them. Without the right to create roles you get all but them.
-- @pt Precisa de sql/09_effects.sql. Pode rodar de novo quando quiser: ele atualiza o esquema no lugar.
-- @pt Veja examinar mostrar um documento antes de qualquer mudança; quatro papéis, cada um só com o que precisa.
-- @pt Papéis são do servidor inteiro: sql/teardown.sql os remove. Sem o direito de criar papéis, você recebe tudo menos eles.
--
-- Every command names the version that its user has seen, and wants a reason. If the document has moved on meanwhile, the version
-- no longer matches, and nothing is changed.
-- @pt Cada comando cita a versão que a pessoa viu e pede um motivo. Se o documento mudou nesse meio-tempo, a versão não confere mais,
-- @pt e nada muda.

\set ON_ERROR_STOP on
\setenv PSQL_PAGER ''
SET client_min_messages = warning;
SET "lab.de" = '09';
SET "lab.para" = '10';
SET "lab.muda" = 'sim';
\ir require_state.sql

BEGIN;

COMMENT ON SCHEMA sql_semana_12 IS 'queue lab, state 10';

ALTER TABLE sql_semana_12.fila_documentos
DROP CONSTRAINT IF EXISTS fila_documentos_status_check,
ADD CONSTRAINT fila_documentos_status_check
CHECK (status IN ('pendente', 'processando', 'concluido', 'falhou', 'conciliacao', 'pausado', 'cancelado'));

-- Few rows, and what people look for.
CREATE INDEX IF NOT EXISTS fila_documentos_para_pessoas_idx
ON sql_semana_12.fila_documentos (inquilino, documento_id)
WHERE status IN ('conciliacao', 'falhou', 'pausado');

-- For monitoring. A renewal writes a new version of the row anyway: counted there it can stay heap-only, and is exact, for four bytes a
-- row and a third more WAL a renewal (seen: 181 bytes, then 245).
ALTER TABLE sql_semana_12.fila_documentos
ADD COLUMN IF NOT EXISTS renovacoes INTEGER NOT NULL DEFAULT 0;

ALTER TABLE sql_semana_12.configuracao
ADD COLUMN IF NOT EXISTS planos_fixos BOOLEAN NOT NULL DEFAULT TRUE;

-- How the attempt that ended here failed; null where none did. The class in the queue is only that of the last failure.
ALTER TABLE sql_semana_12.auditoria
ADD COLUMN IF NOT EXISTS categoria_erro TEXT,
-- Beside quem, which the caller says of themselves: the account that was logged in, which nothing said before this lesson.
ADD COLUMN IF NOT EXISTS conectado_como TEXT;
ALTER TABLE sql_semana_12.auditoria
ALTER COLUMN conectado_como SET DEFAULT session_user;

CREATE INDEX IF NOT EXISTS auditoria_falhas_idx
ON sql_semana_12.auditoria (categoria_erro)
WHERE categoria_erro IS NOT NULL;

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
DECLARE
    -- After a restore the audit may be ahead of the queue. No version is written twice.
    v_versao BIGINT := 1 + greatest(
        p_posse.versao,
        (
            SELECT max(versao)
            FROM sql_semana_12.auditoria
            WHERE inquilino = p_posse.inquilino AND documento_id = p_posse.documento_id
        )
    );
BEGIN
    IF v_versao <> p_posse.versao + 1 THEN
        RAISE WARNING 'document %: auditoria was ahead of it; its next version is %, not %',
            p_posse.documento_id, v_versao, p_posse.versao + 1;
    END IF;
    UPDATE sql_semana_12.fila_documentos
    SET
        status = p_para,
        versao = v_versao,
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
    INSERT INTO sql_semana_12.auditoria (
        inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando, categoria_erro
    )
    VALUES (
        p_posse.inquilino,
        p_posse.documento_id,
        v_versao,
        p_posse.status,
        p_para,
        p_posse.token_reserva,
        p_quem,
        sql_semana_12.resumir(p_por_que),
        p_agora,
        CASE WHEN p_posse.status = 'processando' THEN p_categoria END
    );
    RETURN v_versao;
END
$$;

-- Leaves to people those of the documents whose audit is ahead of them: it tells of attempts that the queue has forgotten.
CREATE OR REPLACE FUNCTION sql_semana_12.separar(p_inquilinos TEXT[], p_documentos BIGINT[], p_quem TEXT)
RETURNS VOID
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_posse sql_semana_12.posse;
    v_adiantada BOOLEAN := FALSE;
BEGIN
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
        FROM unnest(p_inquilinos, p_documentos) AS escolhido (inquilino, documento)
        INNER JOIN sql_semana_12.fila_documentos AS fila ON fila.inquilino = escolhido.inquilino AND fila.documento_id = escolhido.documento
        WHERE
            (
                SELECT max(auditoria.versao)
                FROM sql_semana_12.auditoria
                WHERE auditoria.inquilino = fila.inquilino AND auditoria.documento_id = fila.documento_id
            ) > fila.versao
    LOOP
        v_adiantada := TRUE;
        PERFORM sql_semana_12.mudar(
            v_posse, 'conciliacao', p_quem, 'auditoria adiantada', 'a auditoria sabe mais do que a fila', sql_semana_12.relogio(), 'sistemico'
        );
    END LOOP;
    IF NOT v_adiantada THEN
        RAISE EXCEPTION 'auditoria refuses the row of one of these documents, and is ahead of none: %', p_documentos
            USING ERRCODE = '23505';
    END IF;
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
    BEGIN
        INSERT INTO sql_semana_12.auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
        SELECT inquilino, documento, versao, 'pendente', 'processando', token, p_worker, 'reserva', v_agora
        FROM unnest(v_inquilinos, v_documentos, v_versoes, v_tokens) AS escolhido (inquilino, documento, versao, token);
    EXCEPTION WHEN unique_violation THEN
        -- One document whose audit is ahead of it, as it may be after a restore, must not hold back the others.
        PERFORM sql_semana_12.separar(v_inquilinos, v_documentos, p_worker);
        RETURN QUERY
        SELECT * FROM sql_semana_12.reservar(p_worker, p_lote, p_prazo, p_inquilino);
        RETURN;
    END;
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
    SET reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, v_fim)), renovacoes = fila.renovacoes + 1
    WHERE fila.inquilino = v_posse.inquilino AND fila.documento_id = v_posse.documento_id
    RETURNING fila.documento_id, fila.reservado_ate;
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
            reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, fila.iniciado_em + sql_semana_12.tempo_maximo())),
            renovacoes = fila.renovacoes + 1
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
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_agora TIMESTAMPTZ := sql_semana_12.relogio();
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
        coalesce(fila.status = 'processando' AND fila.reservado_ate >= v_agora, FALSE),
        fila.etapa,
        fila.chave_operacao,
        fila.referencia_externa,
        fila.categoria_erro,
        fila.ultimo_erro
    FROM sql_semana_12.fila_documentos AS fila
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
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_inquilinos TEXT[];
    v_posse sql_semana_12.posse;
    v_reservado_ate TIMESTAMPTZ;
BEGIN
    PERFORM sql_semana_12.exigir_quem(p_quem);
    PERFORM sql_semana_12.exigir_motivo(p_motivo);
    -- Look first: a command that is refused locks nothing. Without a tenant this looks at the whole key.
    v_inquilinos := ARRAY(
        SELECT fila.inquilino
        FROM sql_semana_12.fila_documentos AS fila
        WHERE
            fila.documento_id = p_documento
            AND fila.versao = p_versao
            AND fila.status = ANY(p_de)
            AND (fila.status <> 'processando' OR coalesce(fila.reservado_ate, '-infinity') < sql_semana_12.relogio())
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
    );
    IF cardinality(v_inquilinos) > 1 THEN
        RAISE EXCEPTION 'document %: more than one tenant has a document of this number, so p_inquilino must name it', p_documento
            USING ERRCODE = '22023';
    END IF;
    IF cardinality(v_inquilinos) = 0 THEN
        RETURN NULL;
    END IF;
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
            fila.inquilino = v_inquilinos[1]
            AND fila.documento_id = p_documento
            AND fila.versao = p_versao
            AND fila.status = ANY(p_de)
        FOR NO KEY UPDATE;
        -- Read after the lock: a renewal may have moved it, and a renewal does not change versao.
        IF v_posse.status = 'processando' THEN
            SELECT fila.reservado_ate INTO v_reservado_ate
            FROM sql_semana_12.fila_documentos AS fila
            WHERE fila.inquilino = v_inquilinos[1] AND fila.documento_id = p_documento;
        END IF;
        IF v_posse.documento_id IS NULL OR v_reservado_ate >= sql_semana_12.relogio() THEN
            RAISE EXCEPTION 'moved on' USING ERRCODE = 'P0002';
        END IF;
    EXCEPTION
        -- What moved on while this waited is locked by now: the end of the block gives the lock back.
        WHEN no_data_found THEN
            RETURN NULL;
    END;
    RETURN v_posse;
END
$$;

-- A command is no attempt: what the last attempt left as its error stays. An orphan's attempt ends here, as a crash.
CREATE OR REPLACE FUNCTION sql_semana_12.mudar_por_operador(
    p_posse sql_semana_12.posse, p_para TEXT, p_quem TEXT, p_motivo TEXT, p_disponivel_em TIMESTAMPTZ DEFAULT NULL
)
RETURNS BIGINT
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_erro TEXT := 'reserva vencida';
    v_categoria TEXT := 'queda';
BEGIN
    IF p_posse.status <> 'processando' THEN
        SELECT fila.ultimo_erro, fila.categoria_erro
        INTO v_erro, v_categoria
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.inquilino = p_posse.inquilino AND fila.documento_id = p_posse.documento_id;
    END IF;
    RETURN sql_semana_12.mudar(p_posse, p_para, p_quem, p_motivo, v_erro, sql_semana_12.relogio(), v_categoria, p_disponivel_em);
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.pausar(
    p_documento BIGINT, p_versao BIGINT, p_quem TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_posse sql_semana_12.posse := sql_semana_12.travar_para_operador(
        p_documento, p_versao, ARRAY['pendente', 'processando'], p_quem, p_motivo, p_inquilino
    );
BEGIN
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    versao := sql_semana_12.mudar_por_operador(v_posse, 'pausado', p_quem, p_motivo, NULL::TIMESTAMPTZ);
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
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_posse sql_semana_12.posse := sql_semana_12.travar_para_operador(p_documento, p_versao, ARRAY['pausado'], p_quem, p_motivo, p_inquilino);
    v_disponivel_em TIMESTAMPTZ;
BEGIN
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    -- The pause is no waiting; and what was put off before it stays put off.
    SELECT greatest(fila.disponivel_em, sql_semana_12.relogio())
    INTO v_disponivel_em
    FROM sql_semana_12.fila_documentos AS fila
    WHERE fila.inquilino = v_posse.inquilino AND fila.documento_id = v_posse.documento_id;
    -- The pause may have come in the last attempt: then its stage decides, as at any end of attempts.
    status := sql_semana_12.destino(v_posse.etapa, v_posse.tentativas >= v_posse.max_tentativas, v_posse.chamada_basta);
    versao := sql_semana_12.mudar_por_operador(v_posse, status, p_quem, p_motivo, v_disponivel_em);
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
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_posse sql_semana_12.posse := sql_semana_12.travar_para_operador(p_documento, p_versao, ARRAY['conciliacao'], p_quem, p_motivo, p_inquilino);
BEGIN
    PERFORM sql_semana_12.exigir_referencia(p_referencia, v_posse.referencia_externa);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    IF v_posse.etapa <> 'confirmando' THEN
        v_posse.etapa := 'obtido';
    END IF;
    v_posse.referencia_externa := p_referencia;
    versao := sql_semana_12.mudar(v_posse, 'concluido', p_quem, p_motivo, NULL, sql_semana_12.relogio(), NULL, NULL::TIMESTAMPTZ);
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
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_posse sql_semana_12.posse := sql_semana_12.travar_para_operador(p_documento, p_versao, ARRAY['falhou', 'conciliacao'], p_quem, p_motivo, p_inquilino);
BEGIN
    IF p_mais_tentativas IS NULL OR p_mais_tentativas NOT BETWEEN 1 AND 100 THEN
        RAISE EXCEPTION 'p_mais_tentativas must be from 1 to 100, not %', p_mais_tentativas USING ERRCODE = '22023';
    END IF;
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    UPDATE sql_semana_12.fila_documentos AS fila
    SET max_tentativas = greatest(fila.max_tentativas, fila.tentativas + p_mais_tentativas)
    WHERE fila.inquilino = v_posse.inquilino AND fila.documento_id = v_posse.documento_id;
    versao := sql_semana_12.mudar_por_operador(v_posse, 'pendente', p_quem, p_motivo, sql_semana_12.relogio());
    documento_id := p_documento;
    status := 'pendente';
    RETURN NEXT;
END
$$;

-- The end of a document that nothing is to come of any more, by a person who says why. Its result stays unknown if it was.
CREATE OR REPLACE FUNCTION sql_semana_12.cancelar(
    p_documento BIGINT, p_versao BIGINT, p_quem TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_posse sql_semana_12.posse := sql_semana_12.travar_para_operador(
        p_documento, p_versao, ARRAY['pendente', 'pausado', 'falhou', 'conciliacao'], p_quem, p_motivo, p_inquilino
    );
BEGIN
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    versao := sql_semana_12.mudar_por_operador(v_posse, 'cancelado', p_quem, p_motivo, NULL::TIMESTAMPTZ);
    documento_id := p_documento;
    status := 'cancelado';
    RETURN NEXT;
END
$$;

-- A document whose content was broken gets the right one under the same key. Where any attempt may have called, the receiver knows
-- the key with the old content: then cancel the document, and enqueue the new one under a new key.
CREATE OR REPLACE FUNCTION sql_semana_12.substituir_conteudo(
    p_documento BIGINT, p_versao BIGINT, p_conteudo_xml XML, p_quem TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_posse sql_semana_12.posse := sql_semana_12.travar_para_operador(
        p_documento, p_versao, ARRAY['pendente', 'pausado', 'falhou'], p_quem, p_motivo, p_inquilino
    );
    v_agora TIMESTAMPTZ;
BEGIN
    PERFORM sql_semana_12.exigir_documento('chave', 'arquivo', p_conteudo_xml, 'inquilino', NULL::TIMESTAMPTZ, 1);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    -- The stage may be back at nao_chamado after a call of which the receiver knew nothing then; the audit remembers it.
    IF
        v_posse.etapa <> 'nao_chamado'
        OR EXISTS (
            SELECT 1
            FROM sql_semana_12.auditoria AS chamada
            WHERE
                chamada.inquilino = v_posse.inquilino
                AND chamada.documento_id = v_posse.documento_id
                AND chamada.por_que = 'etapa desconhecido'
        )
    THEN
        RAISE EXCEPTION 'document %: an attempt may have called with the old content', p_documento
            USING ERRCODE = '55000', HINT = 'Use cancelar, then enfileirar under a new key.';
    END IF;
    v_agora := sql_semana_12.relogio();
    INSERT INTO sql_semana_12.auditoria (inquilino, documento_id, versao, de, para, quem, por_que, quando)
    VALUES (
        v_posse.inquilino,
        v_posse.documento_id,
        v_posse.versao + 1,
        v_posse.status,
        v_posse.status,
        p_quem,
        sql_semana_12.resumir('conteudo: ' || p_motivo),
        v_agora
    );
    RETURN QUERY
    UPDATE sql_semana_12.fila_documentos AS fila
    SET
        conteudo_xml = p_conteudo_xml,
        conteudo_sha256 = sha256(convert_to(p_conteudo_xml::TEXT, 'UTF8')),
        versao = fila.versao + 1
    WHERE fila.inquilino = v_posse.inquilino AND fila.documento_id = v_posse.documento_id
    RETURNING fila.documento_id, fila.status, fila.versao;
END
$$;

-- What enfileirar does, for a batch in one round trip; in the order of the keys, so that two batches with the same keys never deadlock.
CREATE OR REPLACE FUNCTION sql_semana_12.enfileirar_lote(
    p_chaves TEXT[],
    p_nomes_arquivo TEXT[],
    p_conteudos XML[],
    p_inquilino TEXT DEFAULT 'padrao',
    p_disponivel_em TIMESTAMPTZ DEFAULT NULL,
    p_max_tentativas INTEGER DEFAULT NULL
)
RETURNS TABLE (chave TEXT, documento_id BIGINT, novo BOOLEAN)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_quantos INTEGER := cardinality(p_chaves);
BEGIN
    IF v_quantos IS NULL OR v_quantos > 1000 OR array_ndims(p_chaves) > 1 THEN
        RAISE EXCEPTION 'p_chaves must be a list of at most 1000 keys' USING ERRCODE = '22023';
    END IF;
    IF p_nomes_arquivo IS NULL OR array_ndims(p_nomes_arquivo) > 1 OR cardinality(p_nomes_arquivo) <> v_quantos THEN
        RAISE EXCEPTION 'p_nomes_arquivo must be the file name of each of p_chaves' USING ERRCODE = '22023';
    END IF;
    IF p_conteudos IS NULL OR array_ndims(p_conteudos) > 1 OR cardinality(p_conteudos) <> v_quantos THEN
        RAISE EXCEPTION 'p_conteudos must be the content of each of p_chaves' USING ERRCODE = '22023';
    END IF;
    RETURN QUERY
    SELECT pedido.chave, feito.documento_id, feito.novo
    FROM (
        SELECT lista.chave, lista.nome, lista.documento
        FROM unnest(p_chaves, p_nomes_arquivo, p_conteudos) AS lista (chave, nome, documento)
        ORDER BY lista.chave
    ) AS pedido
    CROSS JOIN LATERAL sql_semana_12.enfileirar(
        pedido.chave, pedido.nome, pedido.documento, p_inquilino, p_disponivel_em, p_max_tentativas
    ) AS feito;
END
$$;

-- After a cause that many shared is gone: the failed documents of one class of failure, so many at a time. Those for people are not
-- among them, for of each the result has to be looked up first.
CREATE OR REPLACE FUNCTION sql_semana_12.reenfileirar_falhos(
    p_categoria TEXT,
    p_quem TEXT,
    p_motivo TEXT,
    p_mais_tentativas INTEGER DEFAULT 1,
    p_limite INTEGER DEFAULT 100,
    p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_visto RECORD;
BEGIN
    PERFORM sql_semana_12.exigir_quem(p_quem);
    PERFORM sql_semana_12.exigir_motivo(p_motivo);
    PERFORM sql_semana_12.exigir_quantidade('p_limite', p_limite);
    IF p_categoria IS NULL OR p_categoria NOT IN ('conteudo', 'sistemico', 'conexao', 'impasse', 'queda') THEN
        RAISE EXCEPTION 'p_categoria must be conteudo, sistemico, conexao, impasse or queda, not %', left(p_categoria, 50)
            USING ERRCODE = '22023';
    END IF;
    FOR v_visto IN
        SELECT fila.inquilino, fila.documento_id, fila.versao
        FROM sql_semana_12.fila_documentos AS fila
        WHERE
            fila.status = 'falhou'
            AND fila.categoria_erro = p_categoria
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        ORDER BY fila.documento_id
        LIMIT p_limite
        FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        RETURN QUERY
        SELECT feito.documento_id, feito.status, feito.versao
        FROM sql_semana_12.reenfileirar(v_visto.documento_id, v_visto.versao, p_quem, p_motivo, p_mais_tentativas, v_visto.inquilino) AS feito;
    END LOOP;
END
$$;

-- What waits for people, as they need it to decide, and without the document itself.
CREATE OR REPLACE VIEW sql_semana_12.para_pessoas AS
SELECT
    fila.inquilino,
    fila.documento_id,
    fila.chave,
    fila.status,
    fila.versao,
    fila.tentativas,
    fila.etapa,
    fila.chave_operacao,
    fila.referencia_externa,
    fila.categoria_erro,
    fila.ultimo_erro
FROM sql_semana_12.fila_documentos AS fila
WHERE fila.status IN ('conciliacao', 'falhou', 'pausado');

DROP VIEW IF EXISTS sql_semana_12.situacao;
CREATE VIEW sql_semana_12.situacao AS
WITH hora AS MATERIALIZED (
    SELECT sql_semana_12.relogio() AS agora
)

SELECT
    (
        SELECT count(*)
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.status = 'pendente' AND fila.disponivel_em <= hora.agora
    ) AS aguardando,
    (
        SELECT count(*)
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.status = 'pendente' AND fila.disponivel_em > hora.agora
    ) AS adiados,
    (
        SELECT count(*)
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.status = 'processando' AND fila.reservado_ate >= hora.agora
    ) AS executando,
    (
        SELECT count(*)
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.status = 'processando' AND coalesce(fila.reservado_ate, '-infinity') < hora.agora
    ) AS orfaos,
    (SELECT count(*) FROM sql_semana_12.fila_documentos AS fila WHERE fila.status = 'pausado') AS pausados,
    (SELECT count(*) FROM sql_semana_12.fila_documentos AS fila WHERE fila.status = 'conciliacao') AS em_conciliacao,
    (SELECT count(*) FROM sql_semana_12.fila_documentos AS fila WHERE fila.status = 'falhou') AS falhos,
    (SELECT count(*) FROM sql_semana_12.fila_documentos AS fila WHERE fila.status = 'concluido') AS concluidos,
    (SELECT count(*) FROM sql_semana_12.fila_documentos AS fila WHERE fila.status = 'cancelado') AS cancelados,
    (
        SELECT count(*)
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.status = 'pendente' AND fila.tentativas > 0
    ) AS repetindo,
    (
        SELECT hora.agora - min(fila.disponivel_em)
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.status = 'pendente' AND fila.disponivel_em <= hora.agora
    ) AS maior_espera,
    (
        SELECT max(hora.agora - fila.reservado_ate)
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.status = 'processando' AND fila.reservado_ate < hora.agora
    ) AS maior_atraso,
    (
        SELECT
            max(
                coalesce(
                    (
                        SELECT min(etapa.quando)
                        FROM sql_semana_12.auditoria AS etapa
                        WHERE
                            etapa.inquilino = fila.inquilino
                            AND etapa.documento_id = fila.documento_id
                            AND etapa.token_reserva = fila.token_reserva
                            AND etapa.de = etapa.para
                    ),
                    hora.agora
                ) - fila.iniciado_em
            )
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.status = 'processando' AND fila.reservado_ate >= hora.agora
    ) AS maior_demora_para_iniciar,
    (SELECT coalesce(sum(fila.renovacoes), 0) FROM sql_semana_12.fila_documentos AS fila) AS renovacoes,
    (SELECT count(*) FROM sql_semana_12.auditoria AS queda WHERE queda.categoria_erro = 'queda') AS recuperacoes
FROM hora;

CREATE OR REPLACE VIEW sql_semana_12.falhas_por_categoria AS
SELECT
    categoria_erro,
    count(*) AS falhas,
    count(*) FILTER (WHERE para = 'pendente') AS a_repetir,
    count(*) FILTER (WHERE para IN ('falhou', 'conciliacao')) AS definitivas,
    max(quando) AS ultima
FROM sql_semana_12.auditoria
WHERE categoria_erro IS NOT NULL
GROUP BY categoria_erro;

\ir roles.sql

COMMENT ON FUNCTION sql_semana_12.enfileirar_lote IS
'Brings up to 1000 documents of one tenant into the queue, all or (if it raises) none, each as enfileirar does; a row a document, in '
'the order of the keys. Zero rows: p_chaves is empty.';
COMMENT ON FUNCTION sql_semana_12.separar IS
'Leaves to people, each with a warning, those of the documents whose audit is ahead of them. It refuses with 23505 if none is.';
COMMENT ON FUNCTION sql_semana_12.examinar IS
'A document as an operator should see it before changing anything, without its payload. Zero rows: there is none.';
COMMENT ON FUNCTION sql_semana_12.travar_para_operador IS
'Locks the document and gives it back if it is as the operator saw it and in no live worker''s hands, else null and locks '
'nothing; the one guard of the operators.';
COMMENT ON FUNCTION sql_semana_12.mudar_por_operador IS
'As mudar, by an operator''s command: the error of the last attempt stays, and an orphan''s attempt counts as a crash.';
COMMENT ON FUNCTION sql_semana_12.pausar IS
'Takes a waiting or orphaned document out of work; an orphan''s token is void. Zero rows: it has moved on since p_versao, or a '
'worker holds a live lease on it.';
COMMENT ON FUNCTION sql_semana_12.retomar IS
'Gives a paused document back to the queue, due now or when it was due anyway, or ends it by its stage if its attempts are used '
'up. Zero rows: it has moved on since p_versao, or is not paused.';
COMMENT ON FUNCTION sql_semana_12.confirmar IS
'Finishes a document in conciliacao with the result that people found at the receiver; a reference that is known already is '
'never replaced by another (22023). Zero rows: it has moved on since p_versao, or is not there.';
COMMENT ON FUNCTION sql_semana_12.reenfileirar IS
'Gives a failed or unreconciled document more attempts. Zero rows: it has moved on since p_versao, or is in no such state.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.renovacoes IS
'How often the lease of this document was renewed, in all attempts.';
COMMENT ON COLUMN sql_semana_12.configuracao.planos_fixos IS
'Whether the functions of the workers keep one plan each (force_generic_plan): set for good at each installation. Off on Citus.';
COMMENT ON COLUMN sql_semana_12.auditoria.quem IS
'Who made the change, as they say themselves.';
COMMENT ON COLUMN sql_semana_12.auditoria.conectado_como IS
'The account (session_user) that made the change, whatever name it gave.';
COMMENT ON COLUMN sql_semana_12.auditoria.categoria_erro IS
'Class of the failure that ended an attempt here, queda for a take-over; null for every other change.';
COMMENT ON FUNCTION sql_semana_12.cancelar IS
'Gives up a document that waits, is paused, has failed or is for people; its error and its stage stay. Zero rows: it has moved on '
'since p_versao, or is in no such state.';
COMMENT ON FUNCTION sql_semana_12.substituir_conteudo IS
'Gives a document another content under its key, if no attempt ever called (else 55000); its state stays: reenfileirar one that '
'failed. Zero rows: it has moved on since p_versao, or is in no state for it.';
COMMENT ON FUNCTION sql_semana_12.reenfileirar_falhos IS
'Gives up to p_limite failed documents of this class of failure more attempts, as reenfileirar does one. Zero rows: none has failed '
'so that is free.';
COMMENT ON VIEW sql_semana_12.para_pessoas IS
'One row for each document that people have to decide on: of unknown result, failed, paused. Zero rows: none waits for them.';
COMMENT ON VIEW sql_semana_12.situacao IS
'One row: how many documents are due, put off, in work, orphaned (late), paused, for people, failed, finished, cancelled; how many of '
'those that wait had an attempt; how long the first due one waits, how late the latest orphan is, how long one in work took or has '
'been taking from its claim to its first stage; how many renewals and take-overs there were. Each is counted only where it is asked '
'for: what is live by its index, what is history (finished, cancelled, renewals) by reading the whole queue.';
COMMENT ON VIEW sql_semana_12.falhas_por_categoria IS
'One row for each class of failure: attempts that ended so, how many were put back, how many ended their document without a '
'result, and when the last one was. Zero rows: none has failed.';

\ir comments.sql
\ir plans.sql

COMMIT;

SELECT documento_id, status, versao, reserva_viva
FROM sql_semana_12.examinar(1);
