-- A recovery that selects ids first and updates by id afterwards re-opens a document that was finished in between.
-- @pt Uma recuperação que primeiro seleciona ids e depois atualiza pelo id reabre um documento concluído nesse meio-tempo.
-- @step a_claims A
SELECT documento_id, token_reserva
FROM reservar('worker-a', 2)
ORDER BY documento_id;
-- @step c_waits C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '1 minute'
RETURNING adiantado;
-- @step c_selects C
-- C makes a list of what is late.
-- @pt C faz uma lista do que está atrasado.
SELECT documento_id
FROM fila_documentos
WHERE status = 'processando' AND reservado_ate < relogio()
ORDER BY documento_id;
-- @step a_finishes A
-- Late, but no worker has taken over yet.
-- @pt Atrasado, mas ninguém assumiu ainda.
SELECT documento_id, status
FROM concluir(1, 1);
-- @step a_finishes_second A
SELECT documento_id, status
FROM concluir(2, 2);
-- @step c_updates C
-- C puts document 1 of its list back into the queue. How many rows change?
-- @pt C devolve à fila o documento 1 da sua lista. Quantas linhas mudam?
UPDATE fila_documentos
SET status = 'pendente', worker_id = NULL, reservado_ate = NULL
WHERE documento_id IN (1)
RETURNING documento_id, status, concluido_em IS NOT NULL AS ja_concluido;
-- @step c_updates_checking C
-- With document 2 it asks once more, in the same statement, whether it is late. How many rows?
-- @pt Com o documento 2, C pergunta de novo, no mesmo comando, se está atrasado. Quantas linhas?
UPDATE fila_documentos
SET status = 'pendente', worker_id = NULL, reservado_ate = NULL
WHERE documento_id IN (2) AND status = 'processando' AND reservado_ate < relogio()
RETURNING documento_id, status;
-- @step b_claims B
-- Document 2 stayed as it was: it is finished, so the condition no longer fits. With document 1, C did not ask.
-- Which document is going to be worked on twice?
-- @pt O documento 2 ficou como estava: já concluído, ele não atende à condição. Com o documento 1, C não perguntou.
-- @pt Qual documento vai ser processado duas vezes?
SELECT documento_id, tentativas
FROM reservar('worker-b');
