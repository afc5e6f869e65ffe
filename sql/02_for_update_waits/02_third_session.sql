-- A third session sees who waits for whom, and for which lock.
-- @pt Uma terceira sessão vê quem espera por quem, e por qual bloqueio.
-- @step a_begin A
BEGIN;
-- @step a_takes A
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE
LIMIT 1;
-- @step b_asks B blocks A
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE
LIMIT 1;
-- @step c_looks C
-- C asks the server. Which kind of lock does B wait for: one on the row?
-- @pt C pergunta ao servidor. B espera por que tipo de bloqueio: um bloqueio de linha?
SELECT
    espera.application_name AS quem_espera,
    dono.application_name AS por_quem,
    bloqueio.locktype,
    bloqueio.mode,
    bloqueio.granted
FROM pg_stat_activity AS espera
INNER JOIN pg_locks AS bloqueio ON espera.pid = bloqueio.pid AND NOT bloqueio.granted
INNER JOIN pg_stat_activity AS dono ON dono.pid = ANY(pg_blocking_pids(espera.pid))
WHERE espera.datname = current_database() AND espera.application_name LIKE 'lab/%'
ORDER BY quem_espera, por_quem;
-- @step a_ends A
-- A row lock is a mark in the row itself; who meets it waits for the end of the transaction that made it.
-- @pt O bloqueio de linha é uma marca na própria linha; quem o encontra espera o fim da transação que o fez.
COMMIT;
-- @ends b_asks
