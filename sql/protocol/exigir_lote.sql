CREATE OR REPLACE FUNCTION sql_semana_12.exigir_lote(p_documentos BIGINT[], p_tokens BIGINT[], p_referencias TEXT[])
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = sql_semana_12, pg_temp
AS $$
BEGIN
    IF
        p_documentos IS NULL
        OR array_ndims(p_documentos) <> 1
        OR cardinality(p_documentos) > 1000
        OR cardinality(p_documentos) <> (SELECT count(DISTINCT documento) FROM unnest(p_documentos) AS documento)
    THEN
        RAISE EXCEPTION 'p_documentos must be a list of at most 1000 documents, none of them null, each of them once'
            USING ERRCODE = '22023';
    END IF;
    IF
        p_tokens IS NULL
        OR array_ndims(p_tokens) <> 1
        OR cardinality(p_tokens) <> cardinality(p_documentos)
        OR (SELECT count(*) FROM unnest(p_tokens) AS token WHERE token IS NULL) > 0
    THEN
        RAISE EXCEPTION 'p_tokens must be the token of each of p_documentos' USING ERRCODE = '22023';
    END IF;
    IF array_ndims(p_referencias) <> 1 OR cardinality(p_referencias) <> cardinality(p_documentos) THEN
        RAISE EXCEPTION 'p_referencias must be the reference of each of p_documentos, or null' USING ERRCODE = '22023';
    END IF;
    PERFORM exigir_referencia(referencia, NULL)
    FROM unnest(p_referencias) AS referencia
    WHERE referencia IS NOT NULL;
END
$$;

COMMENT ON FUNCTION sql_semana_12.exigir_lote IS
'Refuses a batch that makes no sense with 22023: more than 1000 documents, a null one, one twice, one without a token.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 09
