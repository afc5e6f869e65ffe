-- A blind "processando to pendente" takes documents from workers that live, and doubles their effects; recuperar and pausar take none.
-- @pt Um "processando para pendente" às cegas tira documentos de workers vivos e duplica os efeitos; recuperar e pausar não tiram nenhum.
-- @setup
CREATE TABLE efeitos (documento_id BIGINT NOT NULL, worker TEXT NOT NULL);
-- @step a_claims A
SELECT documento_id, token_reserva
FROM reservar('worker-a');
-- @step b_claims B
SELECT documento_id, token_reserva
FROM reservar('worker-b');
-- @step a_calls A
-- Both are at work. efeitos stands for the outside world: what is done there stays done.
-- @pt Os dois estão trabalhando. efeitos faz o papel do mundo lá fora: o que foi feito ali está feito.
INSERT INTO efeitos (documento_id, worker)
VALUES (1, 'worker-a')
RETURNING documento_id, worker;
-- @step b_calls B
INSERT INTO efeitos (documento_id, worker)
VALUES (2, 'worker-b')
RETURNING documento_id, worker;
-- @step o_recovers O
-- "The queue hangs", says the report. How many documents does recuperar take from their workers?
-- @pt "A fila travou", diz alguém. Quantos documentos recuperar tira dos workers?
SELECT documento_id, worker_anterior
FROM recuperar('operador', 'a fila travou');
-- @step o_pauses O
-- And pausar?
-- @pt E pausar?
SELECT documento_id, status
FROM pausar(1, 1, 'operador', 'a fila travou');
-- @step o_resets O
-- Now by hand, as in the episode's reset.sql. How many?
-- @pt Agora na mão, como no reset.sql do episódio. Quantos?
UPDATE fila_documentos
SET status = 'pendente', worker_id = NULL
WHERE status = 'processando'
RETURNING documento_id, reservado_ate > relogio() AS reserva_viva;
-- @step c_claims C
SELECT documento_id, token_reserva, tentativas
FROM reservar('worker-c', 2)
ORDER BY documento_id;
-- @step c_calls C
INSERT INTO efeitos (documento_id, worker)
VALUES (1, 'worker-c'), (2, 'worker-c')
RETURNING documento_id, worker;
-- @step a_finishes A
-- A has done its work. Is it let finish?
-- @pt A fez o seu trabalho. A conclusão passa?
SELECT documento_id, status
FROM concluir(1, 1);
-- @step b_finishes B
SELECT documento_id, status
FROM concluir(2, 2);
-- @step o_counts O
-- Two documents. How many effects?
-- @pt Dois documentos. Quantos efeitos?
SELECT count(DISTINCT documento_id) AS documentos, count(*) AS efeitos
FROM efeitos;
-- @step o_audits O
-- Who put document 1 back, and why? What does the audit know?
-- @pt Quem devolveu o documento 1, e por quê? O que a auditoria sabe?
SELECT versao, de, para, quem, por_que
FROM auditoria
WHERE documento_id = 1
ORDER BY versao;
