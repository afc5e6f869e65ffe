-- CONTENT accepts an empty string and two roots; DOCUMENT accepts neither.
-- @pt CONTENT aceita uma string vazia e duas raízes; DOCUMENT não aceita nenhuma das duas.
-- @step a_empty_content A
-- The cast to xml checks as the setting xmloption says, and that is CONTENT. Is an empty string XML?
-- @pt A conversão para xml valida conforme o parâmetro xmloption, que está em CONTENT. Uma string vazia é XML?
SELECT ''::XML IS NOT NULL AS aceito;
-- @step a_two_roots_content A
SELECT '<nfe id="NFE-0001"/><nfe id="NFE-0002"/>'::XML IS NOT NULL AS aceito;
-- @step a_empty_document A errors 2200M
-- The same two, read as a DOCUMENT:
-- @pt Os mesmos dois, lidos como DOCUMENT:
SELECT xmlparse(DOCUMENT '') IS NOT NULL AS aceito;
-- @step a_two_roots_document A errors 2200M
SELECT xmlparse(DOCUMENT '<nfe id="NFE-0001"/><nfe id="NFE-0002"/>') IS NOT NULL AS aceito;
