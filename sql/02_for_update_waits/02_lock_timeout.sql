-- B, asking for the oldest pending document with a lock_timeout of 2 s, is cancelled although three others are pending.
-- @pt Ao pedir o documento pendente mais antigo com lock_timeout de 2 s, B é cancelado, embora haja outros três pendentes.
-- @step a_begin A
BEGIN;
-- @step a_takes A
-- A locks the oldest pending document and keeps its transaction open.
-- @pt A bloqueia o documento pendente mais antigo e deixa a transação aberta.
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE
LIMIT 1;
-- @step b_limit B
SET lock_timeout = '2s';
-- @step b_asks B blocks A
-- B runs the same query. Which document does B get?
-- @pt B executa a mesma consulta. Qual documento B recebe?
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE
LIMIT 1;
-- @ends b_asks errors 55P03
-- None: after two seconds the server cancelled the statement. B never got as far as locking 2, 3 or 4.
-- @pt Nenhum: depois de dois segundos o servidor cancelou o comando. B nem chegou a bloquear o 2, o 3 ou o 4.
-- @step b_counts B
-- How many documents were pending all the while?
-- @pt Quantos documentos estavam pendentes o tempo todo?
SELECT count(*) AS pendentes
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente';
-- @step a_ends A
COMMIT;
