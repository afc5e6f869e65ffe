-- NOWAIT is the third way: it neither waits nor passes, it fails at once.
-- @pt NOWAIT é a terceira via: não espera nem pula, falha na hora.
-- @step a_begin A
BEGIN;
-- @step a_takes A
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE
LIMIT 1;
-- @step b_asks B errors 55P03
-- Three other documents are free. Which of them does B get?
-- @pt Outros três documentos estão livres. Qual deles B recebe?
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE NOWAIT
LIMIT 1;
-- @step a_ends A
COMMIT;
