-- The guard of lesson 05 (id, state, worker name) lets a worker that comes back end the attempt of its successor of the same name.
-- @pt A condição do WHERE da lição 05 (id, estado, worker) deixa quem volta encerrar a tentativa do sucessor de mesmo nome.
-- @builds_on 05_lease
-- @step a_claims A
SELECT documento_id, tentativas
FROM reservar('worker-a');
-- @step c_waits C
-- A stalls. A minute goes by on the lab's clock: twice the lease.
-- @pt A fica parado. Passa um minuto no relógio do laboratório: o dobro do prazo da reserva.
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '1 minute'
RETURNING adiantado;
-- @step c_recovers C
SELECT documento_id, status, tentativas, worker_anterior
FROM recuperar();
-- @step b_claims B
-- An operator has restarted worker-a. B is the new process, and bears the old name.
-- @pt Alguém reiniciou o worker-a. B é o processo novo e tem o mesmo nome do antigo.
SELECT documento_id, tentativas
FROM reservar('worker-a');
-- @step a_finishes A
-- The old process wakes up and finishes document 1, of which B has the second attempt. How many rows change?
-- @pt O processo antigo acorda e conclui o documento 1, cuja segunda tentativa é de B. Quantas linhas mudam?
SELECT documento_id, status
FROM concluir(1, 'worker-a');
-- @step b_fails B
-- B has found out that the document is bad. How many rows does its failure change?
-- @pt B descobriu que o documento está ruim. Quantas linhas a falha dele altera?
SELECT documento_id, status
FROM falhar(1, 'worker-a', 'valor ausente');
-- @step c_reads C
-- The table says that the second attempt went well. No one will look again.
-- @pt A tabela diz que a segunda tentativa deu certo. Ninguém vai olhar de novo.
SELECT documento_id, status, worker_id, tentativas, ultimo_erro
FROM fila_documentos
WHERE documento_id = 1;
