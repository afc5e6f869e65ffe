-- Claiming in steps, by an array of ids that this transaction has locked, claims and gives back what the one statement would.
-- @pt Reservar em etapas, por um array de ids que esta transação bloqueou, reserva e devolve o mesmo que o comando único.
-- @step a_claims A
-- A claims document 1, and dies before it ends it. Its name lives on.
-- @pt A reserva o documento 1 e morre antes de encerrá-lo. O nome dele continua em uso.
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
RETURNING fila.documento_id, fila.chave, fila.worker_id;
-- @step b_begin B
-- B is the new process of that name. First the one statement, for two documents …
-- @pt B é o novo processo com esse nome. Primeiro o comando único, para dois documentos …
BEGIN;
-- @step b_claims B
WITH proximos AS (
    SELECT documento_id
    FROM sql_semana_12.fila_documentos
    WHERE status = 'pendente'
    ORDER BY criado_em, documento_id
    FOR UPDATE SKIP LOCKED
    LIMIT 2
)
UPDATE sql_semana_12.fila_documentos AS fila
SET
    status = 'processando',
    worker_id = 'worker-a',
    tentativas = tentativas + 1,
    iniciado_em = clock_timestamp(),
    concluido_em = NULL,
    ultimo_erro = NULL
FROM proximos
WHERE fila.documento_id = proximos.documento_id
RETURNING fila.documento_id, fila.chave, fila.worker_id;
-- @step b_rolls_back B
-- … taken back, so that the steps begin where it began.
-- @pt … desfeito, para que as etapas partam do mesmo ponto.
ROLLBACK;
-- @step b_begin_again B
BEGIN;
-- @step b_chooses B
-- The first step chooses, locks and keeps the ids. (The functions of the later lessons keep them in a variable.)
-- @pt A primeira etapa escolhe, bloqueia e guarda os ids. (As funções das próximas lições os guardam em uma variável.)
WITH proximos AS (
    SELECT documento_id
    FROM sql_semana_12.fila_documentos
    WHERE status = 'pendente'
    ORDER BY criado_em, documento_id
    FOR UPDATE SKIP LOCKED
    LIMIT 2
)
SELECT set_config('lab.escolhidos', array_agg(documento_id)::TEXT, TRUE) AS escolhidos
FROM proximos;
-- @step c_cancels C blocks B
-- Between the steps C wants to cancel one of them, which is still pending to it. Can it?
-- @pt Entre as etapas, C quer cancelar um deles, que para C ainda está pendente. Consegue?
UPDATE sql_semana_12.fila_documentos
SET status = 'falhou', concluido_em = clock_timestamp(), ultimo_erro = 'cancelado'
WHERE documento_id = 2 AND status = 'pendente'
RETURNING documento_id, status;
-- @step b_marks B
UPDATE sql_semana_12.fila_documentos
SET
    status = 'processando',
    worker_id = 'worker-a',
    tentativas = tentativas + 1,
    iniciado_em = clock_timestamp(),
    concluido_em = NULL,
    ultimo_erro = NULL
WHERE documento_id = ANY(current_setting('lab.escolhidos')::BIGINT[]);
-- @step b_gives_back B
-- Read by the ids. Is document 1 among them, which is in processando under the same name?
-- @pt Leitura pelos ids. O documento 1, que está em processando com o mesmo nome, aparece?
SELECT documento_id, chave, worker_id
FROM sql_semana_12.fila_documentos
WHERE documento_id = ANY(current_setting('lab.escolhidos')::BIGINT[])
ORDER BY criado_em, documento_id;
-- @step b_reads_by_name B
-- And read by name and state?
-- @pt E na leitura por nome e estado?
SELECT documento_id, chave, worker_id
FROM sql_semana_12.fila_documentos
WHERE status = 'processando' AND worker_id = 'worker-a'
ORDER BY criado_em, documento_id;
-- @step b_commits B
COMMIT;
-- @ends c_cancels
-- C cancelled nothing: by now document 2 is in work.
-- @pt C não cancelou nada: a essa altura, o documento 2 já está em processamento.
