-- A worker that works inside its claim transaction makes everyone else who needs that row wait.
-- @pt Um worker que trabalha dentro da transação de reserva faz todos os que precisam daquela linha esperarem.
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
-- @step o_reads O
-- A works on, its transaction open. An operator asks who has document 1. What does the table say?
-- @pt A continua trabalhando, com a transação aberta. Um operador pergunta quem está com o documento 1. O que diz a tabela?
SELECT documento_id, status, worker_id
FROM fila_documentos
WHERE documento_id = 1;
-- @step o_corrects O blocks A
-- Pending and without a worker: the claim is invisible. The operator corrects the file name.
-- @pt Pendente e de ninguém: a reserva é invisível. O operador corrige o nome do arquivo.
UPDATE fila_documentos
SET nome_arquivo = 'nfe-0001-corrigido.xml'
WHERE documento_id = 1
RETURNING documento_id, worker_id;
-- @step a_commits A
COMMIT;
-- @ends o_corrects
