-- Row security without a policy looks like an empty queue: no error, zero rows, while the owner counts four.
-- @pt Segurança de linha sem política parece uma fila vazia: nenhum erro, zero linhas, enquanto o dono conta quatro.
-- @step b_role B
SET ROLE sql_semana_12_reader;
-- @step b_counts B
SELECT count(*) AS documentos
FROM fila_documentos;
-- @step o_switches_on O
-- An administrator switches row security on, to write policies later.
-- @pt Alguém liga a segurança de linha, para escrever as políticas depois.
ALTER TABLE fila_documentos ENABLE ROW LEVEL SECURITY;
-- @step b_counts_again B
-- What does the reader get: an error, or a number?
-- @pt O que o leitor recebe: um erro ou um número?
SELECT count(*) AS documentos
FROM fila_documentos;
-- @step o_counts O
SELECT count(*) AS documentos
FROM fila_documentos;
-- @step b_asks_the_view B
-- The view reads the table as its owner.
-- @pt A visão lê a tabela como dona.
SELECT aguardando
FROM situacao;
-- @step c_role C
SET ROLE sql_semana_12_worker;
-- @step c_claims C
-- And so do the protocol's functions.
-- @pt E as funções do protocolo também.
SELECT documento_id
FROM reservar('worker-c');
-- @step o_makes_policy O
CREATE POLICY leitura ON fila_documentos FOR SELECT TO sql_semana_12_reader USING (TRUE);
-- @step b_counts_at_last B
SELECT count(*) AS documentos
FROM fila_documentos;
