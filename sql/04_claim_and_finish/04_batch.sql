-- With LIMIT 10 in place of LIMIT 1 one call claims a small batch: of four documents A takes four, and B none.
-- @pt Com LIMIT 10 no lugar de LIMIT 1, uma chamada reserva um pequeno lote: de quatro documentos, A pega quatro, e B nenhum.
-- @step a_begin A
BEGIN;
-- @step a_claims A
WITH proximos AS (
    SELECT documento_id
    FROM sql_semana_12.fila_documentos
    WHERE status = 'pendente'
    ORDER BY criado_em, documento_id
    FOR UPDATE SKIP LOCKED
    LIMIT 10
)
UPDATE sql_semana_12.fila_documentos AS fila
SET
    status = 'processando',
    worker_id = 'worker-a',
    tentativas = tentativas + 1,
    iniciado_em = clock_timestamp()
FROM proximos
WHERE fila.documento_id = proximos.documento_id
RETURNING fila.documento_id, fila.chave, fila.nome_arquivo;
-- @step b_begin B
BEGIN;
-- @step b_claims B
-- B asks for as many. How many documents does B get?
-- @pt B pede a mesma quantidade. Quantos documentos B recebe?
WITH proximos AS (
    SELECT documento_id
    FROM sql_semana_12.fila_documentos
    WHERE status = 'pendente'
    ORDER BY criado_em, documento_id
    FOR UPDATE SKIP LOCKED
    LIMIT 10
)
UPDATE sql_semana_12.fila_documentos AS fila
SET
    status = 'processando',
    worker_id = 'worker-b',
    tentativas = tentativas + 1,
    iniciado_em = clock_timestamp()
FROM proximos
WHERE fila.documento_id = proximos.documento_id
RETURNING fila.documento_id, fila.chave, fila.nome_arquivo;
-- @step b_ends B
COMMIT;
-- @step a_commits A
COMMIT;
-- @step a_reads A
-- The four wait for one consumer now, each behind those before it.
-- @pt Agora os quatro esperam por um só consumidor, cada um atrás dos anteriores.
SELECT documento_id, chave, status, worker_id, tentativas
FROM sql_semana_12.fila_documentos
ORDER BY documento_id;
