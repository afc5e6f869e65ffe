-- Choosing a window before locking returns zero rows with work left.
-- @pt Escolher uma janela antes de bloquear devolve zero linhas, mesmo com trabalho sobrando.
-- @step a_begin A
BEGIN;
-- @step a_takes A
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;
-- @step b_asks B
-- The inner query chooses the oldest document without a lock, the outer one locks it. What does B get?
-- @pt A consulta interna escolhe o documento mais antigo sem bloqueio, e a externa o bloqueia. O que B recebe?
SELECT fila.documento_id, fila.chave
FROM (
    SELECT documento_id
    FROM fila_documentos
    WHERE status = 'pendente'
    ORDER BY criado_em, documento_id
    LIMIT 1
) AS janela
INNER JOIN fila_documentos AS fila ON janela.documento_id = fila.documento_id
FOR UPDATE OF fila SKIP LOCKED;
-- @step b_asks_properly B
-- Locked while choosing:
-- @pt Bloqueando ao escolher:
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;
-- @step a_ends A
COMMIT;
