-- A worker that has lost its document cannot record the stage, and so learns before the call that it must not call.
-- @pt Um worker que perdeu o documento não consegue registrar a etapa e, assim, descobre antes da chamada que não deve chamar.
-- @setup
DELETE FROM fila_documentos
WHERE documento_id > 1;
-- @step a_claims A
SELECT documento_id, token_reserva, etapa
FROM reservar('worker-a');
-- @step c_waits C
-- A stalls before its call. Its lease ends, and B takes over.
-- @pt A fica parado antes da chamada. A reserva vence, e B assume.
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
SELECT documento_id, token_reserva, etapa
FROM reservar('worker-b');
-- @step a_records A
-- A wakes up and wants to call. How many rows does its stage change?
-- @pt A acorda e quer chamar. Quantas linhas a etapa dele altera?
SELECT documento_id, etapa
FROM registrar_etapa(1, 1, 'desconhecido');
-- @step b_records B
SELECT documento_id, etapa
FROM registrar_etapa(1, 2, 'desconhecido');
-- @step b_hands_over B
-- B's call gets no answer, and this receiver cannot be asked: the document is for people.
-- @pt A chamada de B fica sem resposta, e este receptor não responde a consultas: o documento vai para conciliação manual.
SELECT documento_id, status
FROM conciliar(1, 2, 'sem resposta, e o receptor recusa consultas');
-- @step a_hands_over A
-- Would A's late word on it count?
-- @pt Uma resposta atrasada de A ainda valeria?
SELECT documento_id, status
FROM conciliar(1, 1, 'sem resposta');
