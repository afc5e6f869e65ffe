-- What renovar does, for all that a worker holds, in one round trip. It waits for no lock: one document that is held back costs the
-- others nothing, and is renewed at the next beat. The guard stands here as it stands in travar, word for word.
CREATE OR REPLACE FUNCTION sql_semana_12.renovar_lote(
    p_documentos BIGINT[], p_tokens BIGINT[], p_prazo INTERVAL DEFAULT '30 seconds', p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, resultado TEXT, reservado_ate TIMESTAMPTZ)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_inquilinos TEXT[];
    v_travados BIGINT[];
    v_agora TIMESTAMPTZ;
BEGIN
    PERFORM exigir_pedido('renovar', 1, p_prazo);
    PERFORM exigir_lote(p_documentos, p_tokens, NULL);
    SELECT coalesce(array_agg(inquilino), '{}'), coalesce(array_agg(documento_id), '{}')
    INTO v_inquilinos, v_travados
    FROM (
        SELECT p_documento, p_token
        FROM unnest(p_documentos, p_tokens) AS lista (p_documento, p_token)
        ORDER BY p_documento
    ) AS pedido
    CROSS JOIN LATERAL (
        SELECT fila.inquilino, fila.documento_id
        FROM fila_documentos AS fila
        WHERE
            fila.documento_id = p_documento
            AND fila.status = 'processando'
            -- @defence token
            AND fila.token_reserva = p_token
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS travado;
    v_agora := relogio();
    RETURN QUERY
    WITH renovado AS (
        UPDATE fila_documentos AS fila
        SET
            reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, fila.iniciado_em + tempo_maximo())),
            renovacoes = fila.renovacoes + 1
        FROM unnest(v_inquilinos, v_travados) AS travado (inquilino, documento)
        WHERE
            fila.inquilino = travado.inquilino
            AND fila.documento_id = travado.documento
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
            AND v_agora < fila.iniciado_em + tempo_maximo()
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
    LEFT JOIN fila_documentos AS fila
        ON
            pedido.documento = fila.documento_id
            AND fila.status = 'processando'
            AND pedido.token = fila.token_reserva
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino);
END
$$;

COMMENT ON FUNCTION sql_semana_12.renovar_lote IS
'Renews as renovar does, a row for each of p_documentos: renovada; recusada, the worker must stop; ocupada, another session has it '
'locked, and it is to be renewed at the next beat. It waits for no lock. Zero rows: p_documentos is empty.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
-- @@
-- -            reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, fila.iniciado_em + tempo_maximo()))
-- +            reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, fila.iniciado_em + tempo_maximo())),
-- +            renovacoes = fila.renovacoes + 1
-- @lesson 09
