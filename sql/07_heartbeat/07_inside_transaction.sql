-- A heartbeat inside the work's transaction is invisible to all others: the monitor counts an orphan, and a rollback takes the beat back.
-- @pt Um sinal de vida dentro da transação do trabalho não é visto por ninguém: o monitor conta um órfão, e o ROLLBACK o desfaz.
-- @step a_claims A
SELECT documento_id, token_reserva
FROM reservar('worker-a', p_prazo => '6 minutes');
-- @step a_begin A
-- A opens a transaction for its work, and renews inside it.
-- @pt A abre uma transação para o trabalho e renova dentro dela.
BEGIN;
-- @step c_waits C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '4 minutes'
RETURNING adiantado;
-- @step a_beats A
SELECT documento_id
FROM renovar(1, 1, '6 minutes');
-- @step c_waits_more C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '7 minutes'
RETURNING adiantado;
-- @step a_reads A
SELECT documento_id, reservado_ate > relogio() AS vale
FROM fila_documentos
WHERE documento_id = 1;
-- @step c_reads C
-- For A the lease stands. And for everybody else?
-- @pt Para A, a reserva vale. E para os outros?
SELECT documento_id, reservado_ate > relogio() AS vale
FROM fila_documentos
WHERE documento_id = 1;
-- @step c_counts C
SELECT executando, orfaos
FROM situacao;
-- @step c_recovers C
-- The renewal's lock is still held, so recovery passes the row by: for as long as A's transaction lasts, however late it is.
-- @pt O bloqueio da renovação continua, e a recuperação passa ao largo da linha enquanto durar a transação de A, por maior o atraso.
SELECT documento_id, status, worker_anterior
FROM recuperar('vigia');
-- @step a_gives_up A
-- The work fails, and A rolls back. What is left of the renewal?
-- @pt O trabalho falha, e A faz ROLLBACK. O que resta da renovação?
ROLLBACK;
-- @step c_recovers_again C
SELECT documento_id, status, worker_anterior
FROM recuperar('vigia');
