-- Requeueing adds attempts and takes nothing back: attempts, version and token go on, stage and operation key stay as they are.
-- @pt Reenfileirar acrescenta tentativas e não apaga nada: tentativas, versão e token seguem, e etapa e chave da operação ficam.
-- @setup
DELETE FROM fila_documentos
WHERE documento_id > 1;
UPDATE fila_documentos
SET max_tentativas = 1
WHERE documento_id = 1;
-- @step a_claims A
-- Document 1 is alone in the queue, and has one attempt only.
-- @pt O documento 1 está sozinho na fila e só tem uma tentativa.
SELECT documento_id, token_reserva, tentativas, chave_operacao, etapa
FROM reservar('worker-a');
-- @step a_is_about_to_call A
SELECT documento_id, etapa, versao
FROM registrar_etapa(1, 1, 'desconhecido');
-- @step a_fails A
-- The call timed out. Where does document 1 go, without attempts left?
-- @pt A chamada estourou o tempo. Para onde vai o documento 1, sem tentativas restantes?
SELECT documento_id, status, versao
FROM falhar(1, 1, 'sistemico', 'tempo esgotado');
-- @step o_requeues O
SELECT documento_id, status, versao
FROM reenfileirar(1, 3, 'operador', 'receptor voltou');
-- @step b_claims B
-- What does B get to know of the first attempt?
-- @pt O que B fica sabendo da primeira tentativa?
SELECT documento_id, token_reserva, tentativas, chave_operacao, etapa
FROM reservar('worker-b');
-- @step a_finishes A
-- A's answer has come after all: does it get through under token 1?
-- @pt A resposta de A acabou chegando: passa com o token 1?
SELECT documento_id, status
FROM concluir(1, 1, 'R-4711');
-- @step b_finishes B
-- B has asked the receiver by the operation key instead of calling again.
-- @pt B perguntou ao receptor pela chave da operação, em vez de chamar de novo.
SELECT documento_id, status, versao
FROM concluir(1, 2, 'R-4711');
