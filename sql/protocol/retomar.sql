CREATE OR REPLACE FUNCTION sql_semana_12.retomar(
    p_documento BIGINT, p_versao BIGINT, p_quem TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    v_posse posse := travar_para_operador(p_documento, p_versao, ARRAY['pausado'], p_quem, p_motivo, p_inquilino);
    v_disponivel_em TIMESTAMPTZ;
BEGIN
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    -- The pause is no waiting; and what was put off before it stays put off.
    SELECT greatest(fila.disponivel_em, relogio())
    INTO v_disponivel_em
    FROM fila_documentos AS fila
    WHERE fila.inquilino = v_posse.inquilino AND fila.documento_id = v_posse.documento_id;
    -- The pause may have come in the last attempt: then its stage decides, as at any end of attempts.
    status := destino(v_posse.etapa, v_posse.tentativas >= v_posse.max_tentativas, v_posse.chamada_basta);
    versao := mudar_por_operador(v_posse, status, p_quem, p_motivo, v_disponivel_em);
    documento_id := p_documento;
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION sql_semana_12.retomar IS
'Gives a paused document back to the queue, due now or when it was due anyway, or ends it by its stage if its attempts are used '
'up. Zero rows: it has moved on since p_versao, or is not paused.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
