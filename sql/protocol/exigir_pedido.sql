-- A lease cannot be longer than an attempt may run.
CREATE OR REPLACE FUNCTION sql_semana_12.exigir_pedido(p_worker TEXT, p_lote INTEGER, p_prazo INTERVAL)
RETURNS VOID
LANGUAGE plpgsql
STABLE
SET search_path = sql_semana_12, pg_temp
AS $$
BEGIN
    IF p_worker IS NULL OR p_worker !~ '[^[:space:]]' OR length(p_worker) > 200 THEN
        RAISE EXCEPTION 'p_worker must name the worker, in at most 200 characters' USING ERRCODE = '22023';
    END IF;
    PERFORM exigir_quantidade('p_lote', p_lote);
    -- Days and months are compared as 24 hours and 30 days, but added by the calendar: '1 month -30 days 1 second' may be a day.
    IF
        p_prazo IS NULL
        OR p_prazo <= INTERVAL '0'
        OR p_prazo > tempo_maximo()
        OR (extract(YEAR FROM p_prazo), extract(MONTH FROM p_prazo), extract(DAY FROM p_prazo)) <> (0, 0, 0)
    THEN
        RAISE EXCEPTION 'p_prazo must be hours, minutes and seconds, more than nothing and at most %, not %', tempo_maximo(), p_prazo
            USING ERRCODE = '22023';
    END IF;
END
$$;

COMMENT ON FUNCTION sql_semana_12.exigir_pedido IS
'Refuses a request that makes no sense with 22023, before anything is changed.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 07
-- @@
-- -IMMUTABLE
-- +STABLE
-- @@
-- -        OR p_prazo > INTERVAL '24 hours'
-- +        OR p_prazo > tempo_maximo()
-- @@
-- -        RAISE EXCEPTION 'p_prazo must be hours, minutes and seconds, more than nothing and at most 24 hours, not %', p_prazo
-- +        RAISE EXCEPTION 'p_prazo must be hours, minutes and seconds, more than nothing and at most %, not %', tempo_maximo(), p_prazo
-- @lesson 05
