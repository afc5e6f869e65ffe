-- The lock ends with the transaction: under autocommit a bare SELECT … FOR UPDATE protects nothing, and both get document 1.
-- @pt O bloqueio termina com a transação: em autocommit, um SELECT … FOR UPDATE sozinho não protege nada, e os dois recebem o documento 1.
-- @step a_asks A
-- No BEGIN here: each statement is its own transaction. A gets document 1.
-- @pt Sem BEGIN, cada comando é uma transação própria. A recebe o documento 1.
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;
-- @step b_asks B
-- A is working on it. Which document does B get?
-- @pt A está trabalhando nele. Qual documento B recebe?
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;
