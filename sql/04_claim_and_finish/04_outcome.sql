-- Finishing and failing, each in a short transaction of its own, persist; the same statement by another worker changes no row.
-- @pt Concluir e falhar, cada um em uma transação curta própria, ficam gravados; o mesmo comando de outro worker não altera nenhuma linha.
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
-- @step b_finishes_foreign B
-- B tries to finish document 1, which belongs to A. How many rows change?
-- @pt B tenta concluir o documento 1, que é de A. Quantas linhas mudam?
UPDATE sql_semana_12.fila_documentos
SET status = 'concluido', concluido_em = clock_timestamp(), ultimo_erro = NULL
WHERE documento_id = 1 AND status = 'processando' AND worker_id = 'worker-b'
RETURNING documento_id, chave, status, concluido_em;
-- @step a_finishes A
UPDATE sql_semana_12.fila_documentos
SET status = 'concluido', concluido_em = clock_timestamp(), ultimo_erro = NULL
WHERE documento_id = 1 AND status = 'processando' AND worker_id = 'worker-a'
RETURNING documento_id, chave, status, concluido_em;
-- @step b_fails B
UPDATE sql_semana_12.fila_documentos
SET status = 'falhou', concluido_em = clock_timestamp(), ultimo_erro = 'Falha sintética ao enviar documento'
WHERE documento_id = 2 AND status = 'processando' AND worker_id = 'worker-b'
RETURNING documento_id, chave, status, tentativas, ultimo_erro;
-- @step a_finishes_again A
-- A sends its finish a second time. How many rows change?
-- @pt A envia a conclusão pela segunda vez. Quantas linhas mudam?
UPDATE sql_semana_12.fila_documentos
SET status = 'concluido', concluido_em = clock_timestamp(), ultimo_erro = NULL
WHERE documento_id = 1 AND status = 'processando' AND worker_id = 'worker-a'
RETURNING documento_id, chave, status, concluido_em;
-- @step c_reads C
-- Are both outcomes there for all to see?
-- @pt Os dois resultados estão à vista de todos?
SELECT documento_id, chave, status, worker_id, tentativas
FROM sql_semana_12.fila_documentos
ORDER BY documento_id;
