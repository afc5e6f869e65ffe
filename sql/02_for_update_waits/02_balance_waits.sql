-- Waiting is right where there is only one row to be had: with FOR UPDATE the second buyer waits, then sees 30.00.
-- @pt Esperar é o certo quando só há uma linha possível: com FOR UPDATE, o segundo comprador espera e então vê 30,00.
-- @setup
CREATE TABLE saldos (conta TEXT PRIMARY KEY, valor NUMERIC(10, 2) NOT NULL);
INSERT INTO saldos (conta, valor) VALUES ('conjunta', 100.00);
-- @step a_begin A
BEGIN;
-- @step a_reads A
SELECT valor
FROM saldos
WHERE conta = 'conjunta'
FOR UPDATE;
-- @step c_skips C
-- C would rather not wait. What does SKIP LOCKED tell C about the account?
-- @pt C prefere não esperar. O que o SKIP LOCKED diz a C sobre a conta?
SELECT valor
FROM saldos
WHERE conta = 'conjunta'
FOR UPDATE SKIP LOCKED;
-- @step b_begin B
-- Nothing, as if there were no account: for a balance that is the wrong answer. B waits.
-- @pt Nada, como se a conta não existisse: para um saldo, a resposta errada. B espera.
BEGIN;
-- @step b_reads B blocks A
SELECT valor
FROM saldos
WHERE conta = 'conjunta'
FOR UPDATE;
-- @step a_spends A
UPDATE saldos
SET valor = valor - 70.00
WHERE conta = 'conjunta'
RETURNING valor;
-- @step a_commits A
-- Which balance does B read after its wait: 100.00 or 30.00?
-- @pt Que saldo B lê depois da espera: 100,00 ou 30,00?
COMMIT;
-- @ends b_reads
-- 30.00 is not enough for 60.00: B does not buy.
-- @pt 30,00 não bastam para 60,00: B não compra.
-- @step b_gives_up B
ROLLBACK;
