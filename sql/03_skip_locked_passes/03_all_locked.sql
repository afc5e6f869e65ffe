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
-- Which document does B get?
-- @pt Qual documento B recebe?
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;
-- @step b_counts B
-- None. How many pending documents does a plain count find?
-- @pt Nenhum. Quantos documentos pendentes uma contagem comum encontra?
SELECT count(*) AS pendentes
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente';
-- @step a_ends A
COMMIT;
