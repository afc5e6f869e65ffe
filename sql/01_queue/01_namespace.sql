-- A real NF-e has a namespace: xpath without a mapping finds nothing.
-- @pt Uma NF-e de verdade tem namespace: xpath sem o mapeamento não encontra nada.
-- @setup
INSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml)
VALUES (
    'NFE-0005', 'nfe-0005.xml',
    '<NFe xmlns="http://www.portalfiscal.inf.br/nfe"><infNFe><total><ICMSTot><vNF>505.50</vNF></ICMSTot></total></infNFe></NFe>'
);
-- @step a_without A
-- How many vNF elements does the plain path find?
-- @pt Quantos elementos vNF o caminho simples encontra?
SELECT cardinality(xpath('//vNF', conteudo_xml)) AS encontrados
FROM fila_documentos
WHERE chave = 'NFE-0005';
-- @step a_with A
-- And with the namespace mapped to a prefix?
-- @pt E com o namespace mapeado para um prefixo?
SELECT
    cardinality(xpath('//n:vNF', conteudo_xml, ARRAY[ARRAY['n', 'http://www.portalfiscal.inf.br/nfe']])) AS encontrados,
    (xpath('//n:vNF/text()', conteudo_xml, ARRAY[ARRAY['n', 'http://www.portalfiscal.inf.br/nfe']]))[1] AS valor
FROM fila_documentos
WHERE chave = 'NFE-0005';
