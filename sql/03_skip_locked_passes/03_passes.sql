-- With SKIP LOCKED, B gets document 2 while A holds document 1; the lock_timeout of 2 s is set and not reached.
-- @pt Com SKIP LOCKED, B recebe o documento 2 enquanto A segura o documento 1; o lock_timeout de 2 s está definido e não é atingido.
-- @step a_begin A
BEGIN;
-- @step a_takes A
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;
-- @step b_begin B
BEGIN;
-- @step b_limit B
SET LOCAL lock_timeout = '2s';
-- @step b_shows_limit B
SHOW lock_timeout;
-- @step b_asks B
-- B runs the same query. Which document does B get, and after how long?
-- @pt B executa a mesma consulta. Qual documento B recebe, e depois de quanto tempo?
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;
-- @step b_ends B
COMMIT;
-- @step a_ends A
COMMIT;
