-- SELECT ... FOR UPDATE needs the UPDATE privilege: a role that may only read gets 42501, and one that may lock may write.
-- @pt SELECT ... FOR UPDATE exige o privilégio UPDATE: quem só pode ler recebe 42501, e quem pode bloquear pode escrever.
-- @step b_role B
SET ROLE sql_semana_12_reader;
-- @step b_reads B
SELECT documento_id
FROM fila_documentos
WHERE documento_id = 1;
-- @step b_locks B errors 42501
-- The reader may read document 1. May it lock it?
-- @pt O leitor pode ler o documento 1. Pode bloqueá-lo?
SELECT documento_id
FROM fila_documentos
WHERE documento_id = 1
FOR UPDATE;
-- @step b_shares B errors 42501
-- And the weakest lock of all?
-- @pt E o bloqueio mais fraco de todos?
SELECT documento_id
FROM fila_documentos
WHERE documento_id = 1
FOR KEY SHARE;
-- @step o_grants O
-- The owner gives way: one column, of no importance.
-- @pt O dono cede: uma coluna, sem importância.
GRANT UPDATE (nome_arquivo) ON fila_documentos TO sql_semana_12_reader;
-- @step b_locks_again B
-- Is that enough to lock the row?
-- @pt Isso basta para bloquear a linha?
SELECT documento_id
FROM fila_documentos
WHERE documento_id = 1
FOR UPDATE;
-- @step b_writes B
-- And the reader is none any more.
-- @pt E o leitor deixou de ser só leitor.
UPDATE fila_documentos
SET nome_arquivo = 'outro.xml'
WHERE documento_id = 1
RETURNING documento_id, nome_arquivo;
-- @step c_role C
SET ROLE sql_semana_12_worker;
-- @step c_reads C errors 42501
-- The worker has no right on the table at all.
-- @pt O worker não tem direito nenhum sobre a tabela.
SELECT documento_id
FROM fila_documentos
WHERE documento_id = 1;
-- @step c_claims C
-- How does it lock and mark its document, then?
-- @pt Como, então, ele bloqueia e marca o seu documento?
SELECT documento_id, token_reserva
FROM reservar('worker-c');
