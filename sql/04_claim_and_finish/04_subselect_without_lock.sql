-- A sub-select without a lock hands one document to both.
-- @pt Um subselect sem bloqueio entrega o mesmo documento aos dois.
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
RETURNING documento_id, worker_id, tentativas;
-- @step b_claims B blocks A
-- B chose document 1 from its snapshot and waits for the row. Which document does B take after A's commit?
-- @pt B escolheu o documento 1 no seu snapshot e espera pela linha. Qual documento B pega depois do COMMIT de A?
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
RETURNING documento_id, worker_id, tentativas;
-- @step a_commits A
COMMIT;
-- @ends b_claims
-- The very same: the re-check asks only whether the row still has that id.
-- @pt O mesmo: a reavaliação só pergunta se a linha ainda tem aquele id.
-- @invariant um_worker_por_documento
-- No document is claimed twice: each claim counts one attempt.
-- @pt Nenhum documento é reservado duas vezes: cada reserva conta uma tentativa.
SELECT documento_id, tentativas
FROM fila_documentos
WHERE tentativas > 1;
