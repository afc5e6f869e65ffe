-- The type xml has no equality: =, DISTINCT and UNIQUE fail on it, so the key must be a column of its own.
-- @pt O tipo xml não tem igualdade: =, DISTINCT e UNIQUE falham com ele; por isso a chave precisa de uma coluna própria.
-- @step a_compares A errors 42883
-- Can the document itself serve as the key? First, is one equal to another?
-- @pt O próprio documento pode servir de chave? Primeiro: um documento é igual a outro?
SELECT count(*) AS iguais
FROM fila_documentos AS um
INNER JOIN fila_documentos AS outro ON um.conteudo_xml = outro.conteudo_xml;
-- @step a_distinct A errors 42883
SELECT DISTINCT conteudo_xml
FROM fila_documentos;
-- @step a_unique A errors 42704
-- And as a unique column?
-- @pt E em uma coluna UNIQUE?
ALTER TABLE fila_documentos ADD UNIQUE (conteudo_xml);
