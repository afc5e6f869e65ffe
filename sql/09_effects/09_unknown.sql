-- "The lease has ended" does not say "it was not executed": the stage says that the result is unknown, and the key lets a worker ask.
-- @pt "A reserva venceu" não quer dizer "não foi executado": a etapa diz que ninguém sabe, e a chave permite perguntar.
-- @setup
DELETE FROM fila_documentos
WHERE documento_id > 1;
-- @step a_claims A
SELECT documento_id, token_reserva, chave_operacao, etapa
FROM reservar('worker-a');
-- @step a_records A
-- Before it calls the receiver, A commits that from now on the result is unknown.
-- @pt Antes de chamar o receptor, A grava e confirma: a partir de agora, o resultado é desconhecido.
SELECT documento_id, etapa, versao
FROM registrar_etapa(1, 1, 'desconhecido');
-- @step c_waits C
-- A calls, and is never heard of again. Its lease ends.
-- @pt A faz a chamada e nunca mais dá notícia. A reserva vence.
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
-- B takes over. Which of these columns is as it was at A's claim?
-- @pt B assume. Qual destas colunas está como na reserva de A?
SELECT documento_id, token_reserva, chave_operacao, etapa
FROM reservar('worker-b');
-- @step b_finishes_blindly B errors 55000
-- B neither calls nor asks, and finishes. What comes back: a row, none or an error?
-- @pt B não chama nem pergunta, e conclui. O que volta: uma linha, nenhuma ou um erro?
SELECT documento_id, status
FROM concluir(1, 2);
-- @step b_records B
-- B asks the receiver by the key. It knows it, by the name of R-000001.
-- @pt B pergunta ao receptor pela chave. Ele a conhece, pelo nome de R-000001.
SELECT documento_id, etapa, versao
FROM registrar_etapa(1, 2, 'obtido', 'R-000001');
-- @step b_finishes B
SELECT documento_id, status, versao
FROM concluir(1, 2);
-- @step c_reads C
-- Who did what, under which token?
-- @pt Quem fez o quê, com qual token?
SELECT versao, de, para, token_reserva, quem, por_que
FROM auditoria
ORDER BY versao;
-- @step c_looks C
SELECT status, tentativas, etapa, referencia_externa
FROM fila_documentos
WHERE documento_id = 1;
