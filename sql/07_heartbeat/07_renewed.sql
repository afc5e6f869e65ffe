-- The same work with the same lease, renewed in time over a connection of its own, runs once.
-- @pt O mesmo trabalho com a mesma reserva, renovada a tempo por uma conexão própria, roda uma vez só.
-- @setup
CREATE TABLE efeitos (documento_id BIGINT NOT NULL, worker_id TEXT NOT NULL);
-- @step a_claims A
SELECT documento_id, token_reserva
FROM reservar('worker-a', p_prazo => '6 minutes');
-- @step c_waits C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '4 minutes'
RETURNING adiantado;
-- @step h_beats H
-- H is the heartbeat of A: a second connection, which knows the document and its token.
-- @pt H é o sinal de vida de A: uma segunda conexão, que conhece o documento e o token dele.
SELECT documento_id, reservado_ate > relogio() + INTERVAL '5 minutes' AS prazo_novo
FROM renovar(1, 1, '6 minutes');
-- @step c_waits_more C
-- Seven minutes after the claim, the first lease is over.
-- @pt Sete minutos depois da reserva, o primeiro prazo já passou.
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '7 minutes'
RETURNING adiantado;
-- @step c_recovers C
-- How many documents are late?
-- @pt Quantos documentos estão atrasados?
SELECT documento_id, status, worker_anterior
FROM recuperar('vigia');
-- @step b_claims B
-- Which document does B get?
-- @pt Qual documento B recebe?
SELECT documento_id, token_reserva
FROM reservar('worker-b', p_prazo => '10 minutes');
-- @step a_acts A
INSERT INTO efeitos (documento_id, worker_id)
VALUES (1, 'worker-a')
RETURNING documento_id, worker_id;
-- @step a_finishes A
SELECT documento_id, status
FROM concluir(1, 1);
-- @step c_counts C
-- How many effects did document 1 have?
-- @pt Quantos efeitos o documento 1 teve?
SELECT documento_id, count(*) AS efeitos
FROM efeitos
WHERE documento_id = 1
GROUP BY documento_id;
