-- Malformed input is refused as 2200M (document) or 2200N (content).
-- @pt Uma entrada malformada é recusada com 2200M (documento) ou 2200N (conteúdo).
-- @step a_document A errors 2200M
-- The element valor is never closed. Which SQLSTATE tells so?
-- @pt O elemento valor nunca é fechado. Qual SQLSTATE diz isso?
SELECT xmlparse(DOCUMENT '<nfe id="NFE-0005"><valor>505.50</nfe>') IS NOT NULL AS aceito;
-- @step a_content A errors 2200N
SELECT '<nfe id="NFE-0005"><valor>505.50</nfe>'::XML IS NOT NULL AS aceito;
