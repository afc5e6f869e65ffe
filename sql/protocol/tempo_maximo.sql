CREATE OR REPLACE FUNCTION sql_semana_12.tempo_maximo()
RETURNS INTERVAL
LANGUAGE plpgsql
STABLE
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    v_tempo INTERVAL;
BEGIN
    SELECT duracao_maxima INTO STRICT v_tempo FROM configuracao;
    RETURN v_tempo;
END
$$;

COMMENT ON FUNCTION sql_semana_12.tempo_maximo IS
'How long one attempt may run, renewals included.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 07
