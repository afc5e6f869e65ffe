-- A late heartbeat that names only the document steals the lease back from the worker that took over.
-- @pt Um sinal de vida atrasado que só indica o documento toma a reserva de volta de quem tinha assumido.
-- @step a_claims A
SELECT documento_id, token_reserva
FROM reservar('worker-a');
-- @step c_waits C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '1 minute'
RETURNING adiantado;
-- @step c_recovers C
SELECT documento_id, worker_anterior
FROM recuperar('vigia');
-- @step b_claims B
SELECT documento_id, token_reserva
FROM reservar('worker-b', p_prazo => '2 minutes');
-- @step a_beats A
-- A's heartbeat says "I am still at document 1" and writes its name and a deadline. How many rows change?
-- @pt O sinal de vida de A diz "ainda estou no documento 1" e grava o nome dele e um prazo. Quantas linhas mudam?
UPDATE fila_documentos
SET worker_id = 'worker-a', reservado_ate = relogio() + INTERVAL '30 seconds'
WHERE documento_id = 1 AND status = 'processando'
RETURNING documento_id, worker_id;
-- @step b_finishes_by_name B
-- B has done the work. It guards its finish by its name, as in lesson 05.
-- @pt B fez o trabalho. A conclusão dele é guardada pelo nome, como na lição 05.
UPDATE fila_documentos
SET status = 'concluido', concluido_em = relogio()
WHERE documento_id = 1 AND status = 'processando' AND worker_id = 'worker-b'
RETURNING documento_id, status;
-- @step c_waits_again C
-- Another minute goes by: B's lease of two minutes is not over yet.
-- @pt Passa mais um minuto: a reserva de B, de dois minutos, ainda não terminou.
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '2 minutes'
RETURNING adiantado;
-- @step c_looks C
-- For whom is the document late now?
-- @pt Para quem o documento está atrasado agora?
SELECT worker_id, token_reserva, reservado_ate < relogio() AS vencida
FROM fila_documentos
WHERE documento_id = 1;
-- @step a_renews A
-- The same heartbeat with the token: how many rows?
-- @pt O mesmo sinal de vida, com o token: quantas linhas?
SELECT documento_id, reservado_ate > relogio() AS vale
FROM renovar(1, 1);
-- @step b_finishes B
-- And B's finish, with its token?
-- @pt E a conclusão de B, com o token dele?
SELECT documento_id, status
FROM concluir(1, 2);
