-- The shorter claim of the two sessions leaves concluido_em and ultimo_erro of an earlier attempt in place; the full one clears them.
-- @pt A reserva mais curta das duas sessões deixa concluido_em e ultimo_erro da tentativa anterior; a forma completa os limpa.
-- @setup
UPDATE sql_semana_12.fila_documentos
SET concluido_em = clock_timestamp(), ultimo_erro = 'Falha sintética ao enviar documento', tentativas = 1
WHERE documento_id IN (1, 2);
-- @step a_claims A
-- Documents 1 and 2 failed once and were put back by hand. A claims with the two sessions' form.
-- @pt Os documentos 1 e 2 falharam uma vez e foram devolvidos à mão. A reserva com a forma das duas sessões.
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
-- B claims with the full form.
-- @pt B reserva com a forma completa.
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
-- @step c_reads C
-- Both are in work. Which of them looks as if it had already ended, in error?
-- @pt Os dois estão em processamento. Qual deles parece já ter terminado, com erro?
SELECT
    documento_id,
    status,
    concluido_em IS NOT NULL AS terminado,
    ultimo_erro
FROM sql_semana_12.fila_documentos
WHERE documento_id IN (1, 2)
ORDER BY documento_id;
