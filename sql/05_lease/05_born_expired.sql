-- A deadline computed before a wait for a lock is born expired; take the lock first, then read the clock.
-- @pt Um prazo calculado antes da espera por um bloqueio já nasce vencido; pegue o bloqueio primeiro e só depois leia o relógio.
-- @step b_begin B
BEGIN;
-- @step b_locks B
SELECT documento_id
FROM fila_documentos
WHERE documento_id = 1
FOR UPDATE;
-- @step a_claims A blocks B
-- A claims document 1 for ten minutes in one statement, and has to wait for B's lock.
-- @pt O worker A reserva o documento 1 por dez minutos em um só comando, e precisa esperar pelo bloqueio de B.
UPDATE fila_documentos
SET
    status = 'processando',
    tentativas = tentativas + 1,
    worker_id = 'worker-a',
    reservado_ate = relogio() + INTERVAL '10 minutes'
WHERE documento_id = 1 AND status = 'pendente'
RETURNING documento_id, tentativas;
-- @step c_moves C
-- Meanwhile eleven minutes pass.
-- @pt Enquanto isso, passam onze minutos.
UPDATE relogio_do_laboratorio
SET adiantado = adiantado + INTERVAL '11 minutes'
RETURNING adiantado;
-- @step b_commits B
COMMIT;
-- @ends a_claims
-- @step c_looks C
-- A has had the document for a moment. Does its lease hold?
-- @pt A acaba de receber o documento. A reserva dele vale?
SELECT documento_id, worker_id, reservado_ate > relogio() AS vale
FROM fila_documentos
WHERE documento_id = 1;
-- @step b_begin_again B
BEGIN;
-- @step b_locks_another B
-- No: the deadline was computed before the wait. The same with document 2 …
-- @pt Não: o prazo foi calculado antes da espera. O mesmo com o documento 2 …
SELECT documento_id
FROM fila_documentos
WHERE documento_id = 2
FOR UPDATE;
-- @step a_begin A
BEGIN;
-- @step a_locks A blocks B
-- … but A takes the lock first.
-- @pt … mas A pega o bloqueio primeiro.
SELECT documento_id
FROM fila_documentos
WHERE documento_id = 2 AND status = 'pendente'
FOR UPDATE;
-- @step c_moves_on C
UPDATE relogio_do_laboratorio
SET adiantado = adiantado + INTERVAL '11 minutes'
RETURNING adiantado;
-- @step b_commits_again B
COMMIT;
-- @ends a_locks
-- @step a_marks A
UPDATE fila_documentos
SET
    status = 'processando',
    tentativas = tentativas + 1,
    worker_id = 'worker-a',
    reservado_ate = relogio() + INTERVAL '10 minutes'
WHERE documento_id = 2
RETURNING documento_id, tentativas;
-- @step a_commits A
COMMIT;
-- @step c_recovers C
-- Which of A's two documents is taken back at once?
-- @pt Qual dos dois documentos de A é tomado de volta na hora?
SELECT documento_id, status, worker_anterior
FROM recuperar();
