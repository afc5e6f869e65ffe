CREATE OR REPLACE FUNCTION sql_semana_12.exigir_quem(p_quem TEXT)
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = sql_semana_12, pg_temp
AS $$
BEGIN
    IF p_quem IS NULL OR p_quem !~ '[^[:space:]]' OR length(p_quem) > 200 THEN
        RAISE EXCEPTION 'p_quem must say who does this, in at most 200 characters' USING ERRCODE = '22023';
    END IF;
END
$$;

COMMENT ON FUNCTION sql_semana_12.exigir_quem IS
'Refuses a name that is null, blank or longer than 200 characters with 22023.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 06
