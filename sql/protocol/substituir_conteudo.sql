-- A document whose content was broken gets the right one under the same key. Where any attempt may have called, the receiver knows
-- the key with the old content: then cancel the document, and enqueue the new one under a new key.
CREATE OR REPLACE FUNCTION sql_semana_12.substituir_conteudo(
    p_documento BIGINT, p_versao BIGINT, p_conteudo_xml XML, p_quem TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    v_posse posse := travar_para_operador(
        p_documento, p_versao, ARRAY['pendente', 'pausado', 'falhou'], p_quem, p_motivo, p_inquilino
    );
    v_agora TIMESTAMPTZ;
BEGIN
    PERFORM exigir_documento('chave', 'arquivo', p_conteudo_xml, 'inquilino', NULL::TIMESTAMPTZ, 1);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    -- The stage may be back at nao_chamado after a call of which the receiver knew nothing then; the audit remembers it.
    IF
        v_posse.etapa <> 'nao_chamado'
        OR EXISTS (
            SELECT 1
            FROM auditoria AS chamada
            WHERE
                chamada.inquilino = v_posse.inquilino
                AND chamada.documento_id = v_posse.documento_id
                AND chamada.por_que = 'etapa desconhecido'
        )
    THEN
        RAISE EXCEPTION 'document %: an attempt may have called with the old content', p_documento
            USING ERRCODE = '55000', HINT = 'Use cancelar, then enfileirar under a new key.';
    END IF;
    v_agora := relogio();
    -- @audit
    INSERT INTO auditoria (inquilino, documento_id, versao, de, para, quem, por_que, quando)
    VALUES (
        v_posse.inquilino,
        v_posse.documento_id,
        v_posse.versao + 1,
        v_posse.status,
        v_posse.status,
        p_quem,
        resumir('conteudo: ' || p_motivo),
        v_agora
    );
    RETURN QUERY
    UPDATE fila_documentos AS fila
    SET
        conteudo_xml = p_conteudo_xml,
        conteudo_sha256 = sha256(convert_to(p_conteudo_xml::TEXT, 'UTF8')),
        versao = fila.versao + 1
    WHERE fila.inquilino = v_posse.inquilino AND fila.documento_id = v_posse.documento_id
    RETURNING fila.documento_id, fila.status, fila.versao;
END
$$;

COMMENT ON FUNCTION sql_semana_12.substituir_conteudo IS
'Gives a document another content under its key, if no attempt ever called (else 55000); its state stays: reenfileirar one that '
'failed. Zero rows: it has moved on since p_versao, or is in no state for it.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
