-- Pausing is refused while a worker holds a live lease; pausing an orphan voids its token, so that a late finish changes nothing.
-- @pt Pausar é recusado enquanto a reserva do worker vale; pausar um órfão anula o token, e uma conclusão atrasada não altera nada.
-- @step a_claims A
SELECT documento_id, token_reserva, versao
FROM reservar('worker-a');
-- @step o_examines O
-- An operator wants document 1 out of the way, and looks before touching anything.
-- @pt Um operador quer tirar o documento 1 do caminho e olha antes de mexer em qualquer coisa.
SELECT status, versao, tentativas, worker_id, reserva_viva
FROM examinar(1);
-- @step o_pauses O
-- A holds a live lease. How many rows does this change?
-- @pt A reserva de A ainda vale. Quantas linhas isto altera?
SELECT documento_id, status
FROM pausar(1, 1, 'operador', 'suspeita de erro');
-- @step o_waits O
-- A minute goes by on the lab's clock: twice the lease. A has not renewed it.
-- @pt Passa um minuto no relógio do laboratório: o dobro do prazo. A não renovou.
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '1 minute'
RETURNING adiantado;
-- @step o_pauses_orphan O
-- The same command. How many rows does it change now?
-- @pt O mesmo comando. Quantas linhas ele altera agora?
SELECT documento_id, status, versao
FROM pausar(1, 1, 'operador', 'suspeita de erro');
-- @step a_finishes A
-- A was only slow. Its token was 1: how many rows does its finish change?
-- @pt A só estava lento. O token dele era 1: quantas linhas a conclusão dele altera?
SELECT documento_id, status
FROM concluir(1, 1);
-- @step a_renews A
SELECT documento_id, reservado_ate > relogio() AS vale
FROM renovar(1, 1);
-- @step b_claims B
-- B asks for all there is. Will document 1 be among it?
-- @pt B pede tudo o que houver. O documento 1 vem junto?
SELECT documento_id, token_reserva
FROM reservar('worker-b', 10)
ORDER BY documento_id;
-- @step o_resumes O
SELECT documento_id, status, versao
FROM retomar(1, 2, 'operador', 'documento conferido');
-- @step b_claims_again B
-- Nothing is forgotten: it is the second attempt, under a token of its own.
-- @pt Nada é esquecido: é a segunda tentativa, com um token próprio.
SELECT documento_id, token_reserva, tentativas, versao
FROM reservar('worker-b', 10);
