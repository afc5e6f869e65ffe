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
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_agora TIMESTAMPTZ;
    v_inquilinos TEXT[];
    v_documentos BIGINT[];
    v_versoes BIGINT[];
    v_tokens BIGINT[];
BEGIN
    PERFORM exigir_pedido(p_worker, p_lote, p_prazo);
    IF p_inquilino IS NULL THEN
        SELECT array_agg(inquilino), array_agg(documento_id), array_agg(versao + 1)
        INTO v_inquilinos, v_documentos, v_versoes
        FROM (
            SELECT inquilino, documento_id, versao
            FROM fila_documentos
            WHERE status = 'pendente' AND disponivel_em <= (SELECT relogio())
            ORDER BY disponivel_em, documento_id
            FOR NO KEY UPDATE SKIP LOCKED
            LIMIT p_lote
        ) AS escolhido;
    ELSE
        SELECT array_agg(inquilino), array_agg(documento_id), array_agg(versao + 1)
        INTO v_inquilinos, v_documentos, v_versoes
        FROM (
            SELECT inquilino, documento_id, versao
            FROM fila_documentos
            WHERE status = 'pendente' AND inquilino = p_inquilino AND disponivel_em <= (SELECT relogio())
            ORDER BY disponivel_em, documento_id
            FOR NO KEY UPDATE SKIP LOCKED
            LIMIT p_lote
        ) AS escolhido;
    END IF;
    IF v_documentos IS NULL THEN
        RETURN;
    END IF;
    v_agora := relogio();
    -- Before the UPDATE, in which nothing is volatile.
    v_tokens := novos_tokens(cardinality(v_documentos));
    BEGIN
        -- @audit
        INSERT INTO auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
        SELECT inquilino, documento, versao, 'pendente', 'processando', token, p_worker, 'reserva', v_agora
        FROM unnest(v_inquilinos, v_documentos, v_versoes, v_tokens) AS escolhido (inquilino, documento, versao, token);
    EXCEPTION WHEN unique_violation THEN
        -- One document whose audit is ahead of it, as it may be after a restore, must not hold back the others.
        PERFORM separar(v_inquilinos, v_documentos, p_worker);
        RETURN QUERY
        SELECT * FROM reservar(p_worker, p_lote, p_prazo, p_inquilino);
        RETURN;
    END;
    RETURN QUERY
    WITH reservados AS (
        UPDATE fila_documentos AS fila
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

COMMENT ON FUNCTION sql_semana_12.reservar IS
'Claims up to p_lote due documents, the longest due first, for p_prazo, each under a new token, with its key of operation '
'and the stage an earlier attempt left. Zero rows: nothing is free now (locked, in work or not yet due is not free).';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
-- @@
-- -    INSERT INTO auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
-- -    SELECT inquilino, documento, versao, 'pendente', 'processando', token, p_worker, 'reserva', v_agora
-- -    FROM unnest(v_inquilinos, v_documentos, v_versoes, v_tokens) AS escolhido (inquilino, documento, versao, token);
-- +    BEGIN
-- +        INSERT INTO auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
-- +        SELECT inquilino, documento, versao, 'pendente', 'processando', token, p_worker, 'reserva', v_agora
-- +        FROM unnest(v_inquilinos, v_documentos, v_versoes, v_tokens) AS escolhido (inquilino, documento, versao, token);
-- +    EXCEPTION WHEN unique_violation THEN
-- +        -- One document whose audit is ahead of it, as it may be after a restore, must not hold back the others.
-- +        PERFORM separar(v_inquilinos, v_documentos, p_worker);
-- +        RETURN QUERY
-- +        SELECT * FROM reservar(p_worker, p_lote, p_prazo, p_inquilino);
-- +        RETURN;
-- +    END;
-- @lesson 09
-- @@
-- +    chave_operacao TEXT,
-- +    etapa TEXT,
-- +    referencia_externa TEXT,
-- @@
-- -    SELECT documento_id, inquilino, chave, token_reserva, versao, tentativas, reservado_ate, conteudo_xml
-- +    SELECT
-- +        documento_id,
-- +        inquilino,
-- +        chave,
-- +        token_reserva,
-- +        versao,
-- +        tentativas,
-- +        reservado_ate,
-- +        chave_operacao,
-- +        etapa,
-- +        referencia_externa,
-- +        conteudo_xml
-- @lesson 08
-- @@
-- -            WHERE status = 'pendente'
-- -            ORDER BY criado_em, documento_id
-- +            WHERE status = 'pendente' AND disponivel_em <= (SELECT relogio())
-- +            ORDER BY disponivel_em, documento_id
-- @@
-- -            WHERE status = 'pendente' AND inquilino = p_inquilino
-- -            ORDER BY criado_em, documento_id
-- +            WHERE status = 'pendente' AND inquilino = p_inquilino AND disponivel_em <= (SELECT relogio())
-- +            ORDER BY disponivel_em, documento_id
-- @@
-- -            ultimo_erro = NULL
-- +            ultimo_erro = NULL,
-- +            categoria_erro = NULL
-- @@
-- -    ORDER BY criado_em, documento_id;
-- +    ORDER BY disponivel_em, documento_id;
-- @lesson 06
-- @@
-- +    token_reserva BIGINT,
-- +    versao BIGINT,
-- @@
-- +    v_versoes BIGINT[];
-- +    v_tokens BIGINT[];
-- @@
--      IF p_inquilino IS NULL THEN
-- -        SELECT array_agg(inquilino), array_agg(documento_id)
-- -        INTO v_inquilinos, v_documentos
-- +        SELECT array_agg(inquilino), array_agg(documento_id), array_agg(versao + 1)
-- +        INTO v_inquilinos, v_documentos, v_versoes
-- @@
--      IF p_inquilino IS NULL THEN
--          SELECT array_agg(inquilino), array_agg(documento_id), array_agg(versao + 1)
--          INTO v_inquilinos, v_documentos, v_versoes
--          FROM (
-- -            SELECT inquilino, documento_id
-- +            SELECT inquilino, documento_id, versao
-- @@
--      ELSE
-- -        SELECT array_agg(inquilino), array_agg(documento_id)
-- -        INTO v_inquilinos, v_documentos
-- +        SELECT array_agg(inquilino), array_agg(documento_id), array_agg(versao + 1)
-- +        INTO v_inquilinos, v_documentos, v_versoes
-- @@
--      ELSE
--          SELECT array_agg(inquilino), array_agg(documento_id), array_agg(versao + 1)
--          INTO v_inquilinos, v_documentos, v_versoes
--          FROM (
-- -            SELECT inquilino, documento_id
-- +            SELECT inquilino, documento_id, versao
-- @@
-- +    IF v_documentos IS NULL THEN
-- +        RETURN;
-- +    END IF;
-- @@
-- +    -- Before the UPDATE, in which nothing is volatile.
-- +    v_tokens := novos_tokens(cardinality(v_documentos));
-- +    INSERT INTO auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
-- +    SELECT inquilino, documento, versao, 'pendente', 'processando', token, p_worker, 'reserva', v_agora
-- +    FROM unnest(v_inquilinos, v_documentos, v_versoes, v_tokens) AS escolhido (inquilino, documento, versao, token);
-- @@
-- +            versao = fila.versao + 1,
-- +            token_reserva = escolhido.token,
-- @@
-- -        FROM unnest(v_inquilinos, v_documentos) AS escolhido (inquilino, documento)
-- +        FROM unnest(v_inquilinos, v_documentos, v_tokens) AS escolhido (inquilino, documento, token)
-- @@
-- -    SELECT documento_id, inquilino, chave, tentativas, reservado_ate, conteudo_xml
-- +    SELECT documento_id, inquilino, chave, token_reserva, versao, tentativas, reservado_ate, conteudo_xml
-- @lesson 05
