-- Without ORDER BY it is not first in, first out: the claim takes whichever row it reads first.
-- @pt Sem ORDER BY não é "primeiro a entrar, primeiro a sair": a reserva pega a primeira linha que ler.
-- @setup
UPDATE fila_documentos SET nome_arquivo = 'nfe-0001-corrigido.xml' WHERE documento_id = 1;
ANALYZE fila_documentos;
-- @step a_asks A
-- The file name of document 1, the oldest, was corrected: its new version lies behind the others. Which one comes first?
-- @pt O nome do arquivo do documento 1, o mais antigo, foi corrigido: a versão nova fica depois das outras. Qual vem primeiro?
SELECT documento_id, chave
FROM fila_documentos
WHERE status = 'pendente'
FOR UPDATE SKIP LOCKED
LIMIT 1;
-- @step a_asks_in_order A
-- With an ORDER BY:
-- @pt Com ORDER BY:
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;
