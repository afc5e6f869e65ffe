-- A lease shorter than the work runs the work twice: one document, two effects.
-- @pt Uma reserva mais curta que o trabalho faz o trabalho rodar duas vezes: um documento, dois efeitos.
-- @setup
CREATE TABLE efeitos (documento_id BIGINT NOT NULL, worker_id TEXT NOT NULL);
-- @step a_claims A
-- The work takes eight minutes. A claims a document for six.
-- @pt O trabalho leva oito minutos. O worker A reserva um documento por seis.
SELECT documento_id, token_reserva
FROM reservar('worker-a', p_prazo => '6 minutes');
-- @step c_waits C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '7 minutes'
RETURNING adiantado;
-- @step c_recovers C
-- A is well and at work, and has said nothing for seven minutes. What does it look like from outside?
-- @pt A está bem, trabalhando, e não dá notícia há sete minutos. O que parece, visto de fora?
SELECT documento_id, status, worker_anterior
FROM recuperar('vigia');
-- @step b_claims B
SELECT documento_id, token_reserva
FROM reservar('worker-b', p_prazo => '10 minutes');
-- @step a_acts A
-- A's work comes to its end, and its effect goes out into the world.
-- @pt O trabalho de A chega ao fim, e o efeito dele vai para o mundo.
INSERT INTO efeitos (documento_id, worker_id)
VALUES (1, 'worker-a')
RETURNING documento_id, worker_id;
-- @step a_finishes A
-- The token refuses A's finish. Does that take the effect back?
-- @pt O token recusa a conclusão de A. Isso desfaz o efeito?
SELECT documento_id, status
FROM concluir(1, 1);
-- @step b_acts B
INSERT INTO efeitos (documento_id, worker_id)
VALUES (1, 'worker-b')
RETURNING documento_id, worker_id;
-- @step b_finishes B
SELECT documento_id, status
FROM concluir(1, 2);
-- @step c_counts C
-- One document, finished once. How many effects did it have?
-- @pt Um documento, concluído uma vez. Quantos efeitos ele teve?
SELECT documento_id, count(*) AS efeitos
FROM efeitos
GROUP BY documento_id
ORDER BY documento_id;
