-- A failure of the content ends the document at once, with its reason; one of the system brings it back later; all others go on.
-- @pt Falha de conteúdo encerra o documento na hora, com o motivo; falha do sistema o traz de volta depois; os outros seguem.
-- @setup
UPDATE fila_documentos
SET conteudo_xml = '<nfe id="NFE-0001"><valor>abc</valor></nfe>'
WHERE documento_id = 1;
UPDATE fila_documentos
SET tentativas = 9, max_tentativas = 20
WHERE documento_id = 2;
-- @step a_claims A
SELECT documento_id, tentativas
FROM reservar('worker-a', 2);
-- @step a_works A errors 22P02
-- Document 1 is as broken as before …
-- @pt O documento 1 continua quebrado …
SELECT (xpath('/nfe/valor/text()', conteudo_xml))[1]::TEXT::NUMERIC AS valor
FROM fila_documentos
WHERE documento_id = 1;
-- @step a_fails_content A
SELECT documento_id, status, disponivel_em > relogio() AS adiado
FROM falhar(1, 1, 'conteudo', 'valor nao e um numero');
-- @step a_fails_system A
-- … and document 2 is good, but its receiver is down, for the tenth time.
-- @pt … e o documento 2 está bom, mas o receptor dele está fora do ar, pela décima vez.
SELECT documento_id, status, disponivel_em > relogio() AS adiado
FROM falhar(2, 2, 'sistemico', 'receptor fora do ar');
-- @step b_claims B
-- B asks for four. Which does it get?
-- @pt B pede quatro. Quais recebe?
SELECT documento_id, tentativas
FROM reservar('worker-b', 4);
-- @step c_waits C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '1 hour'
RETURNING adiantado;
-- @step b_claims_later B
-- And an hour later?
-- @pt E uma hora depois?
SELECT documento_id, tentativas
FROM reservar('worker-b', 4);
-- @step c_reads C
SELECT documento_id, status, tentativas, categoria_erro, ultimo_erro
FROM fila_documentos
ORDER BY documento_id;
