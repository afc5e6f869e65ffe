-- The one place that mints tokens. 63 random bits of a UUID (it has 122): they do not come again, not even from a standby that was
-- promoted, a backup that was restored or a crash that lost a commit. A sequence would hand its numbers out once more.
CREATE OR REPLACE FUNCTION sql_semana_12.novos_tokens(p_quantos INTEGER)
RETURNS BIGINT[]
LANGUAGE plpgsql
VOLATILE
SET search_path = sql_semana_12, pg_temp
AS $$
BEGIN
    RETURN ARRAY(
        -- The first 12 digits and the last 4: those between them hold the UUID's version and variant.
        SELECT ('x' || left(digitos, 12) || right(digitos, 4))::BIT(64)::BIGINT & 9223372036854775807
        FROM (SELECT replace(gen_random_uuid()::TEXT, '-', '') AS digitos FROM generate_series(1, p_quantos)) AS sorteio
    );
END
$$;

COMMENT ON FUNCTION sql_semana_12.novos_tokens IS
'So many new tokens: random and positive.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 06
