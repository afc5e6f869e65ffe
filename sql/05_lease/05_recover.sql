-- recuperar is a policy: it takes only what is late, keeps the attempts, writes the reason, and gives up after so many.
-- @pt recuperar é uma política: pega só o que venceu, mantém as tentativas, grava o motivo e desiste depois de um limite.
-- @step a_claims A
SELECT documento_id, tentativas
FROM reservar('worker-a', 1, '10 minutes');
-- @step b_claims B
SELECT documento_id, tentativas
FROM reservar('worker-b', 1, '1 hour');
-- @step o_moves O
-- A dies. Eleven minutes pass.
-- @pt A morre. Passam onze minutos.
UPDATE relogio_do_laboratorio
SET adiantado = adiantado + INTERVAL '11 minutes'
RETURNING adiantado;
-- @step o_recovers O
-- The operator gives a reason, and the most attempts a document may have: two. Which documents come back?
-- @pt O operador dá um motivo e o máximo de tentativas por documento: duas. Quais documentos voltam?
SELECT documento_id, status, tentativas, worker_anterior
FROM recuperar('worker sem resposta', p_max_tentativas => 2);
-- @step o_recovers_again O
-- And a second time?
-- @pt E na segunda vez?
SELECT documento_id, status, tentativas, worker_anterior
FROM recuperar('worker sem resposta', p_max_tentativas => 2);
-- @step b_finishes B
-- B, which was left alone, finishes. How many rows change?
-- @pt B, que ninguém incomodou, conclui. Quantas linhas mudam?
SELECT documento_id, status
FROM concluir(2, 'worker-b');
-- @step c_claims C
-- C gets document 1. Does the attempt of the dead worker count?
-- @pt C recebe o documento 1. A tentativa do worker morto conta?
SELECT documento_id, tentativas
FROM reservar('worker-c', 1, '10 minutes');
-- @step o_moves_on O
-- It does. C dies too: perhaps the document is what kills its workers.
-- @pt Conta. C também morre: talvez seja o documento que derruba os workers.
UPDATE relogio_do_laboratorio
SET adiantado = adiantado + INTERVAL '11 minutes'
RETURNING adiantado;
-- @step o_gives_up O
-- What becomes of it after the second attempt?
-- @pt O que acontece com ele depois da segunda tentativa?
SELECT documento_id, status, tentativas, worker_anterior
FROM recuperar('worker sem resposta', p_max_tentativas => 2);
-- @step o_looks O
SELECT documento_id, status, tentativas, ultimo_erro
FROM fila_documentos
ORDER BY documento_id;
