-- The delay before the next attempt: doubled each time up to a maximum, then a random share of the upper half, so that what
-- failed together does not come back together.
CREATE OR REPLACE FUNCTION sql_semana_12.recuo(p_tentativas INTEGER)
RETURNS INTERVAL
LANGUAGE plpgsql
VOLATILE
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    v_inteira INTERVAL;
BEGIN
    SELECT least(primeira_espera * 2 ^ least(p_tentativas - 1, 20), espera_maxima) INTO STRICT v_inteira FROM configuracao;
    RETURN v_inteira * (0.5 + random() / 2);
END
$$;

COMMENT ON FUNCTION sql_semana_12.recuo IS
'The delay before the attempt after this one: doubled each time, at most espera_maxima, the upper half of it random.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 08
