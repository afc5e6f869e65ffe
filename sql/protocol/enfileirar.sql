CREATE OR REPLACE FUNCTION sql_semana_12.enfileirar(
    p_chave TEXT,
    p_nome_arquivo TEXT,
    p_conteudo_xml XML,
    p_inquilino TEXT DEFAULT 'padrao',
    p_disponivel_em TIMESTAMPTZ DEFAULT NULL,
    p_max_tentativas INTEGER DEFAULT 5
)
RETURNS TABLE (documento_id BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    -- Before the INSERT, which waits where another session is just writing the same key: if that one rolls back, criado_em is of
    -- before the wait. No lease depends on it; to read it afterwards would cost every document a second statement.
    v_agora TIMESTAMPTZ := relogio();
BEGIN
    PERFORM exigir_documento(p_chave, p_nome_arquivo, p_conteudo_xml, p_inquilino, p_disponivel_em, p_max_tentativas);
    RETURN QUERY
    INSERT INTO fila_documentos AS fila (
        chave, chave_operacao, nome_arquivo, conteudo_xml, inquilino, criado_em, disponivel_em, max_tentativas
    )
    VALUES (
        p_chave,
        p_inquilino || '/' || p_chave,
        p_nome_arquivo,
        p_conteudo_xml,
        p_inquilino,
        v_agora,
        greatest(p_disponivel_em, v_agora),
        p_max_tentativas
    )
    ON CONFLICT (chave) DO NOTHING
    RETURNING fila.documento_id;
END
$$;

COMMENT ON FUNCTION sql_semana_12.enfileirar IS
'Brings a document into the queue, due at once or from p_disponivel_em on if that is later. Zero rows: its key is in the queue '
'already.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 09
-- @@
-- -        chave, nome_arquivo, conteudo_xml, inquilino, criado_em, disponivel_em, max_tentativas
-- +        chave, chave_operacao, nome_arquivo, conteudo_xml, inquilino, criado_em, disponivel_em, max_tentativas
-- @@
-- -        p_chave, p_nome_arquivo, p_conteudo_xml, p_inquilino, v_agora, greatest(p_disponivel_em, v_agora), p_max_tentativas
-- +        p_chave,
-- +        p_inquilino || '/' || p_chave,
-- +        p_nome_arquivo,
-- +        p_conteudo_xml,
-- +        p_inquilino,
-- +        v_agora,
-- +        greatest(p_disponivel_em, v_agora),
-- +        p_max_tentativas
-- @lesson 08
