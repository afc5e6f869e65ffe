-- A loop in one transaction that compares with now() never sees a lease end; by clock_timestamp() it does.
-- @pt Um laço dentro de uma transação que compara com now() nunca vê uma reserva vencer; com clock_timestamp(), vê.
-- @step a_begin A
-- A looks for late documents again and again, in one transaction. now() was read here, once.
-- @pt A sessão A procura reservas vencidas repetidas vezes, em uma só transação. now() foi lido aqui, uma única vez.
BEGIN;
-- @step a_looks A
SELECT count(*) AS vencidas
FROM fila_documentos
WHERE status = 'processando' AND reservado_ate < now();
-- @step b_claims B
-- B claims for a microsecond: the next look comes after the deadline.
-- @pt B reserva por um microssegundo: quem olhar em seguida já chega depois do prazo.
SELECT documento_id, tentativas
FROM reservar('worker-b', 1, '1 microsecond');
-- @step a_looks_again A
-- A's next look, the same statement. How many are late?
-- @pt A olha de novo, com o mesmo comando. Quantas venceram?
SELECT count(*) AS vencidas
FROM fila_documentos
WHERE status = 'processando' AND reservado_ate < now();
-- @step a_reads_the_clock A
-- And by clock_timestamp()?
-- @pt E por clock_timestamp()?
SELECT count(*) AS vencidas
FROM fila_documentos
WHERE status = 'processando' AND reservado_ate < clock_timestamp();
-- @step a_recovers A
-- The protocol reads its clock at every call:
-- @pt O protocolo lê o relógio a cada chamada:
SELECT documento_id, status, worker_anterior
FROM recuperar();
-- @step a_commits A
COMMIT;
