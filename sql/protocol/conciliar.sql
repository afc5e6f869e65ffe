CREATE OR REPLACE FUNCTION sql_semana_12.conciliar(
    p_documento BIGINT, p_token BIGINT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    v_posse posse;
BEGIN
    PERFORM exigir_motivo(p_motivo);
    v_posse := travar(p_documento, p_token, p_inquilino);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    versao := mudar(
        v_posse, 'conciliacao', v_posse.worker_id, 'conciliacao', p_motivo, relogio(), NULL, NULL::TIMESTAMPTZ
    );
    documento_id := p_documento;
    status := 'conciliacao';
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION sql_semana_12.conciliar IS
'Hands a document in work under this token to people: its result is unknown, and the receiver cannot be asked. Zero rows: it '
'is not in work under it.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 09
