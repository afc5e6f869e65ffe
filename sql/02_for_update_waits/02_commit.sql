-- If A marked the document and committed, B re-checks the row it waited for and moves on to document 2.
-- @pt Se A marcou o documento e fez COMMIT, B reavalia a linha pela qual esperava e segue para o documento 2.
-- @step a_begin A
BEGIN;
-- @step a_takes A
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE
LIMIT 1;
-- @step a_marks A
UPDATE fila_documentos
SET status = 'processando', worker_id = 'worker-a', tentativas = tentativas + 1
WHERE documento_id = 1
RETURNING documento_id, status;
-- @step b_begin B
BEGIN;
-- @step b_asks B blocks A
-- For B's snapshot document 1 is still pending. Which document will B get?
-- @pt No snapshot de B, o documento 1 ainda está pendente. Qual documento B vai receber?
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE
LIMIT 1;
-- @step a_commits A
COMMIT;
-- @ends b_asks
-- After the wait B looked at the newest version of row 1, saw that it is no longer pending, and took the next one.
-- @pt Depois da espera, B olhou a versão mais nova da linha 1, viu que ela não estava mais pendente e pegou a seguinte.
-- @step b_ends B
COMMIT;
