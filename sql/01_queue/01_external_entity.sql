-- An external entity in a parsed document is silently emptied, and the DOCTYPE is stored.
-- @pt Em um documento, uma entidade externa é esvaziada em silêncio, e o DOCTYPE é gravado.
-- @step a_inserts A
-- The value is to come from a file. Does the server refuse the document?
-- @pt O valor deveria vir de um arquivo. O servidor recusa o documento?
INSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml)
VALUES (
    'NFE-0005', 'nfe-0005.xml',
    xmlparse(DOCUMENT '<!DOCTYPE nfe [<!ENTITY valor SYSTEM "valor.txt">]><nfe id="NFE-0005"><valor>&valor;</valor></nfe>')
)
RETURNING documento_id, chave;
-- @step a_reads A
-- What is the value now, and is the DOCTYPE still there?
-- @pt Qual é o valor agora, e o DOCTYPE continua lá?
SELECT
    (xpath('string(/nfe/valor)', conteudo_xml))[1]::TEXT AS valor,
    strpos(conteudo_xml::TEXT, 'DOCTYPE') > 0 AS doctype_gravado
FROM fila_documentos
WHERE chave = 'NFE-0005';
