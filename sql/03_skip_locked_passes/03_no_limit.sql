-- A claim with neither LIMIT nor ORDER BY locks the whole queue.
-- @pt Uma reserva sem LIMIT nem ORDER BY bloqueia a fila inteira.
-- @step a_begin A
BEGIN;
-- @step a_takes A
-- A forgets the LIMIT and will work on the first row it reads. How many rows does A hold?
-- @pt A esquece o LIMIT e vai trabalhar na primeira linha que ler. Quantas linhas A segura?
WITH bloqueados AS (
    SELECT documento_id
    FROM fila_documentos
    WHERE status = 'pendente'
    FOR UPDATE SKIP LOCKED
)
SELECT count(*) AS bloqueados
FROM bloqueados;
-- @step b_asks B
-- What is left for B?
-- @pt O que sobra para B?
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;
-- @step a_ends A
COMMIT;
