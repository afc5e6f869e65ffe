-- A fourth stage says that the local confirmation has begun: after a cut in it, the next worker confirms again, with no second call.
-- @pt A quarta etapa diz que a confirmação local começou: depois de um corte, o próximo worker confirma de novo, sem uma segunda chamada.
-- @setup
CREATE TABLE lancamentos (documento_id BIGINT NOT NULL, valor NUMERIC NOT NULL);
DELETE FROM fila_documentos
WHERE documento_id > 1;
-- @step a_claims A
SELECT documento_id, token_reserva, etapa
FROM reservar('worker-a');
-- @step a_records A
SELECT documento_id, etapa
FROM registrar_etapa(1, 1, 'desconhecido');
-- @step a_obtains A
-- A calls the receiver, which answers R-000001.
-- @pt A chama o receptor, que responde R-000001.
SELECT documento_id, etapa
FROM registrar_etapa(1, 1, 'obtido', 'R-000001');
-- @step a_confirms A
-- What is left is local: an entry in another table, and the finish.
-- @pt O que falta é local: um lançamento em outra tabela e a conclusão.
SELECT documento_id, etapa
FROM registrar_etapa(1, 1, 'confirmando');
-- @step a_begin A
BEGIN;
-- @step a_books A
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
-- Which stage is left, and how many entries?
-- @pt Que etapa restou, e quantos lançamentos?
SELECT status, etapa, referencia_externa, (SELECT count(*) FROM lancamentos) AS lancamentos
FROM fila_documentos
WHERE documento_id = 1;
-- @step c_waits C
-- Of the confirmation nothing is left, half an entry neither. A's lease ends …
-- @pt Da confirmação não restou nada, nem pela metade. A reserva de A vence …
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
-- B takes over. What does the claim tell it of the call?
-- @pt B assume. O que a reserva conta a B sobre a chamada?
SELECT documento_id, token_reserva, etapa, referencia_externa
FROM reservar('worker-b');
-- @step b_records B errors 22023
-- The result is known. May B announce a call all the same?
-- @pt O resultado é conhecido. Mesmo assim, B pode anunciar uma chamada?
SELECT documento_id, etapa
FROM registrar_etapa(1, 2, 'desconhecido');
-- @step b_begin B
-- No: all that is left to do is to confirm.
-- @pt Não: só falta confirmar.
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
-- Two attempts. How many calls were announced, and how many entries are there?
-- @pt Duas tentativas. Quantas chamadas foram anunciadas, e quantos lançamentos existem?
SELECT
    status,
    tentativas,
    etapa,
    (SELECT count(*) FROM auditoria AS registro WHERE registro.por_que = 'etapa desconhecido') AS chamadas,
    (SELECT count(*) FROM lancamentos) AS lancamentos
FROM fila_documentos
WHERE documento_id = 1;
