CREATE OR REPLACE FUNCTION sql_semana_12.enfileirar(
    p_chave TEXT,
    p_nome_arquivo TEXT,
    p_conteudo_xml XML,
    p_inquilino TEXT DEFAULT 'padrao',
    p_disponivel_em TIMESTAMPTZ DEFAULT NULL,
    p_max_tentativas INTEGER DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, novo BOOLEAN)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    -- Before the INSERT, which waits where another session is just writing the same key: if that one rolls back, criado_em is of
    -- before the wait. No lease depends on it; to read it afterwards would cost every document a second statement.
    v_agora TIMESTAMPTZ := relogio();
    v_resumo BYTEA;
    v_outro BYTEA;
    v_max_tentativas INTEGER := coalesce(p_max_tentativas, (SELECT tentativas FROM configuracao));
BEGIN
    PERFORM exigir_documento(p_chave, p_nome_arquivo, p_conteudo_xml, p_inquilino, p_disponivel_em, v_max_tentativas);
    v_resumo := sha256(convert_to(p_conteudo_xml::TEXT, 'UTF8'));
    LOOP
        INSERT INTO fila_documentos AS fila (
            chave, chave_operacao, nome_arquivo, conteudo_xml, conteudo_sha256, inquilino, criado_em, disponivel_em, max_tentativas
        )
        VALUES (
            p_chave,
            p_inquilino || '/' || p_chave,
            p_nome_arquivo,
            p_conteudo_xml,
            v_resumo,
            p_inquilino,
            v_agora,
            greatest(p_disponivel_em, v_agora),
            v_max_tentativas
        )
        ON CONFLICT (inquilino, chave) DO NOTHING
        RETURNING fila.documento_id INTO documento_id;
        novo := FOUND;
        EXIT WHEN novo;
        SELECT fila.documento_id, fila.conteudo_sha256
        INTO documento_id, v_outro
        FROM fila_documentos AS fila
        WHERE fila.inquilino = p_inquilino AND fila.chave = p_chave;
        -- Not found: it was deleted in between, and its key is free.
        EXIT WHEN FOUND;
    END LOOP;
    IF v_outro <> v_resumo THEN
        RAISE EXCEPTION 'document %: under the key % another content came before', documento_id, p_chave
            USING ERRCODE = 'QL001', HINT = 'Use a new key for a new document. Nothing was changed.';
    END IF;
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION sql_semana_12.enfileirar IS
'Brings a document into the queue, due at once or from p_disponivel_em on if that is later. novo is false if its tenant has the key '
'in the queue already, which is left as it is; with another content that is an error, QL001. One row, always.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 09
-- @@
-- -            chave, nome_arquivo, conteudo_xml, conteudo_sha256, inquilino, criado_em, disponivel_em, max_tentativas
-- +            chave, chave_operacao, nome_arquivo, conteudo_xml, conteudo_sha256, inquilino, criado_em, disponivel_em, max_tentativas
-- @@
-- +            p_inquilino || '/' || p_chave,
-- @lesson 08
