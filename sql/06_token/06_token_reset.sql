-- A token that is counted in the row and reset when the document is requeued comes again, and a late write gets through.
-- @pt Um token contado na própria linha e zerado quando o documento volta à fila se repete, e uma escrita atrasada passa.
-- @step a_claims A
-- No sequence: each claim takes the next number of the row itself.
-- @pt Sem sequência: cada reserva pega o próximo número da própria linha.
UPDATE fila_documentos
SET
    status = 'processando',
    token_reserva = coalesce(token_reserva, 0) + 1,
    worker_id = 'worker-a',
    reservado_ate = relogio() + INTERVAL '30 seconds'
WHERE documento_id = 1 AND status = 'pendente'
RETURNING documento_id, token_reserva;
-- @step c_requeues C
-- A stalls. An operator requeues the document "as good as new".
-- @pt A fica parado. Um operador devolve o documento à fila "novo em folha".
UPDATE fila_documentos
SET status = 'pendente', token_reserva = NULL, worker_id = NULL, reservado_ate = NULL
WHERE documento_id = 1
RETURNING documento_id, status, token_reserva;
-- @step b_claims B
-- Which token does B get?
-- @pt Que token B recebe?
UPDATE fila_documentos
SET
    status = 'processando',
    token_reserva = coalesce(token_reserva, 0) + 1,
    worker_id = 'worker-b',
    reservado_ate = relogio() + INTERVAL '30 seconds'
WHERE documento_id = 1 AND status = 'pendente'
RETURNING documento_id, token_reserva;
-- @step a_fails A
-- A comes back with token 1. How many rows does its late failure change?
-- @pt O worker A volta com o token 1. Quantas linhas a falha atrasada dele altera?
SELECT documento_id, status
FROM falhar(1, 1, 'tempo esgotado');
-- @step b_finishes B
-- And B, who has done the work?
-- @pt E B, que fez o trabalho?
SELECT documento_id, status
FROM concluir(1, 1);
-- @step b_claims_another B
-- A sequence forgets nothing: after a reset as blind as this one, no token comes again.
-- @pt Uma sequência não esquece nada: depois de um reset tão cego quanto esse, nenhum token se repete.
SELECT documento_id, token_reserva
FROM reservar('worker-b');
-- @step c_requeues_another C
UPDATE fila_documentos
SET status = 'pendente', token_reserva = NULL, worker_id = NULL, reservado_ate = NULL
WHERE documento_id = 2
RETURNING documento_id, status, token_reserva;
-- @step b_claims_again B
SELECT documento_id, token_reserva
FROM reservar('worker-b');
