-- A default of now() gives a row the time at which its transaction began: it looks older than it is, and jumps the queue.
-- @pt Um DEFAULT now() dá à linha o horário em que a transação começou: ela parece mais velha do que é e fura a fila.
-- @setup
DELETE FROM fila_documentos;
ALTER TABLE fila_documentos ALTER COLUMN criado_em SET DEFAULT now();
ALTER TABLE fila_documentos ADD COLUMN inserido_em TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp();
-- @step a_begin A
-- A begins a transaction, and prepares its document for a while. criado_em has now() as its default here.
-- @pt A abre uma transação e leva um tempo preparando o documento. Aqui o DEFAULT de criado_em é now().
BEGIN;
-- @step b_inserts B
-- Meanwhile B puts a document into the queue; then A does.
-- @pt Enquanto isso, B põe um documento na fila; depois, A põe o dele.
INSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml)
VALUES ('NFE-0005', 'nfe-0005.xml', '<nfe id="NFE-0005"/>')
RETURNING documento_id, chave;
-- @step a_inserts A
INSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml)
VALUES ('NFE-0006', 'nfe-0006.xml', '<nfe id="NFE-0006"/>')
RETURNING documento_id, chave;
-- @step a_commits A
COMMIT;
-- @step c_compares C
-- In which order did they arrive, and in which do they stand?
-- @pt Em que ordem chegaram, e em que ordem estão na fila?
SELECT
    documento_id,
    row_number() OVER (ORDER BY inserido_em) AS chegada,
    row_number() OVER (ORDER BY criado_em) AS na_fila
FROM fila_documentos
ORDER BY documento_id;
-- @step c_claims C
-- Which one does a worker get first?
-- @pt Qual deles um worker recebe primeiro?
SELECT documento_id, chave
FROM reservar('worker-c', 1, '10 minutes');
