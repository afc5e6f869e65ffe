CREATE OR REPLACE FUNCTION sql_semana_12.pausar(
    p_documento BIGINT, p_versao BIGINT, p_quem TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    v_posse posse := travar_para_operador(
        p_documento, p_versao, ARRAY['pendente', 'processando'], p_quem, p_motivo, p_inquilino
    );
BEGIN
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    versao := mudar_por_operador(v_posse, 'pausado', p_quem, p_motivo, NULL::TIMESTAMPTZ);
    documento_id := p_documento;
    status := 'pausado';
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION sql_semana_12.pausar IS
'Takes a waiting or orphaned document out of work; an orphan''s token is void. Zero rows: it has moved on since p_versao, or a '
'worker holds a live lease on it.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
