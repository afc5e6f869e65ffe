-- After the claim's commit no lock is left: a worker that dies leaves its document in processando, and a day later no claim gets it.
-- @pt Depois do COMMIT da reserva não resta bloqueio: quem morre deixa o documento em processando, e um dia depois ninguém o recebeu.
-- @step a_claims A
-- A claims a document for ten minutes; under autocommit the claim is committed at once.
-- @pt O worker A reserva um documento por dez minutos; em autocommit, o COMMIT da reserva vem na hora.
SELECT documento_id, tentativas
FROM reservar('worker-a', 1, '10 minutes');
-- @step c_counts C
-- A works on it now. How many locks does A hold?
-- @pt A está trabalhando nele. Quantos bloqueios A segura?
SELECT count(pg_locks.pid) AS bloqueios_de_a
FROM pg_stat_activity
LEFT JOIN pg_locks ON pg_stat_activity.pid = pg_locks.pid
WHERE pg_stat_activity.datname = current_database() AND pg_stat_activity.application_name = 'lab/A';
-- @step c_kills C
-- A dies: its connection is cut in the middle of the work.
-- @pt A morre: a conexão dele é cortada no meio do trabalho.
SELECT pg_terminate_backend(pid, 5000) AS encerrado
FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'lab/A';
-- @step c_moves C
-- A day passes on the lab's clock, so the ten minutes are long over.
-- @pt Passa um dia no relógio do laboratório: os dez minutos já se foram há muito.
UPDATE relogio_do_laboratorio
SET adiantado = adiantado + INTERVAL '1 day'
RETURNING adiantado;
-- @step b_claims B
-- B asks for ten documents. How many does it get?
-- @pt B pede dez documentos. Quantos recebe?
SELECT documento_id, tentativas
FROM reservar('worker-b', 10, '1 hour')
ORDER BY documento_id;
-- @step b_asks_again B
-- And if B asks once more?
-- @pt E se B pedir mais uma vez?
SELECT documento_id, tentativas
FROM reservar('worker-b', 10, '1 hour');
-- @step c_looks C
-- Zero rows. Document 1 is still a dead worker's: a deadline that no recovery acts on frees nothing.
-- @pt Zero linhas. O documento 1 continua com um worker morto: um prazo que ninguém cobra não libera nada.
SELECT documento_id, status, worker_id, tentativas, reservado_ate < relogio() AS vencida
FROM fila_documentos
WHERE documento_id = 1;
