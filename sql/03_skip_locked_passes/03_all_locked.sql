-- When A has locked all four pending rows, B's SKIP LOCKED query returns none, while a plain count finds four.
-- @pt Com as quatro linhas pendentes bloqueadas por A, o SKIP LOCKED de B não devolve nenhuma, e uma contagem comum encontra quatro.
-- @step a_begin A
BEGIN;
-- @step a_takes_all A
SELECT documento_id
FROM fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE;
-- @step b_asks B
-- What does B get?
-- @pt O que B recebe?
SELECT documento_id, chave
FROM fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;
-- @step b_counts B
-- Nothing. Is the queue empty?
-- @pt Nada. A fila está vazia?
SELECT count(*) AS pendentes
FROM fila_documentos
WHERE status = 'pendente';
-- @step a_ends A
COMMIT;
