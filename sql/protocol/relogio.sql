CREATE OR REPLACE FUNCTION sql_semana_12.relogio()
RETURNS TIMESTAMPTZ
LANGUAGE plpgsql
STABLE
SET search_path = sql_semana_12, pg_temp
AS $$
BEGIN
    RETURN clock_timestamp();
END
$$;

COMMENT ON FUNCTION sql_semana_12.relogio IS
'The one clock of the protocol, the database''s. A function reads it once, after the lock wherever it may have waited for one.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 05
