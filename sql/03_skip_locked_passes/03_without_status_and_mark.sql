-- A query that asks for the due rows only, without their status and without marking them, hands out finished work, and the same to all.
-- @pt Uma consulta que só pede as linhas vencidas, sem o status e sem marcá-las, entrega trabalho concluído, e o mesmo a todos.
-- @setup
UPDATE sql_semana_12.fila_documentos
SET criado_em = criado_em - INTERVAL '10 years';
UPDATE sql_semana_12.fila_documentos
SET status = 'processando', worker_id = 'worker-c', tentativas = 1
WHERE documento_id = 1;
UPDATE sql_semana_12.fila_documentos
SET status = 'concluido', worker_id = 'worker-c', tentativas = 1, concluido_em = clock_timestamp()
WHERE documento_id = 2;
-- @step a_asks A
-- Worker C has document 1 in work and document 2 finished. Which documents does A get?
-- @pt O worker C está com o documento 1 e já concluiu o 2. Quais documentos A recebe?
SELECT documento_id
FROM sql_semana_12.fila_documentos
WHERE criado_em <= now()
FOR UPDATE SKIP LOCKED;
-- @step b_asks B
-- All four. Its statement has ended, and with it the locks. Which ones does B get?
-- @pt Os quatro. O comando de A terminou, e com ele os bloqueios. Quais B recebe?
SELECT documento_id
FROM sql_semana_12.fila_documentos
WHERE criado_em <= now()
FOR UPDATE SKIP LOCKED;
