-- A document's row and a balance, locked in opposite orders: 40P01; the loser's rollback is enough, its token still holds.
-- @pt A linha de um documento e um saldo, bloqueados em ordens opostas: 40P01; a quem perde basta o ROLLBACK, o token ainda vale.
-- @setup
CREATE TABLE saldos (conta BIGINT PRIMARY KEY, saldo NUMERIC NOT NULL);
INSERT INTO saldos (conta, saldo)
VALUES (1, 0);
DELETE FROM fila_documentos
WHERE documento_id > 2;
-- @step a_claims A
SELECT documento_id, token_reserva
FROM reservar('worker-a', 2);
-- @step a_begin A
BEGIN;
-- @step a_books A
-- Worker A locks the balance first, and the document's row when it finishes.
-- @pt O worker A bloqueia primeiro o saldo e, ao concluir, a linha do documento.
UPDATE saldos
SET saldo = saldo + 10
WHERE conta = 1
RETURNING saldo;
-- @step b_begin B
BEGIN;
-- @step b_locks B
-- B belongs to another program, which corrects document 1: the document's row first, then the balance.
-- @pt B é de outro programa, que corrige o documento 1: primeiro a linha do documento, depois o saldo.
SELECT documento_id, status
FROM fila_documentos
WHERE documento_id = 1
FOR UPDATE;
-- @step b_corrects B blocks A
UPDATE saldos
SET saldo = saldo - 1
WHERE conta = 1
RETURNING saldo;
-- @step c_hurries C
-- A wait that outlasts deadlock_timeout, 1 s: by then B has looked for a deadlock, found none, and does not look again.
-- @pt Uma espera que dura mais que o deadlock_timeout, de 1 s: até lá, B já procurou um impasse, não achou e não procura de novo.
SET lock_timeout = '2s';
-- @step c_asks C blocks B
SELECT documento_id, status
FROM fila_documentos
WHERE documento_id = 1
FOR UPDATE;
-- @ends c_asks errors 55P03
-- @step a_finishes A blocks B
-- A's finish closes the circle. Who loses, and what has to be claimed again?
-- @pt A conclusão de A fecha o ciclo. Quem perde, e o que precisa ser reservado de novo?
SELECT documento_id, status
FROM concluir(1, 1);
-- @ends a_finishes errors 40P01
-- A looks after a second, finds the circle, and is the victim. Its transaction has failed, and its locks are gone.
-- @pt Depois de um segundo, A procura, acha o ciclo e é a vítima. A transação dele falhou, e os bloqueios se foram.
-- @ends b_corrects
-- @step b_commits B
COMMIT;
-- @step a_rolls_back A
ROLLBACK;
-- @step a_begin_again A
-- The same connection, a new transaction.
-- @pt A mesma conexão, uma transação nova.
BEGIN;
-- @step a_books_again A
-- Which balance does A find: the one it saw before, or B's?
-- @pt Que saldo A encontra: o que viu antes ou o de B?
UPDATE saldos
SET saldo = saldo + 10
WHERE conta = 1
RETURNING saldo;
-- @step a_finishes_again A
-- Does the token of the claim still hold?
-- @pt O token da reserva ainda vale?
SELECT documento_id, status
FROM concluir(1, 1);
-- @step a_commits A
COMMIT;
-- @step a_begin_in_order A
-- Now document 2, and one order for both: the document's row first.
-- @pt Agora o documento 2, e uma só ordem para os dois: primeiro a linha do documento.
BEGIN;
-- @step a_finishes_first A
SELECT documento_id, status
FROM concluir(2, 2);
-- @step b_begin_in_order B
BEGIN;
-- @step b_waits B blocks A
SELECT documento_id, status
FROM fila_documentos
WHERE documento_id = 2
FOR UPDATE;
-- @step a_books_last A
UPDATE saldos
SET saldo = saldo + 10
WHERE conta = 1
RETURNING saldo;
-- @step a_commits_in_order A
COMMIT;
-- @ends b_waits
-- A wait, and no deadlock: B had nothing in its hands that A needed.
-- @pt Uma espera, e nenhum impasse: B não segurava nada de que A precisasse.
-- @step b_ends B
ROLLBACK;
-- @step c_reads C
-- How many attempts did the two documents take?
-- @pt Quantas tentativas os dois documentos levaram?
SELECT fila.documento_id, fila.status, fila.tentativas, saldos.saldo
FROM fila_documentos AS fila
CROSS JOIN saldos
ORDER BY fila.documento_id;
