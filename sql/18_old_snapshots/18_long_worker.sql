-- A worker in a long transaction makes the others skip its documents, not wait for them.
-- @pt Um worker numa transação longa faz os outros pularem os documentos dele, não esperarem por eles.
-- @step a_begin A
BEGIN;
-- @step a_claims A
-- A claims two documents and works inside the transaction: no commit for a long time.
-- @pt A reserva dois documentos e trabalha dentro da transação: nada de COMMIT por muito tempo.
SELECT documento_id
FROM reservar('worker-a', 2);
-- @step b_limit B
SET lock_timeout = '2s';
-- @step b_claims B
-- Which document does B get, and does it wait?
-- @pt Que documento B recebe, e ele espera?
SELECT documento_id
FROM reservar('worker-b');
-- @step c_counts C
-- To the others A's documents still look pending: they are skipped only because they are locked.
-- @pt Para os outros, os documentos de A ainda parecem pendentes: só são pulados porque estão bloqueados.
SELECT
    documento_id,
    status
FROM fila_documentos
ORDER BY documento_id;
-- @step a_ends A
-- A's end without a commit gives both back at once.
-- @pt O fim de A sem COMMIT devolve os dois na hora.
ROLLBACK;
-- @step b_claims_again B
SELECT documento_id
FROM reservar('worker-b');
