-- The table refuses a fifth state, a negative number of attempts, and a document with the number of another.
-- @pt A tabela recusa um quinto estado, um número negativo de tentativas e um documento com o número de outro.
-- @step a_invents_a_state A errors 23514
-- Which states may a document be in?
-- @pt Em que estados um documento pode estar?
UPDATE sql_semana_12.fila_documentos
SET status = 'cancelado'
WHERE documento_id = 1;
-- @step a_counts_down A errors 23514
UPDATE sql_semana_12.fila_documentos
SET tentativas = -1
WHERE documento_id = 1;
-- @step a_chooses_a_number A errors 428C9
-- The number is the table's to give.
-- @pt Quem dá o número é a tabela.
INSERT INTO sql_semana_12.fila_documentos (documento_id, chave, nome_arquivo, conteudo_xml)
VALUES (1, 'NFE-0005', 'nfe-0005.xml', xmlparse(DOCUMENT '<nfe id="NFE-0005"/>'));
-- @step a_insists A errors 23505
-- And where an insert overrides that?
-- @pt E se a inserção passar por cima disso?
INSERT INTO sql_semana_12.fila_documentos (documento_id, chave, nome_arquivo, conteudo_xml)
OVERRIDING SYSTEM VALUE
VALUES (1, 'NFE-0005', 'nfe-0005.xml', xmlparse(DOCUMENT '<nfe id="NFE-0005"/>'));
-- @step a_looks A
SELECT count(*) AS documentos, min(status) AS status, min(tentativas) AS tentativas
FROM sql_semana_12.fila_documentos;
