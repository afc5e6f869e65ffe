-- What concluir does, for a batch in three statements whatever its size. The guard stands here as it stands in travar, word for
-- word: called for each document, it would cost what the batch saves. All are locked in the order of their keys before any is
-- changed, so that two batches never deadlock; one may wait for the other.
CREATE OR REPLACE FUNCTION sql_semana_12.concluir_lote(
    p_documentos BIGINT[], p_tokens BIGINT[], p_referencias TEXT[] DEFAULT NULL, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
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
    PERFORM exigir_lote(p_documentos, p_tokens, p_referencias);
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
        FROM fila_documentos AS fila
        WHERE
            fila.documento_id = p_documento
            AND fila.status = 'processando'
            -- @defence token
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
    v_agora := relogio();
    -- @audit
    INSERT INTO auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
    SELECT inquilino, documento, versao, 'processando', 'concluido', token, worker, 'conclusao', v_agora
    FROM unnest(v_inquilinos, v_travados, v_versoes, v_tokens, v_workers)
        AS travado (inquilino, documento, versao, token, worker);
    RETURN QUERY
    UPDATE fila_documentos AS fila
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

COMMENT ON FUNCTION sql_semana_12.concluir_lote IS
'Finishes those of the documents that are in work, each under its token, with the receiver''s reference if it was called; in no '
'order. No row for one that is not in work under it, which is left as it is. Zero rows: nothing was changed.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 09
