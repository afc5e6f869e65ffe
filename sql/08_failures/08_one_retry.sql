-- One retry for everything: what fails goes straight back, is taken again and again, and whatever stands behind it waits.
-- @pt Nova tentativa sem critério: o que falha volta na hora, é pego de novo e de novo, e o que está atrás espera.
-- @builds_on 07_heartbeat
-- @setup
UPDATE fila_documentos
SET conteudo_xml = '<nfe id="NFE-0001"><valor>abc</valor></nfe>'
WHERE documento_id = 1;
-- @step a_claims A
-- Document 1 is broken: its value is no number. Nothing can be done about it here.
-- @pt O documento 1 está quebrado: o valor não é um número. Não há o que fazer aqui.
SELECT documento_id, tentativas
FROM reservar('worker-a');
-- @step a_works A errors 22P02
SELECT (xpath('/nfe/valor/text()', conteudo_xml))[1]::TEXT::NUMERIC AS valor
FROM fila_documentos
WHERE documento_id = 1;
-- @step a_retries A
-- Whatever went wrong, try again:
-- @pt Não importa o que deu errado, tente de novo:
UPDATE fila_documentos
SET status = 'pendente', token_reserva = NULL, worker_id = NULL, reservado_ate = NULL, ultimo_erro = 'erro'
WHERE documento_id = 1 AND token_reserva = 1
RETURNING documento_id, status;
-- @step a_claims_again A
-- Which document comes next?
-- @pt Qual documento vem agora?
SELECT documento_id, tentativas
FROM reservar('worker-a');
-- @step a_works_again A errors 22P02
SELECT (xpath('/nfe/valor/text()', conteudo_xml))[1]::TEXT::NUMERIC AS valor
FROM fila_documentos
WHERE documento_id = 1;
-- @step a_retries_again A
UPDATE fila_documentos
SET status = 'pendente', token_reserva = NULL, worker_id = NULL, reservado_ate = NULL, ultimo_erro = 'erro'
WHERE documento_id = 1 AND token_reserva = 2
RETURNING documento_id, status;
-- @step a_claims_once_more A
SELECT documento_id, tentativas
FROM reservar('worker-a');
-- @step a_retries_once_more A
UPDATE fila_documentos
SET status = 'pendente', token_reserva = NULL, worker_id = NULL, reservado_ate = NULL, ultimo_erro = 'erro'
WHERE documento_id = 1 AND token_reserva = 3
RETURNING documento_id, status;
-- @step c_reads C
-- Three attempts of one worker. How many did the good documents get, and what does the table say about the bad one?
-- @pt Três tentativas de um worker. Quantas couberam aos documentos bons, e o que a tabela diz do ruim?
SELECT documento_id, status, tentativas, ultimo_erro
FROM fila_documentos
ORDER BY documento_id;
