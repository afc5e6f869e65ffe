-- A crash counts as an attempt: a document that kills its worker ends in falhou, with its category, after max_tentativas.
-- @pt Uma queda conta como tentativa: o documento que derruba o worker acaba em falhou, com a categoria, depois de max_tentativas.
-- @setup
DELETE FROM fila_documentos
WHERE documento_id > 1;
UPDATE fila_documentos
SET max_tentativas = 2
WHERE documento_id = 1;
-- @step a_claims A
-- Document 1 is alone in the queue, and may be tried twice.
-- @pt O documento 1 está sozinho na fila e pode ser tentado duas vezes.
SELECT documento_id, tentativas
FROM reservar('worker-a');
-- @step c_kills_a C
-- It kills its worker, who cannot report anything any more.
-- @pt Ele derruba o worker, que não consegue mais relatar nada.
SELECT pg_terminate_backend(pid, 5000) AS encerrado
FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'lab/A';
-- @step c_waits C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '1 minute'
RETURNING adiantado;
-- @step c_recovers C
SELECT documento_id, status, tentativas
FROM recuperar('vigia', 'worker sem sinal');
-- @step c_waits_more C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '1 hour'
RETURNING adiantado;
-- @step b_claims B
SELECT documento_id, tentativas
FROM reservar('worker-b');
-- @step c_kills_b C
SELECT pg_terminate_backend(pid, 5000) AS encerrado
FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'lab/B';
-- @step c_waits_again C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '2 hours'
RETURNING adiantado;
-- @step c_recovers_again C
-- No worker ever reported a failure. Does it come back a third time?
-- @pt Ninguém jamais relatou uma falha. Ele volta pela terceira vez?
SELECT documento_id, status, tentativas
FROM recuperar('vigia', 'worker sem sinal');
-- @step d_asks D
SELECT documento_id, tentativas
FROM reservar('worker-d');
-- @step c_reads C
SELECT documento_id, status, tentativas, max_tentativas, categoria_erro, ultimo_erro
FROM fila_documentos;
