-- A report run with SKIP LOCKED counts wrong while others hold locks.
-- @pt Um relatório feito com SKIP LOCKED conta errado enquanto outras sessões seguram bloqueios.
-- @step a_begin A
BEGIN;
-- @step a_takes A
SELECT documento_id
FROM fila_documentos
WHERE documento_id IN (1, 2)
ORDER BY documento_id
FOR UPDATE;
-- @step b_reports B
-- Four documents are in the table. How many does this report see?
-- @pt Há quatro documentos na tabela. Quantos este relatório vê?
WITH vistos AS (
    SELECT documento_id
    FROM fila_documentos
    FOR UPDATE SKIP LOCKED
)
SELECT count(*) AS documentos
FROM vistos;
-- @step b_counts B
-- A plain read needs no row lock and does not wait:
-- @pt Uma leitura comum não precisa de bloqueio de linha e não espera por ninguém:
SELECT count(*) AS documentos
FROM fila_documentos;
-- @step a_ends A
COMMIT;
