-- However often it is renewed, an attempt ends at the maximum run time: a hung worker whose heartbeat goes on loses its document.
-- @pt Por mais que seja renovada, a tentativa acaba no tempo máximo: um worker travado que segue dando sinal perde o documento.
-- @step a_claims A
-- A hangs right after its claim. Its heartbeat does not notice, and beats on every four minutes.
-- @pt O worker A trava logo depois da reserva. O sinal de vida dele não percebe e continua, de quatro em quatro minutos.
SELECT documento_id, token_reserva
FROM reservar('worker-a', p_prazo => '5 minutes');
-- @step c_at_4 C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '4 minutes'
RETURNING adiantado;
-- @step h_beats_at_4 H
SELECT renovado.documento_id, renovado.reservado_ate = fila.iniciado_em + tempo_maximo() AS no_limite
FROM renovar(1, 1, '5 minutes') AS renovado
INNER JOIN fila_documentos AS fila ON renovado.documento_id = fila.documento_id;
-- @step c_at_8 C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '8 minutes'
RETURNING adiantado;
-- @step h_beats_at_8 H
SELECT renovado.documento_id, renovado.reservado_ate = fila.iniciado_em + tempo_maximo() AS no_limite
FROM renovar(1, 1, '5 minutes') AS renovado
INNER JOIN fila_documentos AS fila ON renovado.documento_id = fila.documento_id;
-- @step c_at_12 C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '12 minutes'
RETURNING adiantado;
-- @step h_beats_at_12 H
-- An attempt may run for fifteen minutes. At minute twelve it is to be renewed by five. Does that reach the limit?
-- @pt Uma tentativa pode durar quinze minutos. No minuto doze, pede-se mais cinco. Isso chega ao limite?
SELECT renovado.documento_id, renovado.reservado_ate = fila.iniciado_em + tempo_maximo() AS no_limite
FROM renovar(1, 1, '5 minutes') AS renovado
INNER JOIN fila_documentos AS fila ON renovado.documento_id = fila.documento_id;
-- @step c_at_15 C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '15 minutes'
RETURNING adiantado;
-- @step h_beats_at_15 H
-- At minute fifteen it is to be renewed again. How many rows change?
-- @pt No minuto quinze, pede-se de novo. Quantas linhas mudam?
SELECT renovado.documento_id, renovado.reservado_ate = fila.iniciado_em + tempo_maximo() AS no_limite
FROM renovar(1, 1, '5 minutes') AS renovado
INNER JOIN fila_documentos AS fila ON renovado.documento_id = fila.documento_id;
-- @step c_recovers C
SELECT documento_id, status, worker_anterior
FROM recuperar('vigia', 'tempo maximo esgotado');
-- @step b_claims B
SELECT documento_id, token_reserva
FROM reservar('worker-b');
