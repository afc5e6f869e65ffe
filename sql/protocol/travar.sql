-- The one guard: the document is in work under this token. The worker's name and the number of the attempt prove nothing.
-- Gives the document back, locked; null if the guard does not let it pass.
CREATE OR REPLACE FUNCTION sql_semana_12.travar(p_documento BIGINT, p_token BIGINT, p_inquilino TEXT)
RETURNS sql_semana_12.posse
LANGUAGE plpgsql
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_posse posse;
BEGIN
    SELECT
        fila.documento_id,
        fila.inquilino,
        fila.status,
        fila.versao,
        fila.token_reserva,
        fila.worker_id,
        fila.tentativas,
        fila.iniciado_em,
        fila.max_tentativas,
        fila.etapa,
        fila.referencia_externa,
        fila.chamada_basta
    INTO v_posse
    FROM fila_documentos AS fila
    WHERE
        fila.documento_id = p_documento
        AND fila.status = 'processando'
        -- @defence token
        AND fila.token_reserva = p_token
        AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
    FOR NO KEY UPDATE;
    RETURN v_posse;
END
$$;

COMMENT ON FUNCTION sql_semana_12.travar IS
'Locks the document and gives it back if it is in work under this token, else null; the guard of every outcome of one document.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 09
-- @@
-- -        fila.max_tentativas
-- +        fila.max_tentativas,
-- +        fila.etapa,
-- +        fila.referencia_externa,
-- +        fila.chamada_basta
-- @lesson 08
-- @@
-- -        fila.iniciado_em
-- +        fila.iniciado_em,
-- +        fila.max_tentativas
-- @lesson 06
-- @@
-- -FUNCTION sql_semana_12.travar(p_documento BIGINT, p_worker TEXT, p_inquilino TEXT)
-- -RETURNS TEXT
-- +FUNCTION sql_semana_12.travar(p_documento BIGINT, p_token BIGINT, p_inquilino TEXT)
-- +RETURNS sql_semana_12.posse
-- @@
-- -    v_inquilino TEXT;
-- +    v_posse posse;
-- @@
-- -    SELECT inquilino
-- -    INTO v_inquilino
-- -    FROM fila_documentos
-- +    SELECT
-- +        fila.documento_id,
-- +        fila.inquilino,
-- +        fila.status,
-- +        fila.versao,
-- +        fila.token_reserva,
-- +        fila.worker_id,
-- +        fila.tentativas,
-- +        fila.iniciado_em
-- +    INTO v_posse
-- +    FROM fila_documentos AS fila
-- @@
-- -        documento_id = p_documento
-- -        AND status = 'processando'
-- -        AND worker_id = p_worker
-- -        AND inquilino = coalesce(p_inquilino, inquilino)
-- +        fila.documento_id = p_documento
-- +        AND fila.status = 'processando'
-- +        AND fila.token_reserva = p_token
-- +        AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
-- @@
-- -    RETURN v_inquilino;
-- +    RETURN v_posse;
-- @lesson 05
