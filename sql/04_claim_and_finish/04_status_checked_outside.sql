-- Checking the status outside the sub-select as well gives B nothing, although three documents are free.
-- @pt Conferir o status também fora do subselect deixa B sem nada, embora três documentos estejam livres.
-- @step a_begin A
BEGIN;
-- @step a_claims A
UPDATE fila_documentos
SET status = 'processando', tentativas = tentativas + 1, worker_id = 'worker-a'
WHERE
    documento_id = (
        SELECT documento_id
        FROM fila_documentos
        WHERE status = 'pendente'
        ORDER BY criado_em, documento_id
        LIMIT 1
    )
    AND status = 'pendente'
RETURNING documento_id, worker_id, tentativas;
-- @step b_claims B blocks A
-- The second condition keeps B from taking document 1 again. Does B get document 2 instead?
-- @pt A segunda condição impede B de pegar o documento 1 outra vez. B recebe o documento 2 no lugar dele?
UPDATE fila_documentos
SET status = 'processando', tentativas = tentativas + 1, worker_id = 'worker-b'
WHERE
    documento_id = (
        SELECT documento_id
        FROM fila_documentos
        WHERE status = 'pendente'
        ORDER BY criado_em, documento_id
        LIMIT 1
    )
    AND status = 'pendente'
RETURNING documento_id, worker_id, tentativas;
-- @step a_commits A
COMMIT;
-- @ends b_claims
-- @step b_counts B
SELECT count(*) AS pendentes
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente';
