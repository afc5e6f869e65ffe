-- COMMIT after an error raises nothing and saves nothing.
-- @pt Um COMMIT depois de um erro não acusa nada e não grava nada.
-- @step a_claims A
SELECT documento_id, token_reserva
FROM reservar('worker-a');
-- @step a_begin A
BEGIN;
-- @step a_finishes A
SELECT documento_id, status
FROM concluir(1, 1);
-- @step a_notes A errors 42P01
-- A wants to note it in a table that is not there, and goes on regardless of the error.
-- @pt A quer anotar isso em uma tabela que não existe e segue adiante, apesar do erro.
INSERT INTO diario (documento_id)
VALUES (1);
-- @step a_commits A
-- Is there an error now?
-- @pt E agora, dá erro?
COMMIT;
-- @step c_reads C
-- None. How many documents are finished?
-- @pt Nenhum. Quantos documentos estão concluídos?
SELECT documento_id, status
FROM fila_documentos
WHERE status = 'concluido';
