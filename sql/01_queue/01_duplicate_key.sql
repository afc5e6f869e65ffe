-- A second insert of the same key is refused; that guards the entrance, it does not make processing idempotent.
-- @pt A segunda inserção da mesma chave é recusada; isso protege a entrada, mas não torna o processamento idempotente.
-- @step a_inserts A errors 23505
-- NFE-0001 is in the queue already. What does the server say to a second one?
-- @pt NFE-0001 já está na fila. O que o servidor responde a uma segunda?
INSERT INTO fila_documentos (chave, nome_arquivo, conteudo_xml)
VALUES ('NFE-0001', 'nfe-0001.xml', '<nfe id="NFE-0001"><valor>101.10</valor></nfe>');
-- @step a_processes A
-- The unique key does not look at how often a row is worked on. A takes document 1 …
-- @pt A chave única não controla quantas vezes uma linha é processada. A pega o documento 1 …
UPDATE fila_documentos
SET status = 'processando', tentativas = tentativas + 1, worker_id = 'worker-a'
WHERE chave = 'NFE-0001'
RETURNING documento_id, worker_id, tentativas;
-- @step b_processes B
-- … and B takes it too. Does the key stop B?
-- @pt … e B também o pega. A chave impede B?
UPDATE fila_documentos
SET status = 'processando', tentativas = tentativas + 1, worker_id = 'worker-b'
WHERE chave = 'NFE-0001'
RETURNING documento_id, worker_id, tentativas;
