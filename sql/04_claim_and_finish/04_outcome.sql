-- Finishing and failing, each in a short transaction of its own, persist; the same statement by another worker changes no row.
-- @pt Concluir e falhar, cada um em uma transação curta própria, ficam gravados; o mesmo comando de outro worker não altera nenhuma linha.
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
-- @step b_claims B
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
-- @step b_finishes_foreign B
-- B tries to finish document 1, which belongs to A. How many rows change?
-- @pt B tenta concluir o documento 1, que é de A. Quantas linhas mudam?
UPDATE fila_documentos
SET status = 'concluido', concluido_em = clock_timestamp(), ultimo_erro = NULL
WHERE documento_id = 1 AND status = 'processando' AND worker_id = 'worker-b'
RETURNING documento_id, status;
-- @step a_finishes A
UPDATE fila_documentos
SET status = 'concluido', concluido_em = clock_timestamp(), ultimo_erro = NULL
WHERE documento_id = 1 AND status = 'processando' AND worker_id = 'worker-a'
RETURNING documento_id, status;
-- @step b_fails B
UPDATE fila_documentos
SET status = 'falhou', concluido_em = clock_timestamp(), ultimo_erro = 'valor ausente'
WHERE documento_id = 2 AND status = 'processando' AND worker_id = 'worker-b'
RETURNING documento_id, status, ultimo_erro;
-- @step a_finishes_again A
-- A sends its finish a second time. How many rows change?
-- @pt A envia a conclusão pela segunda vez. Quantas linhas mudam?
UPDATE fila_documentos
SET status = 'concluido', concluido_em = clock_timestamp(), ultimo_erro = NULL
WHERE documento_id = 1 AND status = 'processando' AND worker_id = 'worker-a'
RETURNING documento_id, status;
-- @step a_reads A
SELECT documento_id, status, worker_id, tentativas
FROM fila_documentos
ORDER BY documento_id;
