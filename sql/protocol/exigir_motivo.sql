CREATE OR REPLACE FUNCTION sql_semana_12.exigir_motivo(p_motivo TEXT)
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = sql_semana_12, pg_temp
AS $$
BEGIN
    IF p_motivo IS NULL OR p_motivo !~ '[^[:space:]]' THEN
        RAISE EXCEPTION 'p_motivo must give the reason' USING ERRCODE = '22023';
    END IF;
END
$$;

COMMENT ON FUNCTION sql_semana_12.exigir_motivo IS
'Refuses a reason that is null or blank with 22023.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 05
