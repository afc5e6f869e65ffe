-- 04 claim_and_finish: how does a worker take a document, work without a lock, and end?
-- @pt Como um worker pega um documento, trabalha sem bloqueio e termina?
--
-- Needs  sql/01_queue.sql
-- Run    psql -X -f sql/04_claim_and_finish.sql          (again whenever you like: it starts from reset.sql)
-- See    document 1 concluido, document 2 falhou, one attempt each; a stranger's finish changes no row.
-- @pt Precisa de sql/01_queue.sql. Pode rodar de novo quando quiser: ele começa com reset.sql.
-- @pt Veja o documento 1 concluido e o 2 falhou, com uma tentativa cada; a conclusão feita por um estranho não altera nenhuma linha.

\set ON_ERROR_STOP on
\setenv PSQL_PAGER ''
SET client_min_messages = warning;
\ir reset.sql

-- 1  Claim: choose, mark and give back in one statement. 2  Commit: under autocommit, at once.
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

-- 3  Work outside: no transaction is open here.

-- 4  A short transaction for the outcome, guarded by id, state and worker. A stranger changes nothing …
UPDATE sql_semana_12.fila_documentos
SET status = 'concluido', concluido_em = clock_timestamp(), ultimo_erro = NULL
WHERE documento_id = 1 AND status = 'processando' AND worker_id = 'worker-b'
RETURNING documento_id, chave, status, concluido_em;

-- … the owner one row.
UPDATE sql_semana_12.fila_documentos
SET status = 'concluido', concluido_em = clock_timestamp(), ultimo_erro = NULL
WHERE documento_id = 1 AND status = 'processando' AND worker_id = 'worker-a'
RETURNING documento_id, chave, status, concluido_em;

-- 5  The next one. This attempt fails, and says why.
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

UPDATE sql_semana_12.fila_documentos
SET status = 'falhou', concluido_em = clock_timestamp(), ultimo_erro = 'Falha sintética ao enviar documento'
WHERE documento_id = 2 AND status = 'processando' AND worker_id = 'worker-b'
RETURNING documento_id, chave, status, tentativas, ultimo_erro;

SELECT documento_id, chave, status, worker_id, tentativas
FROM sql_semana_12.fila_documentos
ORDER BY documento_id;
