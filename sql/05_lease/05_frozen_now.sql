-- now() stands still from the beginning of a transaction to its end; clock_timestamp() goes on.
-- @pt now() fica parado do início ao fim da transação; clock_timestamp() continua andando.
-- @setup
CREATE TABLE leituras (sessao TEXT NOT NULL, pelo_now TIMESTAMPTZ NOT NULL, pelo_relogio TIMESTAMPTZ NOT NULL);
-- @step a_begin A
BEGIN;
-- @step a_reads A
-- A notes what both say …
-- @pt A anota o que os dois dizem …
INSERT INTO leituras (sessao, pelo_now, pelo_relogio) VALUES ('A', now(), clock_timestamp());
-- @step b_reads B
-- … then B does, in a transaction of its own …
-- @pt … depois B, em uma transação própria …
INSERT INTO leituras (sessao, pelo_now, pelo_relogio) VALUES ('B', now(), clock_timestamp());
-- @step a_reads_again A
-- … then A once more.
-- @pt … e de novo A.
INSERT INTO leituras (sessao, pelo_now, pelo_relogio) VALUES ('A', now(), clock_timestamp());
-- @step a_counts A
-- A read each of them twice. How many different times did it get from each?
-- @pt A leu cada um duas vezes. Quantos horários diferentes obteve de cada um?
SELECT count(DISTINCT pelo_now) AS do_now, count(DISTINCT pelo_relogio) AS do_relogio
FROM leituras
WHERE sessao = 'A';
-- @step a_compares A
-- B's row is committed. Was it written in the future, as A sees it?
-- @pt A linha de B já tem COMMIT. Para A, ela foi escrita no futuro?
SELECT pelo_relogio > now() AS futuro_pelo_now, pelo_relogio > clock_timestamp() AS futuro_pelo_relogio
FROM leituras
WHERE sessao = 'B';
-- @step a_commits A
COMMIT;
