-- At the last attempt recovery finishes a document by the call's result alone; a local entry that its worker still had to write is missing.
-- @pt Na última tentativa, a recuperação conclui só pelo resultado da chamada; falta o lançamento local que o worker ainda ia gravar.
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
-- Work that also writes locally has to look for what is finished and has no entry.
-- @pt Um trabalho que também grava localmente precisa procurar o que está concluído sem lançamento.
SELECT fila.documento_id, fila.referencia_externa
FROM fila_documentos AS fila
LEFT JOIN lancamentos ON fila.documento_id = lancamentos.documento_id
WHERE fila.status = 'concluido' AND lancamentos.documento_id IS NULL;
