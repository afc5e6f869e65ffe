-- The end of a document that nothing is to come of any more, by a person who says why. Its result stays unknown if it was.
CREATE OR REPLACE FUNCTION sql_semana_12.cancelar(
    p_documento BIGINT, p_versao BIGINT, p_quem TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    v_posse posse := travar_para_operador(
        p_documento, p_versao, ARRAY['pendente', 'pausado', 'falhou', 'conciliacao'], p_quem, p_motivo, p_inquilino
    );
BEGIN
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    versao := mudar_por_operador(v_posse, 'cancelado', p_quem, p_motivo, NULL::TIMESTAMPTZ);
    documento_id := p_documento;
    status := 'cancelado';
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION sql_semana_12.cancelar IS
'Gives up a document that waits, is paused, has failed or is for people; its error and its stage stay. Zero rows: it has moved on '
'since p_versao, or is in no such state.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
