-- The restore puts every document back; then the two sessions claim again what they claimed before, as if for the first time.
-- @pt A restauração devolve todos os documentos à fila; depois, as duas sessões reservam de novo os mesmos, como se fosse a primeira vez.
-- @setup
UPDATE sql_semana_12.fila_documentos
SET status = 'concluido', tentativas = 1, worker_id = 'worker-c', iniciado_em = clock_timestamp(), concluido_em = clock_timestamp()
WHERE documento_id = 3;
UPDATE sql_semana_12.fila_documentos
SET
    status = 'falhou',
    tentativas = 1,
    worker_id = 'worker-c',
    iniciado_em = clock_timestamp(),
    concluido_em = clock_timestamp(),
    ultimo_erro = 'Falha sintética ao enviar documento'
WHERE documento_id = 4;
-- @step a_claims A
-- Worker C has finished document 3 and failed document 4.
-- @pt O worker C concluiu o documento 3 e falhou no documento 4.
WITH proximo AS (
    SELECT documento_id
    FROM sql_semana_12.fila_documentos
    WHERE status = 'pendente'
    ORDER BY criado_em, documento_id
    FOR UPDATE SKIP LOCKED
    LIMIT 1
)
UPDATE sql_semana_12.fila_documentos AS fila
SET
    status = 'processando',
    worker_id = 'worker-a',
    tentativas = tentativas + 1,
    iniciado_em = clock_timestamp()
FROM proximo
WHERE fila.documento_id = proximo.documento_id
RETURNING fila.documento_id, fila.chave, fila.worker_id;
-- @step b_claims B
WITH proximo AS (
    SELECT documento_id
    FROM sql_semana_12.fila_documentos
    WHERE status = 'pendente'
    ORDER BY criado_em, documento_id
    FOR UPDATE SKIP LOCKED
    LIMIT 1
)
UPDATE sql_semana_12.fila_documentos AS fila
SET
    status = 'processando',
    worker_id = 'worker-b',
    tentativas = tentativas + 1,
    iniciado_em = clock_timestamp()
FROM proximo
WHERE fila.documento_id = proximo.documento_id
RETURNING fila.documento_id, fila.chave, fila.worker_id;
-- @step a_restores A
-- No worker has them any more, so the restore of the episode does no harm here. From lesson 05 on it does.
-- @pt Ninguém está trabalhando neles, então a restauração do episódio não faz mal aqui. Da lição 05 em diante, faz.
UPDATE sql_semana_12.fila_documentos
SET
    status = 'pendente',
    tentativas = 0,
    worker_id = NULL,
    iniciado_em = NULL,
    concluido_em = NULL,
    ultimo_erro = NULL;
-- @step a_looks A
-- How many documents are as new, with no trace of a worker, a start, an end or an error?
-- @pt Quantos documentos estão como novos, sem vestígio de worker, início, fim ou erro?
SELECT count(*) AS como_novos
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente' AND tentativas = 0 AND num_nonnulls(worker_id, iniciado_em, concluido_em, ultimo_erro) = 0;
-- @step a_begin A
BEGIN;
-- @step a_claims_again A
WITH proximo AS (
    SELECT documento_id
    FROM sql_semana_12.fila_documentos
    WHERE status = 'pendente'
    ORDER BY criado_em, documento_id
    FOR UPDATE SKIP LOCKED
    LIMIT 1
)
UPDATE sql_semana_12.fila_documentos AS fila
SET
    status = 'processando',
    worker_id = 'worker-a',
    tentativas = tentativas + 1,
    iniciado_em = clock_timestamp()
FROM proximo
WHERE fila.documento_id = proximo.documento_id
RETURNING fila.documento_id, fila.chave, fila.worker_id;
-- @step b_begin B
BEGIN;
-- @step b_claims_again B
-- Which document does B get this time?
-- @pt Qual documento B recebe desta vez?
WITH proximo AS (
    SELECT documento_id
    FROM sql_semana_12.fila_documentos
    WHERE status = 'pendente'
    ORDER BY criado_em, documento_id
    FOR UPDATE SKIP LOCKED
    LIMIT 1
)
UPDATE sql_semana_12.fila_documentos AS fila
SET
    status = 'processando',
    worker_id = 'worker-b',
    tentativas = tentativas + 1,
    iniciado_em = clock_timestamp()
FROM proximo
WHERE fila.documento_id = proximo.documento_id
RETURNING fila.documento_id, fila.chave, fila.worker_id;
-- @step a_commits A
COMMIT;
-- @step b_commits B
COMMIT;
-- @step a_reads A
SELECT documento_id, chave, status, worker_id, tentativas
FROM sql_semana_12.fila_documentos
ORDER BY documento_id;
