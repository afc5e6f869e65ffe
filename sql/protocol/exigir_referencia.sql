-- The same reference may come again, another one may not: there is one result for each key of operation.
CREATE OR REPLACE FUNCTION sql_semana_12.exigir_referencia(p_referencia TEXT, p_referencia_externa TEXT DEFAULT NULL)
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = sql_semana_12, pg_temp
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

COMMENT ON FUNCTION sql_semana_12.exigir_referencia IS
'Refuses a reference that is null, blank or longer than 200 characters, or other than one known already, with 22023.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 09
