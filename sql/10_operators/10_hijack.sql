-- A SECURITY DEFINER function without a fixed search_path can be hijacked: a temporary view makes it run a caller's code as the owner.
-- @pt Uma função SECURITY DEFINER sem search_path fixo pode ser sequestrada: uma visão temporária a faz rodar código alheio como dono.
-- @setup
CREATE FUNCTION sql_semana_12.aceito(p_chave TEXT)
RETURNS BOOLEAN
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM fila_documentos WHERE chave = p_chave AND status = 'concluido');
END
$$;
GRANT EXECUTE ON FUNCTION sql_semana_12.aceito TO sql_semana_12_application;
-- @step b_role B
-- aceito was made for the application: it says whether a document is through. The application may do nothing else here.
-- @pt aceito foi feita para a aplicação: diz se um documento terminou. A aplicação não pode fazer mais nada aqui.
SET ROLE sql_semana_12_application;
-- @step b_asks B
SELECT sql_semana_12.aceito('NFE-0001');
-- @step b_writes B errors 42501
UPDATE sql_semana_12.fila_documentos
SET status = 'concluido';
-- @step b_makes_function B
-- In its own temporary schema a role may make what it likes.
-- @pt No próprio esquema temporário, qualquer um cria o que quiser.
CREATE FUNCTION pg_temp.invadir()
RETURNS TEXT
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE sql_semana_12.fila_documentos SET status = 'concluido';
    RETURN 'concluido';
END
$$;
-- @step b_makes_view B
CREATE TEMPORARY VIEW fila_documentos AS
SELECT 'NFE-0001'::TEXT AS chave, pg_temp.invadir() AS status;
-- @step b_asks_again B
-- Unless search_path says otherwise, temporary tables come first. Which fila_documentos does aceito read?
-- @pt Se o search_path não disser outra coisa, tabelas temporárias vêm primeiro. Qual fila_documentos a função aceito lê?
SELECT sql_semana_12.aceito('NFE-0001');
-- @step o_counts O
-- How many documents has the application changed, which may not touch the table?
-- @pt Quantos documentos foram alterados pela aplicação, que não pode tocar na tabela?
SELECT count(*) AS alterados
FROM fila_documentos
WHERE status = 'concluido';
-- @step o_fixes O
-- The cure: the schema first, what is temporary last.
-- @pt A cura: o esquema primeiro, o que é temporário por último.
CREATE OR REPLACE FUNCTION sql_semana_12.aceito(p_chave TEXT)
RETURNS BOOLEAN
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM fila_documentos WHERE chave = p_chave AND status = 'concluido');
END
$$;
-- @step o_restores O
UPDATE fila_documentos
SET status = 'pendente'
WHERE status = 'concluido'
RETURNING documento_id;
-- @step b_asks_at_last B
-- The same view, the same call.
-- @pt A mesma visão, a mesma chamada.
SELECT sql_semana_12.aceito('NFE-0001');
-- @step o_counts_again O
SELECT count(*) AS alterados
FROM fila_documentos
WHERE status = 'concluido';
