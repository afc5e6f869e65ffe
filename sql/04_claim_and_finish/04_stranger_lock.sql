-- A SKIP LOCKED claim can leave a lock on a row that another worker has already taken, so that the owner's finish waits for a stranger.
-- @pt Uma reserva com SKIP LOCKED pode bloquear uma linha que outro worker já pegou, e então a conclusão do dono espera por um estranho.
-- @step a_begin A
BEGIN;
-- @step a_closes_gate A
-- The advisory lock is a gate: it holds B's statement between its snapshot and its first row.
-- @pt O advisory lock é um portão: segura o comando de B entre o snapshot e a primeira linha.
SELECT pg_advisory_xact_lock(4) IS NOT NULL AS portao_fechado;
-- @step b_begin B
BEGIN;
-- @step b_claims B blocks A
-- B's snapshot is taken now: in it, document 1 is pending.
-- @pt O snapshot de B é tirado agora: nele, o documento 1 está pendente.
WITH portao AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(4) AS passou
), proximo AS (
    SELECT fila.documento_id
    FROM fila_documentos AS fila
    CROSS JOIN portao
    WHERE fila.status = 'pendente'
    ORDER BY fila.criado_em, fila.documento_id
    FOR UPDATE OF fila SKIP LOCKED
    LIMIT 1
)
UPDATE fila_documentos AS fila
SET status = 'processando', tentativas = fila.tentativas + 1, worker_id = 'worker-b'
FROM proximo
WHERE fila.documento_id = proximo.documento_id
RETURNING fila.documento_id, fila.chave;
-- @step a_claims A
UPDATE fila_documentos
SET status = 'processando', tentativas = tentativas + 1, worker_id = 'worker-a'
WHERE documento_id = 1
RETURNING documento_id, worker_id;
-- @step a_commits A
-- A's claim is committed and the gate opens. Which document does B claim?
-- @pt A reserva de A já teve COMMIT, e o portão se abre. Qual documento B reserva?
COMMIT;
-- @ends b_claims
-- Document 2, as it should. But on its way it locked the newest version of document 1, before it saw that A has it.
-- @pt O documento 2, como devia. Mas, no caminho, B bloqueou a versão mais nova do documento 1, antes de ver que ele é de A.
-- @step a_finishes A blocks B
-- A finishes its own document. Does anything hold A up?
-- @pt A conclui o próprio documento. Alguma coisa faz A esperar?
UPDATE sql_semana_12.fila_documentos
SET status = 'concluido', concluido_em = clock_timestamp(), ultimo_erro = NULL
WHERE documento_id = 1 AND status = 'processando' AND worker_id = 'worker-a'
RETURNING documento_id, chave, status, concluido_em;
-- @step b_commits B
-- A short claim transaction is what keeps this wait short.
-- @pt Uma transação de reserva curta é o que mantém essa espera curta.
COMMIT;
-- @ends a_finishes
