-- The single-statement claim takes exactly one row a call: chosen in a CTE, marked by UPDATE, given back by RETURNING.
-- @pt A reserva em um único comando pega exatamente uma linha por chamada: escolhida na CTE, marcada por UPDATE, devolvida por RETURNING.
-- @step a_begin A
BEGIN;
-- @step a_claims A
WITH escolhido AS (
    SELECT documento_id
    FROM fila_documentos
    WHERE status = 'pendente'
    ORDER BY criado_em, documento_id
    FOR UPDATE SKIP LOCKED
    LIMIT 1
)
UPDATE fila_documentos AS fila
SET
    status = 'processando',
    tentativas = fila.tentativas + 1,
    worker_id = 'worker-a',
    iniciado_em = clock_timestamp(),
    concluido_em = NULL,
    ultimo_erro = NULL
FROM escolhido
WHERE fila.documento_id = escolhido.documento_id
RETURNING fila.documento_id, fila.chave, fila.tentativas;
-- @step b_begin B
BEGIN;
-- @step b_claims B
-- A has not committed yet. Which document does B claim?
-- @pt A ainda não fez COMMIT. Qual documento B reserva?
WITH escolhido AS (
    SELECT documento_id
    FROM fila_documentos
    WHERE status = 'pendente'
    ORDER BY criado_em, documento_id
    FOR UPDATE SKIP LOCKED
    LIMIT 1
)
UPDATE fila_documentos AS fila
SET
    status = 'processando',
    tentativas = fila.tentativas + 1,
    worker_id = 'worker-b',
    iniciado_em = clock_timestamp(),
    concluido_em = NULL,
    ultimo_erro = NULL
FROM escolhido
WHERE fila.documento_id = escolhido.documento_id
RETURNING fila.documento_id, fila.chave, fila.tentativas;
-- @step a_commits A
COMMIT;
-- @step b_commits B
COMMIT;
-- @step a_reads A
-- Both have committed. What does the queue look like?
-- @pt Os dois fizeram COMMIT. Como ficou a fila?
SELECT documento_id, status, worker_id, tentativas
FROM fila_documentos
ORDER BY documento_id;
