-- What concluir_lote and then reservar do, in one call: no client stands between them, in whose absence locks would be held. In this
-- order only: one that claimed first would wait for others with what it has just locked in its hands.
CREATE OR REPLACE FUNCTION sql_semana_12.concluir_e_reservar(
    p_documentos BIGINT[],
    p_tokens BIGINT[],
    p_referencias TEXT[],
    p_worker TEXT,
    p_lote INTEGER DEFAULT 1,
    p_prazo INTERVAL DEFAULT '30 seconds',
    p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (
    resultado TEXT,
    documento_id BIGINT,
    inquilino TEXT,
    chave TEXT,
    token_reserva BIGINT,
    versao BIGINT,
    tentativas INTEGER,
    reservado_ate TIMESTAMPTZ,
    chave_operacao TEXT,
    etapa TEXT,
    referencia_externa TEXT,
    conteudo_xml XML
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    resultado := 'concluido';
    FOR documento_id, versao IN
        SELECT feito.documento_id, feito.versao FROM concluir_lote(p_documentos, p_tokens, p_referencias, p_inquilino) AS feito
    LOOP
        RETURN NEXT;
    END LOOP;
    RETURN QUERY
    SELECT
        'reservado'::TEXT,
        novo.documento_id,
        novo.inquilino,
        novo.chave,
        novo.token_reserva,
        novo.versao,
        novo.tentativas,
        novo.reservado_ate,
        novo.chave_operacao,
        novo.etapa,
        novo.referencia_externa,
        novo.conteudo_xml
    FROM reservar(p_worker, p_lote, p_prazo, p_inquilino) AS novo;
END
$$;

COMMENT ON FUNCTION sql_semana_12.concluir_e_reservar IS
'Finishes a batch as concluir_lote does and then claims the next as reservar does, both or neither. resultado tells the rows apart: '
'concluido, of which only documento_id and versao are told, and reservado. p_inquilino is of both. Zero rows: nothing was finished, '
'and nothing is free now.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 09
