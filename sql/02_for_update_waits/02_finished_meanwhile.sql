-- A row that was finished while B waited drops out of B's result.
-- @pt Uma linha concluída enquanto B esperava sai do resultado de B.
-- @step a_begin A
BEGIN;
-- @step a_finishes A
UPDATE fila_documentos
SET status = 'concluido', concluido_em = clock_timestamp()
WHERE documento_id = 2
RETURNING documento_id, status;
-- @step b_asks B blocks A
-- B's snapshot holds four pending documents. How many will B get?
-- @pt O snapshot de B tem quatro documentos pendentes. Quantos B vai receber?
SELECT documento_id
FROM fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE;
-- @step a_commits A
COMMIT;
-- @ends b_asks
