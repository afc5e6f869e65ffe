-- Work inside the database shares the finishing transaction: it is lost with it and kept with it, exactly once, with no key.
-- @pt O trabalho dentro do banco divide a transação com a conclusão: ou os dois ficam, ou nenhum: exatamente uma vez, e sem chave.
-- @setup
CREATE TABLE lancamentos (documento_id BIGINT NOT NULL, valor NUMERIC NOT NULL);
DELETE FROM fila_documentos
WHERE documento_id > 1;
-- @step a_claims A
SELECT documento_id, token_reserva, tentativas
FROM reservar('worker-a');
-- @step a_begin A
BEGIN;
-- @step a_books A
-- The work is an entry in another table of the same database.
-- @pt O trabalho é um lançamento em outra tabela do mesmo banco.
INSERT INTO lancamentos (documento_id, valor)
SELECT documento_id, (xpath('/nfe/valor/text()', conteudo_xml))[1]::TEXT::NUMERIC
FROM fila_documentos
WHERE documento_id = 1
RETURNING documento_id, valor;
-- @step a_finishes A
SELECT documento_id, status
FROM concluir(1, 1);
-- @step c_kills C
-- A's connection is cut before its COMMIT.
-- @pt A conexão de A é cortada antes do COMMIT.
SELECT pg_terminate_backend(pid, 5000) AS encerrado
FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'lab/A';
-- @step c_reads C
-- How many entries are left of A's work?
-- @pt Quantos lançamentos restaram do trabalho de A?
SELECT status, etapa, (SELECT count(*) FROM lancamentos) AS lancamentos
FROM fila_documentos
WHERE documento_id = 1;
-- @step c_waits C
-- None, and no finish: there is nothing to find out. A's lease ends …
-- @pt Nenhum, nem a conclusão: ninguém precisa descobrir se aconteceu. A reserva de A vence …
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '1 minute'
RETURNING adiantado;
-- @step c_recovers C
SELECT documento_id, status, etapa
FROM recuperar('vigia');
-- @step c_waits_again C
-- Another minute, so that its next attempt is due.
-- @pt Mais um minuto, para que a próxima tentativa possa começar.
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '2 minutes'
RETURNING adiantado;
-- @step b_claims B
SELECT documento_id, token_reserva, tentativas
FROM reservar('worker-b');
-- @step b_begin B
BEGIN;
-- @step b_books B
INSERT INTO lancamentos (documento_id, valor)
SELECT documento_id, (xpath('/nfe/valor/text()', conteudo_xml))[1]::TEXT::NUMERIC
FROM fila_documentos
WHERE documento_id = 1
RETURNING documento_id, valor;
-- @step b_finishes B
SELECT documento_id, status
FROM concluir(1, 2);
-- @step b_commits B
COMMIT;
-- @step c_counts C
-- Two attempts have worked on document 1. How many entries are there?
-- @pt Duas tentativas trabalharam no documento 1. Quantos lançamentos existem?
SELECT status, tentativas, (SELECT count(*) FROM lancamentos) AS lancamentos
FROM fila_documentos
WHERE documento_id = 1;
