-- Zero rows is not an empty queue: one query tells how many are locked, processando, or free.
-- @pt Zero linhas não é fila vazia: uma consulta diz quantas estão bloqueadas, processando ou livres.
-- @setup
UPDATE fila_documentos SET status = 'processando', tentativas = 1, worker_id = 'worker-c' WHERE documento_id = 4;
-- @step a_begin A
BEGIN;
-- @step a_takes A
SELECT documento_id
FROM fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE;
-- @step b_asks B
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;
-- @step b_explains B
-- Zero rows. Why? The inner query tries to lock what a claim would take; what it cannot lock, another session holds.
-- Run it by itself: what is free stays locked until its transaction ends.
-- @pt Zero linhas. Por quê? A consulta interna tenta bloquear o que uma reserva pegaria; o que ela não conseguir está com alguém.
-- @pt Execute-a sozinha: o que está livre fica bloqueado até o fim da transação dela.
WITH livres AS MATERIALIZED (
    SELECT documento_id
    FROM fila_documentos
    WHERE status = 'pendente'
    FOR UPDATE SKIP LOCKED
)
SELECT
    count(*) FILTER (WHERE fila.status = 'pendente') AS pendentes,
    count(livres.documento_id) AS livres,
    count(*) FILTER (WHERE fila.status = 'pendente' AND livres.documento_id IS NULL) AS bloqueados,
    count(*) FILTER (WHERE fila.status = 'processando') AS processando
FROM fila_documentos AS fila
LEFT JOIN livres ON fila.documento_id = livres.documento_id;
-- @step a_ends A
COMMIT;
