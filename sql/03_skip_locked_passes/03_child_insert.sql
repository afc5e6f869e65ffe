-- An open insert of a child row makes FOR UPDATE skip the parent; FOR NO KEY UPDATE takes it.
-- @pt A inserção de uma linha filha, ainda sem COMMIT, faz o FOR UPDATE pular a linha mãe; o FOR NO KEY UPDATE a pega.
-- @setup
CREATE TABLE eventos (
    evento_id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    documento_id BIGINT NOT NULL REFERENCES fila_documentos
);
-- @step a_begin A
BEGIN;
-- @step a_notes A
-- A writes an event about document 1. To keep its foreign key true, the server locks the parent FOR KEY SHARE.
-- @pt A grava um evento sobre o documento 1. Para garantir a chave estrangeira, o servidor bloqueia a linha mãe com FOR KEY SHARE.
INSERT INTO eventos (documento_id)
VALUES (1)
RETURNING documento_id;
-- @step b_update B
-- No worker claimed document 1. Does B get it?
-- @pt Ninguém reservou o documento 1. B vai recebê-lo?
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;
-- @step b_no_key_update B
-- A claim does not change the key, so this weaker lock is enough:
-- @pt Uma reserva não muda a chave, então este bloqueio mais fraco basta:
SELECT documento_id, chave
FROM fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR NO KEY UPDATE SKIP LOCKED
LIMIT 1;
-- @step a_ends A
COMMIT;
