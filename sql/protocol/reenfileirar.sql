-- More attempts, never fewer behind it: tentativas, token and versao go on from where they are, and the stage and the key of
-- operation stay, so that the next worker asks the receiver before it calls.
CREATE OR REPLACE FUNCTION sql_semana_12.reenfileirar(
    p_documento BIGINT,
    p_versao BIGINT,
    p_quem TEXT,
    p_motivo TEXT,
    p_mais_tentativas INTEGER DEFAULT 1,
    p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    v_posse posse := travar_para_operador(p_documento, p_versao, ARRAY['falhou', 'conciliacao'], p_quem, p_motivo, p_inquilino);
BEGIN
    IF p_mais_tentativas IS NULL OR p_mais_tentativas NOT BETWEEN 1 AND 100 THEN
        RAISE EXCEPTION 'p_mais_tentativas must be from 1 to 100, not %', p_mais_tentativas USING ERRCODE = '22023';
    END IF;
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    UPDATE fila_documentos AS fila
    SET max_tentativas = greatest(fila.max_tentativas, fila.tentativas + p_mais_tentativas)
    WHERE fila.inquilino = v_posse.inquilino AND fila.documento_id = v_posse.documento_id;
    versao := mudar_por_operador(v_posse, 'pendente', p_quem, p_motivo, relogio());
    documento_id := p_documento;
    status := 'pendente';
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION sql_semana_12.reenfileirar IS
'Gives a failed or unreconciled document more attempts. Zero rows: it has moved on since p_versao, or is in no such state.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
