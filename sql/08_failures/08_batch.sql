-- One broken document in a batch rolls all of it back, unless each has a savepoint of its own.
-- @pt Um documento quebrado em um lote desfaz o lote inteiro, a menos que cada um tenha o próprio SAVEPOINT.
-- @setup
UPDATE fila_documentos
SET conteudo_xml = '<nfe id="NFE-0004"><valor>abc</valor></nfe>'
WHERE documento_id = 4;
-- @step a_claims A
SELECT documento_id, token_reserva
FROM reservar('worker-a', 4);
-- @step a_begin A
-- A works on its four documents in one transaction.
-- @pt A trabalha nos quatro documentos em uma só transação.
BEGIN;
-- @step a_finishes_1 A
SELECT documento_id, status
FROM concluir(1, 1);
-- @step a_finishes_2 A
SELECT documento_id, status
FROM concluir(2, 2);
-- @step a_finishes_3 A
SELECT documento_id, status
FROM concluir(3, 3);
-- @step a_works_on_4 A errors 22P02
SELECT (xpath('/nfe/valor/text()', conteudo_xml))[1]::TEXT::NUMERIC AS valor
FROM fila_documentos
WHERE documento_id = 4;
-- @step a_ends A
COMMIT;
-- @step c_reads C
-- Document 4 is broken. How many of the other three are finished?
-- @pt O documento 4 está quebrado. Quantos dos outros três estão concluídos?
SELECT documento_id, status
FROM fila_documentos
ORDER BY documento_id;
-- @step a_begin_again A
-- Once more, with a savepoint before each document:
-- @pt De novo, com um SAVEPOINT antes de cada documento:
BEGIN;
-- @step a_saves_1 A
SAVEPOINT documento;
-- @step a_finishes_1_again A
SELECT documento_id, status
FROM concluir(1, 1);
-- @step a_saves_2 A
SAVEPOINT documento;
-- @step a_finishes_2_again A
SELECT documento_id, status
FROM concluir(2, 2);
-- @step a_saves_3 A
SAVEPOINT documento;
-- @step a_finishes_3_again A
SELECT documento_id, status
FROM concluir(3, 3);
-- @step a_saves_4 A
SAVEPOINT documento;
-- @step a_works_on_4_again A errors 22P02
SELECT (xpath('/nfe/valor/text()', conteudo_xml))[1]::TEXT::NUMERIC AS valor
FROM fila_documentos
WHERE documento_id = 4;
-- @step a_goes_back A
ROLLBACK TO SAVEPOINT documento;
-- @step a_fails_4 A
SELECT documento_id, status
FROM falhar(4, 4, 'conteudo', 'valor nao e um numero');
-- @step a_commits A
COMMIT;
-- @step c_reads_again C
SELECT documento_id, status
FROM fila_documentos
ORDER BY documento_id;
