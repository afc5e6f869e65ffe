-- SKIP LOCKED and NOWAIT are about row locks: behind a lock on the table both still wait.
-- @pt SKIP LOCKED e NOWAIT só valem para bloqueios de linha: diante de um bloqueio de tabela, os dois também esperam.
-- @step a_begin A
BEGIN;
-- @step a_locks_table A
-- As an ALTER TABLE would, A locks the whole table.
-- @pt Como faria um ALTER TABLE, A bloqueia a tabela inteira.
LOCK TABLE fila_documentos IN ACCESS EXCLUSIVE MODE;
-- @step b_skips B blocks A
-- Does SKIP LOCKED pass?
-- @pt O SKIP LOCKED passa?
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;
-- @step a_ends A
ROLLBACK;
-- @ends b_skips
-- @step a_begins_again A
BEGIN;
-- @step a_locks_again A
LOCK TABLE fila_documentos IN ACCESS EXCLUSIVE MODE;
-- @step b_nowait B blocks A
-- And NOWAIT, which promises not to wait?
-- @pt E o NOWAIT, que promete não esperar?
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE NOWAIT
LIMIT 1;
-- @step a_ends_again A
ROLLBACK;
-- @ends b_nowait
