-- However often it is renewed, an attempt ends at the maximum run time: a hung worker whose heartbeat goes on loses its document.
-- @pt Por mais que seja renovada, a tentativa acaba no tempo máximo: um worker travado que segue dando sinal perde o documento.
-- @step a_claims A
-- A hangs right after its claim. Its heartbeat does not notice, and beats on every four minutes.
-- @pt A trava logo depois da reserva. O sinal de vida dele não percebe e continua, de quatro em quatro minutos.
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
-- An attempt may run for fifteen minutes. Until when does this renewal reach, which asks for five more?
-- @pt Uma tentativa pode durar quinze minutos. Até quando vai esta renovação, que pede mais cinco?
SELECT renovado.documento_id, renovado.reservado_ate = fila.iniciado_em + tempo_maximo() AS no_limite
FROM renovar(1, 1, '5 minutes') AS renovado
INNER JOIN fila_documentos AS fila ON renovado.documento_id = fila.documento_id;
-- @step c_at_15 C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '15 minutes'
RETURNING adiantado;
-- @step h_beats_at_15 H
-- And this one?
-- @pt E esta?
SELECT renovado.documento_id, renovado.reservado_ate = fila.iniciado_em + tempo_maximo() AS no_limite
FROM renovar(1, 1, '5 minutes') AS renovado
INNER JOIN fila_documentos AS fila ON renovado.documento_id = fila.documento_id;
-- @step c_recovers C
SELECT documento_id, status, worker_anterior
FROM recuperar('vigia', 'tempo maximo esgotado');
-- @step b_claims B
SELECT documento_id, token_reserva
FROM reservar('worker-b');
