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
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_visto RECORD;
BEGIN
    PERFORM exigir_quem(p_quem);
    PERFORM exigir_motivo(p_motivo);
    PERFORM exigir_quantidade('p_limite', p_limite);
    IF p_categoria IS NULL OR p_categoria NOT IN ('conteudo', 'sistemico', 'conexao', 'impasse', 'queda') THEN
        RAISE EXCEPTION 'p_categoria must be conteudo, sistemico, conexao, impasse or queda, not %', left(p_categoria, 50)
            USING ERRCODE = '22023';
    END IF;
    FOR v_visto IN
        SELECT fila.inquilino, fila.documento_id, fila.versao
        FROM fila_documentos AS fila
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
        FROM reenfileirar(v_visto.documento_id, v_visto.versao, p_quem, p_motivo, p_mais_tentativas, v_visto.inquilino) AS feito;
    END LOOP;
END
$$;

COMMENT ON FUNCTION sql_semana_12.reenfileirar_falhos IS
'Gives up to p_limite failed documents of this class of failure more attempts, as reenfileirar does one. Zero rows: none has failed '
'so that is free.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
