-- When attempts run out the stage decides: not called fails, unknown goes to people, obtained is finished if the call was all.
-- @pt Quando as tentativas se esgotam, a etapa decide: não chamado falha, desconhecido vai a conciliação, obtido conclui se a chamada era tudo.
-- @setup
DELETE FROM fila_documentos
WHERE documento_id > 3;
UPDATE fila_documentos
SET max_tentativas = 1;
-- @step a_claims A
SELECT documento_id, token_reserva, etapa
FROM reservar('worker-a');
-- @step a_claims_second A
SELECT documento_id, token_reserva, etapa
FROM reservar('worker-a');
-- @step a_claims_third A
SELECT documento_id, token_reserva, etapa
FROM reservar('worker-a');
-- @step a_calls_second A
-- The receiver is called for documents 2 and 3, and answers for 3 only.
-- @pt O receptor é chamado para os documentos 2 e 3 e só responde sobre o 3.
SELECT documento_id, etapa
FROM registrar_etapa(2, 2, 'desconhecido');
-- @step a_calls_third A
SELECT documento_id, etapa
FROM registrar_etapa(3, 3, 'desconhecido', p_chamada_basta => TRUE);
-- @step a_obtains_third A
SELECT documento_id, etapa
FROM registrar_etapa(3, 3, 'obtido', 'R-000003');
-- @step c_waits C
-- A is never heard of again, and this was the last attempt of all three.
-- @pt A nunca mais dá notícia, e esta era a última tentativa dos três.
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '1 minute'
RETURNING adiantado;
-- @step c_recovers C
-- Document 2 was called and gave no answer. What becomes of it?
-- @pt O documento 2 teve a chamada feita e ficou sem resposta. O que acontece com ele?
SELECT documento_id, etapa, status
FROM recuperar('vigia');
-- @step b_asks B
-- Is there anything left to claim?
-- @pt Sobrou algo para reservar?
SELECT documento_id
FROM reservar('worker-b');
-- @step c_reads C
SELECT documento_id, status, etapa, referencia_externa
FROM fila_documentos
ORDER BY documento_id;
