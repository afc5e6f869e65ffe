-- OFFSET locks the rows it throws away.
-- @pt OFFSET bloqueia até as linhas que descarta.
-- @step a_begin A
BEGIN;
-- @step a_takes A
-- To keep out of B's way, A leaves the first document to B and takes the second.
-- @pt Para não atrapalhar B, A deixa o primeiro documento para B e pega o segundo.
SELECT documento_id, chave
FROM fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1 OFFSET 1;
-- @step b_asks B
-- Does B get document 1?
-- @pt B recebe o documento 1?
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;
-- @step c_tries C errors 55P03
-- Then no worker has document 1. Is it at least free?
-- @pt Então ninguém trabalha no documento 1. Ele está pelo menos livre?
SELECT documento_id
FROM fila_documentos
WHERE documento_id = 1 AND status = 'pendente'
FOR UPDATE NOWAIT;
-- @step a_ends A
COMMIT;
