-- After a wait the row is re-checked, but the order is the old one: rows come back unsorted.
-- @pt Depois da espera, a linha é reavaliada, mas a ordem é a antiga: as linhas voltam fora de ordem.
-- @step a_begin A
BEGIN;
-- @step a_postpones A
-- A moves document 1 behind all others.
-- @pt A passa o documento 1 para trás de todos os outros.
UPDATE fila_documentos
SET criado_em = '2026-10-16 12:00:09+00'
WHERE documento_id = 1
RETURNING documento_id, criado_em;
-- @step b_asks B blocks A
-- B asks for all pending documents, oldest first. Where will document 1 stand?
-- @pt B pede todos os documentos pendentes, do mais antigo ao mais novo. Em que posição virá o documento 1?
SELECT documento_id, criado_em
FROM fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE;
-- @step a_commits A
COMMIT;
-- @ends b_asks
-- First, with its new time: sorted before the wait, read again after it.
-- @pt Em primeiro, já com o horário novo: ordenado antes da espera, relido depois dela.
