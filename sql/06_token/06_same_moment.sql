-- When a late finish and the recovery meet at a row, one of them gets it; the other sees what was done and changes nothing.
-- @pt Quando uma conclusão atrasada e a recuperação se encontram, uma delas fica com a linha; a outra vê o que foi feito e não altera nada.
-- @step a_claims A
SELECT documento_id, token_reserva
FROM reservar('worker-a', 2)
ORDER BY documento_id;
-- @step c_waits C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '1 minute'
RETURNING adiantado;
-- @step a_begin A
BEGIN;
-- @step a_finishes A
-- A comes first to document 1, and has not committed yet.
-- @pt A chega primeiro ao documento 1 e ainda não fez COMMIT.
SELECT documento_id, status
FROM concluir(1, 1);
-- @step c_begin C
BEGIN;
-- @step c_recovers C
-- Both documents are late. Which ones does the recovery take?
-- @pt Os dois documentos estão atrasados. Quais a recuperação pega?
SELECT documento_id, status
FROM recuperar('vigia');
-- @step a_commits A
COMMIT;
-- @step a_finishes_second A blocks C
-- At document 2 the recovery has come first, and A waits. How many rows will A's finish change?
-- @pt No documento 2 a recuperação chegou primeiro, e A espera. Quantas linhas a conclusão de A vai alterar?
SELECT documento_id, status
FROM concluir(2, 2);
-- @step c_commits C
COMMIT;
-- @ends a_finishes_second
-- @step c_reads C
SELECT documento_id, status, token_reserva, versao
FROM fila_documentos
WHERE documento_id <= 2
ORDER BY documento_id;
