-- Without a lock two buyers spend the same balance: 130.00 out of 100.00.
-- @pt Sem bloqueio, dois compradores gastam o mesmo saldo: 130,00 de um total de 100,00.
-- @setup
CREATE TABLE saldos (conta TEXT PRIMARY KEY, valor NUMERIC(10, 2) NOT NULL);
INSERT INTO saldos (conta, valor) VALUES ('conjunta', 100.00);
-- @step a_reads A
SELECT valor
FROM saldos
WHERE conta = 'conjunta';
-- @step b_reads B
-- Both have read 100.00. A buys for 70.00, B for 60.00.
-- @pt Os dois leram 100,00. A gasta 70,00 e B gasta 60,00.
SELECT valor
FROM saldos
WHERE conta = 'conjunta';
-- @step a_spends A
UPDATE saldos
SET valor = 30.00
WHERE conta = 'conjunta'
RETURNING valor;
-- @step b_spends B
-- Is B told that the money is gone?
-- @pt B fica sabendo que o dinheiro acabou?
UPDATE saldos
SET valor = 40.00
WHERE conta = 'conjunta'
RETURNING valor;
