-- Where the worker also writes inside the database, the call's result is not the end: at the last attempt the document goes to people.
-- @pt Se o worker também grava no banco, o resultado da chamada não é o fim: na última tentativa, o documento vai para conciliação manual.
-- @setup
CREATE TABLE lancamentos (documento_id BIGINT NOT NULL, valor NUMERIC NOT NULL);
DELETE FROM fila_documentos
WHERE documento_id > 1;
UPDATE fila_documentos
SET max_tentativas = 1;
-- @step a_claims A
SELECT documento_id, token_reserva, etapa
FROM reservar('worker-a');
-- @step a_records A
SELECT documento_id, etapa
FROM registrar_etapa(1, 1, 'desconhecido');
-- @step a_obtains A
SELECT documento_id, etapa
FROM registrar_etapa(1, 1, 'obtido', 'R-000001');
-- @step a_confirms A
-- A has the result, and still has to write its entry and to finish. It is never heard of again.
-- @pt A tem o resultado e ainda precisa gravar o lançamento e concluir. Nunca mais dá notícia.
SELECT documento_id, etapa
FROM registrar_etapa(1, 1, 'confirmando');
-- @step c_waits C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '1 minute'
RETURNING adiantado;
-- @step c_recovers C
-- It was the last attempt. What does recovery do?
-- @pt Era a última tentativa. O que faz a recuperação?
SELECT documento_id, status, etapa
FROM recuperar('vigia');
-- @step c_looks C
-- Finished by the call's result alone, it would have no entry, and no error would say so. Is anything finished without one?
-- @pt Concluído só pelo resultado da chamada, ele ficaria sem lançamento, e nenhum erro avisaria. Há algo concluído sem lançamento?
SELECT fila.documento_id, fila.referencia_externa
FROM fila_documentos AS fila
LEFT JOIN lancamentos ON fila.documento_id = lancamentos.documento_id
WHERE fila.status = 'concluido' AND lancamentos.documento_id IS NULL;
