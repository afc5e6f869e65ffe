-- The single-statement claim takes exactly one row a call: chosen in a CTE, marked by UPDATE, given back by RETURNING.
-- @pt A reserva em um único comando pega exatamente uma linha por chamada: escolhida na CTE, marcada por UPDATE, devolvida por RETURNING.
-- @step a_begin A
BEGIN;
-- @step a_claims A
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
-- @step b_limit B
SET LOCAL lock_timeout = '2s';
-- @step b_shows_limit B
SHOW lock_timeout;
-- @step b_claims B
-- A has not committed yet. Which document does B claim, and after how long?
-- @pt A ainda não fez COMMIT. Qual documento B reserva, e depois de quanto tempo?
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
-- Both have committed. What does the queue look like?
-- @pt Os dois fizeram COMMIT. Como ficou a fila?
SELECT documento_id, chave, status, worker_id, tentativas
FROM sql_semana_12.fila_documentos
ORDER BY documento_id;
-- @invariant um_worker_por_documento
-- No document is claimed twice: each claim counts one attempt.
-- @pt Nenhum documento é reservado duas vezes: cada reserva conta uma tentativa.
SELECT documento_id, tentativas
FROM sql_semana_12.fila_documentos
WHERE tentativas > 1;
