-- Claim, commit, work outside, and a short transaction for the outcome: while A works, no lock is held.
-- @pt Reservar, fazer COMMIT, trabalhar fora e gravar o resultado em uma transação curta: enquanto A trabalha, não há nenhum bloqueio.
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
    iniciado_em = clock_timestamp(),
    concluido_em = NULL,
    ultimo_erro = NULL
FROM proximo
WHERE fila.documento_id = proximo.documento_id
RETURNING fila.documento_id, fila.chave, fila.nome_arquivo, fila.status, fila.worker_id, fila.tentativas;
-- @step c_during_claim C
-- C counts the locks that A holds, inside the claim …
-- @pt C conta os bloqueios que A segura, durante a reserva …
SELECT count(*) > 0 AS a_segura_bloqueios
FROM pg_locks
INNER JOIN pg_stat_activity ON pg_locks.pid = pg_stat_activity.pid
WHERE pg_stat_activity.datname = current_database() AND pg_stat_activity.application_name = 'lab/A';
-- @step a_commits A
COMMIT;
-- @step c_during_work C
-- … and after its commit, while A works on the document. How many are left?
-- @pt … e depois do COMMIT, enquanto A trabalha no documento. Quantos restam?
SELECT
    (SELECT fila.status FROM fila_documentos AS fila WHERE fila.documento_id = 1) AS status,
    count(pg_locks.pid) AS bloqueios_de_a
FROM pg_stat_activity
LEFT JOIN pg_locks ON pg_stat_activity.pid = pg_locks.pid
WHERE pg_stat_activity.datname = current_database() AND pg_stat_activity.application_name = 'lab/A';
-- @step b_asks B
-- Without any lock, what keeps B from taking document 1?
-- @pt Sem nenhum bloqueio, o que impede B de pegar o documento 1?
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;
-- @step a_finishes A
-- Its status: it is no longer pending. A ends with a short transaction.
-- @pt O status: ele não está mais pendente. A termina com uma transação curta.
UPDATE sql_semana_12.fila_documentos
SET status = 'concluido', concluido_em = clock_timestamp(), ultimo_erro = NULL
WHERE documento_id = 1 AND status = 'processando' AND worker_id = 'worker-a'
RETURNING documento_id, chave, status, concluido_em;
