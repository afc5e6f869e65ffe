-- A stalls, its lease ends, B takes over: A's late finish, failure and renewal change no row each, and B's finish changes one.
-- @pt A fica parado, a reserva vence, B assume: conclusão, falha e renovação atrasadas de A não alteram nada; a conclusão de B, uma linha.
-- @step a_claims A
SELECT documento_id, token_reserva, versao, tentativas
FROM reservar('worker-a');
-- @step c_waits C
-- A stalls. A minute goes by on the lab's clock: twice the lease.
-- @pt A fica parado. Passa um minuto no relógio do laboratório: o dobro do prazo da reserva.
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '1 minute'
RETURNING adiantado;
-- @step c_recovers C
SELECT documento_id, status, versao, tentativas, worker_anterior
FROM recuperar('vigia');
-- @step b_claims B
-- B bears A's name and takes document 1. What is different from A's claim?
-- @pt B tem o mesmo nome de A e pega o documento 1. O que é diferente da reserva de A?
SELECT documento_id, token_reserva, versao, tentativas
FROM reservar('worker-a');
-- @step a_finishes A
-- A wakes up with its result and its token, 1. How many rows does its finish change?
-- @pt A acorda com o resultado e o seu token, 1. Quantas linhas a conclusão dele altera?
SELECT documento_id, status
FROM concluir(1, 1);
-- @step a_fails A
-- And its failure?
-- @pt E a falha?
SELECT documento_id, status
FROM falhar(1, 1, 'tempo esgotado');
-- @step a_renews A
-- And the heartbeat of a thread of A that has not noticed?
-- @pt E o sinal de vida de uma thread de A que não percebeu nada?
SELECT documento_id, reservado_ate > relogio() AS vale
FROM renovar(1, 1);
-- @step c_reads C
SELECT status, token_reserva, versao, reservado_ate > relogio() AS vale
FROM fila_documentos
WHERE documento_id = 1;
-- @step b_finishes B
-- B finishes under token 2.
-- @pt B conclui com o token 2.
SELECT documento_id, status, versao
FROM concluir(1, 2);
-- @step a_tries_again A
-- Document 1 has ended, and its token is void. Does A's write get through now?
-- @pt O documento 1 terminou, e o token dele não vale mais. Agora a escrita de A passa?
SELECT documento_id, status
FROM falhar(1, 1, 'tempo esgotado');
-- @step c_reads_again C
SELECT documento_id, status, tentativas, versao, ultimo_erro
FROM fila_documentos
WHERE documento_id = 1;
