-- A renewal needs the token of the attempt, and works only while that attempt owns the document: every other one changes nothing.
-- @pt A renovação exige o token da tentativa e só vale enquanto o documento é dela: nenhuma outra altera nada.
-- @step a_claims A
SELECT documento_id, token_reserva
FROM reservar('worker-a', p_prazo => '6 minutes');
-- @step b_claims B
SELECT documento_id, token_reserva
FROM reservar('worker-b', p_prazo => '15 minutes');
-- @step b_renews_foreign B
-- B renews document 1 with the token of document 2. How many rows change?
-- @pt B renova o documento 1 com o token do documento 2. Quantas linhas mudam?
SELECT documento_id
FROM renovar(1, 2);
-- @step a_renews A
SELECT documento_id
FROM renovar(1, 1, '6 minutes');
-- @step c_waits C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '7 minutes'
RETURNING adiantado;
-- @step c_recovers C
SELECT documento_id, status, worker_anterior
FROM recuperar('vigia');
-- @step a_renews_late A
-- Document 1 is pending again. How many rows does a renewal with its old token change?
-- @pt O documento 1 voltou a pendente. Quantas linhas a renovação com o token antigo altera?
SELECT documento_id
FROM renovar(1, 1);
-- @step d_claims D
SELECT documento_id, token_reserva
FROM reservar('worker-d', p_prazo => '10 minutes');
-- @step a_renews_taken A
-- Now it is D's.
-- @pt Agora ele é de D.
SELECT documento_id
FROM renovar(1, 1);
-- @step d_finishes D
SELECT documento_id, status
FROM concluir(1, 3);
-- @step d_renews_finished D
-- D's heartbeat beats once more after the end.
-- @pt O sinal de vida de D chega mais uma vez, depois do fim.
SELECT documento_id
FROM renovar(1, 3);
-- @step c_reads C
SELECT documento_id, status, worker_id, token_reserva
FROM fila_documentos
WHERE documento_id <= 2
ORDER BY documento_id;
