CREATE OR REPLACE FUNCTION sql_semana_12.examinar(p_documento BIGINT, p_inquilino TEXT DEFAULT NULL)
RETURNS TABLE (
    documento_id BIGINT,
    inquilino TEXT,
    chave TEXT,
    status TEXT,
    versao BIGINT,
    tentativas INTEGER,
    max_tentativas INTEGER,
    worker_id TEXT,
    reservado_ate TIMESTAMPTZ,
    reserva_viva BOOLEAN,
    etapa TEXT,
    chave_operacao TEXT,
    referencia_externa TEXT,
    categoria_erro TEXT,
    ultimo_erro TEXT
)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_agora TIMESTAMPTZ := relogio();
BEGIN
    RETURN QUERY
    SELECT
        fila.documento_id,
        fila.inquilino,
        fila.chave,
        fila.status,
        fila.versao,
        fila.tentativas,
        fila.max_tentativas,
        fila.worker_id,
        fila.reservado_ate,
        coalesce(fila.status = 'processando' AND fila.reservado_ate >= v_agora, FALSE),
        fila.etapa,
        fila.chave_operacao,
        fila.referencia_externa,
        fila.categoria_erro,
        fila.ultimo_erro
    FROM fila_documentos AS fila
    WHERE fila.documento_id = p_documento AND fila.inquilino = coalesce(p_inquilino, fila.inquilino);
END
$$;

COMMENT ON FUNCTION sql_semana_12.examinar IS
'A document as an operator should see it before changing anything, without its payload. Zero rows: there is none.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
