CREATE OR REPLACE FUNCTION sql_semana_12.confirmar(
    p_documento BIGINT,
    p_versao BIGINT,
    p_referencia TEXT,
    p_quem TEXT,
    p_motivo TEXT,
    p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    v_posse posse := travar_para_operador(p_documento, p_versao, ARRAY['conciliacao'], p_quem, p_motivo, p_inquilino);
BEGIN
    PERFORM exigir_referencia(p_referencia, v_posse.referencia_externa);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    IF v_posse.etapa <> 'confirmando' THEN
        v_posse.etapa := 'obtido';
    END IF;
    v_posse.referencia_externa := p_referencia;
    versao := mudar(v_posse, 'concluido', p_quem, p_motivo, NULL, relogio(), NULL, NULL::TIMESTAMPTZ);
    documento_id := p_documento;
    status := 'concluido';
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION sql_semana_12.confirmar IS
'Finishes a document in conciliacao with the result that people found at the receiver; a reference that is known already is '
'never replaced by another (22023). Zero rows: it has moved on since p_versao, or is not there.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
