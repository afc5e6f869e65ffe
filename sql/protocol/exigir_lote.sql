CREATE OR REPLACE FUNCTION sql_semana_12.exigir_lote(p_documentos BIGINT[], p_tokens BIGINT[], p_referencias TEXT[])
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = sql_semana_12, pg_temp
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
        PERFORM exigir_referencia(referencia, NULL)
        FROM unnest(p_referencias) AS referencia
        WHERE referencia IS NOT NULL;
    END IF;
END
$$;

COMMENT ON FUNCTION sql_semana_12.exigir_lote IS
'Refuses a batch that makes no sense with 22023: more than 1000 documents, a null one, one twice, one without a token.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 09
