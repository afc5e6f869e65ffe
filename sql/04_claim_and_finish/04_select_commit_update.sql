-- SELECT, COMMIT, then UPDATE: two workers take the same document.
-- @pt SELECT, COMMIT e só depois UPDATE: dois workers pegam o mesmo documento.
-- @step a_begin A
BEGIN;
-- @step a_chooses A
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;
-- @step a_commits A
-- The lock is gone, the mark not yet made.
-- @pt O bloqueio já se foi, e o documento ainda não foi marcado.
COMMIT;
-- @step b_begin B
BEGIN;
-- @step b_chooses B
-- Which document does B choose?
-- @pt Qual documento B escolhe?
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;
-- @step b_commits B
COMMIT;
-- @step a_marks A
UPDATE fila_documentos
SET status = 'processando', tentativas = tentativas + 1, worker_id = 'worker-a'
WHERE documento_id = 1
RETURNING documento_id, worker_id, tentativas;
-- @step b_marks B
UPDATE fila_documentos
SET status = 'processando', tentativas = tentativas + 1, worker_id = 'worker-b'
WHERE documento_id = 1
RETURNING documento_id, worker_id, tentativas;
-- @step a_reads A
-- Two workers work on document 1, and only one of them is on record.
-- @pt Dois workers trabalham no documento 1, e só um deles consta na tabela.
SELECT documento_id, chave, status, worker_id, tentativas
FROM sql_semana_12.fila_documentos
ORDER BY documento_id;
