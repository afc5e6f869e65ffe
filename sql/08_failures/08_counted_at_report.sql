-- Attempts that are counted when a failure is reported never stop a document that kills its worker.
-- @pt Tentativas contadas só quando a falha é relatada nunca detêm um documento que derruba o worker.
-- @setup
DELETE FROM fila_documentos
WHERE documento_id > 1;
UPDATE fila_documentos
SET max_tentativas = 2
WHERE documento_id = 1;
-- @step a_claims A
-- This claim counts nothing: the worker will, when it reports a failure. Two attempts are allowed.
-- @pt Esta reserva não conta nada: o worker contará, quando relatar uma falha. São permitidas duas tentativas.
UPDATE fila_documentos
SET status = 'processando', worker_id = 'worker-a', reservado_ate = relogio() + INTERVAL '30 seconds'
WHERE
    documento_id = (
        SELECT documento_id
        FROM fila_documentos
        WHERE status = 'pendente' AND tentativas < max_tentativas
        ORDER BY disponivel_em, documento_id
        FOR UPDATE SKIP LOCKED
        LIMIT 1
    )
RETURNING documento_id, tentativas, max_tentativas;
-- @step c_kills_a C
SELECT pg_terminate_backend(pid, 5000) AS encerrado
FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'lab/A';
-- @step c_waits C
UPDATE relogio_do_laboratorio
SET adiantado = adiantado + INTERVAL '1 hour'
RETURNING adiantado;
-- @step c_recovers C
UPDATE fila_documentos
SET status = 'pendente', worker_id = NULL, reservado_ate = NULL
WHERE status = 'processando' AND reservado_ate < relogio()
RETURNING documento_id, status, tentativas;
-- @step b_claims B
UPDATE fila_documentos
SET status = 'processando', worker_id = 'worker-b', reservado_ate = relogio() + INTERVAL '30 seconds'
WHERE
    documento_id = (
        SELECT documento_id
        FROM fila_documentos
        WHERE status = 'pendente' AND tentativas < max_tentativas
        ORDER BY disponivel_em, documento_id
        FOR UPDATE SKIP LOCKED
        LIMIT 1
    )
RETURNING documento_id, tentativas, max_tentativas;
-- @step c_kills_b C
SELECT pg_terminate_backend(pid, 5000) AS encerrado
FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'lab/B';
-- @step c_waits_more C
UPDATE relogio_do_laboratorio
SET adiantado = adiantado + INTERVAL '1 hour'
RETURNING adiantado;
-- @step c_recovers_again C
UPDATE fila_documentos
SET status = 'pendente', worker_id = NULL, reservado_ate = NULL
WHERE status = 'processando' AND reservado_ate < relogio()
RETURNING documento_id, status, tentativas;
-- @step d_claims D
-- Two workers are dead. Does a third one get the document?
-- @pt Dois workers caíram. Um terceiro recebe o documento?
UPDATE fila_documentos
SET status = 'processando', worker_id = 'worker-d', reservado_ate = relogio() + INTERVAL '30 seconds'
WHERE
    documento_id = (
        SELECT documento_id
        FROM fila_documentos
        WHERE status = 'pendente' AND tentativas < max_tentativas
        ORDER BY disponivel_em, documento_id
        FOR UPDATE SKIP LOCKED
        LIMIT 1
    )
RETURNING documento_id, tentativas, max_tentativas;
