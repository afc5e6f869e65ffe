-- Without a timeout B waits for as long as A lives, and gets document 1 if A rolls back.
-- @pt Sem timeout, B espera enquanto A durar e recebe o documento 1 se A fizer ROLLBACK.
-- @step a_begin A
BEGIN;
-- @step a_takes A
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE
LIMIT 1;
-- @step b_begin B
BEGIN;
-- @step b_asks B blocks A
-- B sets no timeout. What ends its wait?
-- @pt B não define timeout. O que encerra a espera?
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE
LIMIT 1;
-- @step a_gives_up A
-- A gives up: its transaction never happened. Which document does B get?
-- @pt A desiste: é como se a transação nunca tivesse acontecido. Qual documento B recebe?
ROLLBACK;
-- @ends b_asks
-- Document 1, the very one it waited for.
-- @pt O documento 1, justamente aquele pelo qual esperava.
-- @step b_ends B
COMMIT;
