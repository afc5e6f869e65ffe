-- A renewal never shortens. reservado_ate is in no index, so where its page has room a renewal stays on it and touches no index (a
-- heap-only update).
CREATE OR REPLACE FUNCTION sql_semana_12.renovar(
    p_documento BIGINT, p_token BIGINT, p_prazo INTERVAL DEFAULT '30 seconds', p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, reservado_ate TIMESTAMPTZ)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_posse posse;
    v_agora TIMESTAMPTZ;
    v_fim TIMESTAMPTZ;
BEGIN
    PERFORM exigir_pedido('renovar', 1, p_prazo);
    v_posse := travar(p_documento, p_token, p_inquilino);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    v_agora := relogio();
    v_fim := v_posse.iniciado_em + tempo_maximo();
    IF v_agora >= v_fim THEN
        RETURN;
    END IF;
    RETURN QUERY
    UPDATE fila_documentos AS fila
    SET reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, v_fim)), renovacoes = fila.renovacoes + 1
    WHERE fila.inquilino = v_posse.inquilino AND fila.documento_id = v_posse.documento_id
    RETURNING fila.documento_id, fila.reservado_ate;
END
$$;

COMMENT ON FUNCTION sql_semana_12.renovar IS
'Moves the deadline of a document in work under this token to p_prazo from now, never to an earlier one, at most to tempo_maximo() '
'from its claim. Zero rows: the worker must stop.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
-- @@
-- -    SET reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, v_fim))
-- +    SET reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, v_fim)), renovacoes = fila.renovacoes + 1
-- @lesson 07
-- @@
-- +    v_fim TIMESTAMPTZ;
-- @@
-- +    v_fim := v_posse.iniciado_em + tempo_maximo();
-- +    IF v_agora >= v_fim THEN
-- +        RETURN;
-- +    END IF;
-- @@
-- -    SET reservado_ate = greatest(fila.reservado_ate, v_agora + p_prazo)
-- +    SET reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, v_fim))
-- @lesson 06
