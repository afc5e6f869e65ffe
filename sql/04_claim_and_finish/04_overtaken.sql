-- The order of the claims is no order of completion: while A works on document 1, the oldest, B claims and finishes 2, and then 3.
-- @pt A ordem das reservas não é a de conclusão: enquanto A trabalha no documento 1, o mais antigo, B reserva e conclui o 2 e depois o 3.
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
    iniciado_em = clock_timestamp(),
    concluido_em = NULL,
    ultimo_erro = NULL
FROM proximo
WHERE fila.documento_id = proximo.documento_id
RETURNING fila.documento_id, fila.chave, fila.nome_arquivo, fila.status, fila.worker_id, fila.tentativas;
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
    iniciado_em = clock_timestamp(),
    concluido_em = NULL,
    ultimo_erro = NULL
FROM proximo
WHERE fila.documento_id = proximo.documento_id
RETURNING fila.documento_id, fila.chave, fila.nome_arquivo, fila.status, fila.worker_id, fila.tentativas;
-- @step b_finishes B
UPDATE sql_semana_12.fila_documentos
SET status = 'concluido', concluido_em = clock_timestamp(), ultimo_erro = NULL
WHERE documento_id = 2 AND status = 'processando' AND worker_id = 'worker-b'
RETURNING documento_id, chave, status, concluido_em;
-- @step b_claims_again B
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
    iniciado_em = clock_timestamp(),
    concluido_em = NULL,
    ultimo_erro = NULL
FROM proximo
WHERE fila.documento_id = proximo.documento_id
RETURNING fila.documento_id, fila.chave, fila.nome_arquivo, fila.status, fila.worker_id, fila.tentativas;
-- @step b_finishes_again B
UPDATE sql_semana_12.fila_documentos
SET status = 'concluido', concluido_em = clock_timestamp(), ultimo_erro = NULL
WHERE documento_id = 3 AND status = 'processando' AND worker_id = 'worker-b'
RETURNING documento_id, chave, status, concluido_em;
-- @step c_reads C
-- Which documents have ended, and where is the oldest one?
-- @pt Quais documentos terminaram, e onde está o mais antigo?
SELECT documento_id, chave, status, worker_id
FROM sql_semana_12.fila_documentos
ORDER BY criado_em, documento_id;
