-- A heartbeat that shares the worker's connection never beats: it can be sent when the work has ended, and then it is too late.
-- @pt Um sinal de vida na conexão do próprio worker nunca sai: só pode ser enviado quando o trabalho acaba, e aí é tarde.
-- @setup
CREATE TABLE precos (produto TEXT NOT NULL, preco NUMERIC NOT NULL);
-- @step a_claims A
SELECT documento_id, token_reserva
FROM reservar('worker-a', p_prazo => '6 minutes');
-- @step m_begin M
BEGIN;
-- @step m_locks M
-- Another session has work of its own on the table that A is about to ask.
-- @pt Alguém está fazendo um serviço na tabela que A vai consultar.
LOCK TABLE precos;
-- @step a_works A blocks M
-- A's work is one long statement. A connection does one thing at a time: a renewal would have to wait behind it.
-- @pt O trabalho de A é um comando demorado. Uma conexão faz uma coisa por vez: a renovação teria de esperar atrás dele.
SELECT count(*) AS precos
FROM precos;
-- @step c_waits C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '7 minutes'
RETURNING adiantado;
-- @step c_recovers C
SELECT documento_id, status, worker_anterior
FROM recuperar('vigia');
-- @step b_claims B
SELECT documento_id, token_reserva
FROM reservar('worker-b', p_prazo => '10 minutes');
-- @step m_ends M
COMMIT;
-- @ends a_works
-- @step a_beats A
-- At last the connection is free, and the renewal is sent. How many rows does it change?
-- @pt Enfim a conexão está livre, e a renovação é enviada. Quantas linhas ela altera?
SELECT documento_id
FROM renovar(1, 1, '6 minutes');
-- @step c_reads C
SELECT documento_id, status, worker_id, tentativas
FROM fila_documentos
WHERE documento_id = 1;
