-- A plain CREATE INDEX waits for every open claim, and each later claim waits behind it.
-- @pt Um CREATE INDEX comum espera por toda reserva aberta, e cada reserva posterior espera atrás dele.
-- @step a_begin A
BEGIN;
-- @step a_claims A
-- A claims, and its short transaction is still open.
-- @pt A reserva, e a transação curta ainda está aberta.
SELECT documento_id
FROM reservar('worker-a');
-- @step b_builds B blocks A
-- B builds an index of its own on the queue. Whom does it wait for?
-- @pt B cria um índice seu na fila. Por quem ele espera?
CREATE INDEX medida_idx
ON fila_documentos (worker_id);
-- @step c_claims C blocks B
-- Four documents were pending. Does C get one at once?
-- @pt Havia quatro documentos pendentes. C recebe um na hora?
SELECT documento_id
FROM reservar('worker-c');
-- @step a_commits A
-- CREATE INDEX CONCURRENTLY waits for A, too, but lets C pass.
-- @pt O CREATE INDEX CONCURRENTLY também espera por A, mas deixa C passar.
COMMIT;
-- @ends b_builds
-- @ends c_claims
-- @step b_drops B
DROP INDEX medida_idx;
