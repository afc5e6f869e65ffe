-- A SECURITY DEFINER function can be hijacked through its search_path: by a temporary view; and by an overload, wherever others may create.
-- @pt Uma função SECURITY DEFINER pode ser sequestrada pelo search_path: por visão temporária e, onde outros criam objetos, por sobrecarga.
-- @setup
CREATE FUNCTION sql_semana_12.aceito(p_chave TEXT)
RETURNS BOOLEAN
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    RETURN cardinality(ARRAY(SELECT documento_id FROM fila_documentos WHERE chave = p_chave AND status = 'concluido')) > 0;
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
SELECT 1::BIGINT AS documento_id, 'NFE-0001'::TEXT AS chave, pg_temp.invadir() AS status;
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
-- The cure for this: the schema first, what is temporary last. (The server's own functions are searched before either.)
-- @pt A cura para isso: o esquema primeiro, o que é temporário por último. (As funções do próprio servidor vêm antes de ambos.)
CREATE OR REPLACE FUNCTION sql_semana_12.aceito(p_chave TEXT)
RETURNS BOOLEAN
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
BEGIN
    RETURN cardinality(ARRAY(SELECT documento_id FROM fila_documentos WHERE chave = p_chave AND status = 'concluido')) > 0;
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
-- @step o_grants O
-- Later the application is to make a view of its own there. One right, to create:
-- @pt Mais tarde, a aplicação precisa criar ali uma visão dela. Um único direito, o de criar:
GRANT CREATE ON SCHEMA sql_semana_12 TO sql_semana_12_application;
-- @step b_overloads B
-- The server's cardinality takes any array. This one takes exactly what aceito gives it.
-- @pt A cardinality do servidor recebe qualquer array. Esta recebe exatamente o que aceito passa.
CREATE FUNCTION sql_semana_12.cardinality(BIGINT[])
RETURNS INTEGER
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE sql_semana_12.fila_documentos SET status = 'concluido';
    RETURN 1;
END
$$;
-- @step b_asks_through_it B
-- pg_catalog comes first in the path. Which cardinality does aceito call?
-- @pt pg_catalog vem primeiro no caminho. Qual cardinality a função aceito chama?
SELECT sql_semana_12.aceito('NFE-0001');
-- @step o_counts_overload O
-- An exact match wins over a polymorphic one, whatever comes first.
-- @pt A assinatura exata ganha da polimórfica, seja qual for a ordem.
SELECT count(*) AS alterados
FROM fila_documentos
WHERE status = 'concluido';
-- @step o_restores_again O
UPDATE fila_documentos
SET status = 'pendente'
WHERE status = 'concluido'
RETURNING documento_id;
-- @step o_qualifies O
-- The cure: only the server's own in the path, and the schema before each name of one's own. All functions of the queue are so.
-- @pt A cura: no caminho, só o que é do servidor; e o esquema antes de cada nome próprio. Todas as funções da fila são assim.
CREATE OR REPLACE FUNCTION sql_semana_12.aceito(p_chave TEXT)
RETURNS BOOLEAN
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN cardinality(
        ARRAY(SELECT documento_id FROM sql_semana_12.fila_documentos WHERE chave = p_chave AND status = 'concluido')
    ) > 0;
END
$$;
-- @step b_asks_qualified B
-- The overload is still there.
-- @pt A sobrecarga continua lá.
SELECT sql_semana_12.aceito('NFE-0001');
-- @step c_claims C
-- A worker claims: reservar calls cardinality with a BIGINT[] as well.
-- @pt Um worker reserva: reservar também chama cardinality com um BIGINT[].
SELECT documento_id
FROM reservar('worker-a');
-- @step o_counts_at_last O
SELECT count(*) AS alterados
FROM fila_documentos
WHERE status = 'concluido';
-- @step o_looks O
-- What the functions call is safe. What callers write is not: who may create here besides the owner? (sql/alerts.sql asks it, too.)
-- @pt O que as funções chamam está seguro. O que quem as chama escreve, não: quem mais pode criar aqui? (sql/alerts.sql também pergunta.)
SELECT acl.grantee::REGROLE AS pode_criar
FROM pg_namespace
CROSS JOIN LATERAL aclexplode(pg_namespace.nspacl) AS acl
WHERE
    pg_namespace.nspname = 'sql_semana_12'
    AND acl.privilege_type = 'CREATE'
    AND acl.grantee <> pg_namespace.nspowner;
-- @step o_revokes O
REVOKE CREATE ON SCHEMA sql_semana_12 FROM sql_semana_12_application;
-- @step b_overloads_again B errors 42501
CREATE FUNCTION sql_semana_12.array_position(BIGINT[], BIGINT)
RETURNS INTEGER
LANGUAGE sql
RETURN 1;
