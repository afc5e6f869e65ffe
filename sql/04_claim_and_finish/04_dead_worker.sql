-- A worker that dies after its claim's commit leaves its document in processando: no lock is left, and no claim will take it.
-- @pt Um worker que morre depois do COMMIT da reserva deixa o documento em processando: não resta bloqueio, e ninguém vai pegá-lo.
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
-- @step c_kills C
-- A's connection is cut while A works on document 1.
-- @pt A conexão de A é cortada enquanto A trabalha no documento 1.
SELECT pg_terminate_backend(pid, 5000) AS encerrado
FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'lab/A';
-- @step c_looks C
-- How many locks does the dead worker hold, and in which state is its document?
-- @pt Quantos bloqueios o worker morto segura, e em que estado está o documento dele?
SELECT
    (
        SELECT count(*)
        FROM pg_locks
        INNER JOIN pg_stat_activity ON pg_locks.pid = pg_stat_activity.pid
        WHERE pg_stat_activity.datname = current_database() AND pg_stat_activity.application_name = 'lab/A'
    ) AS bloqueios_de_a,
    status,
    worker_id
FROM fila_documentos
WHERE documento_id = 1;
-- @step b_asks B
-- Will SKIP LOCKED ever give document 1 to B?
-- @pt Algum dia o SKIP LOCKED vai entregar o documento 1 a B?
SELECT documento_id
FROM fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED;
