CREATE OR REPLACE FUNCTION sql_semana_12.exigir_quantidade(p_nome TEXT, p_quantidade INTEGER)
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = sql_semana_12, pg_temp
AS $$
BEGIN
    IF p_quantidade IS NULL OR p_quantidade NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION '% must be from 1 to 1000, not %', p_nome, p_quantidade USING ERRCODE = '22023';
    END IF;
END
$$;

COMMENT ON FUNCTION sql_semana_12.exigir_quantidade IS
'Refuses a quantity that is not from 1 to 1000 with 22023; p_nome is its name in the message.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 05
