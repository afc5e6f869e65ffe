-- "Everything in processando back to pendente" takes a document from a live worker too: it is done twice, and one result is lost.
-- @pt "Tudo em processando volta a pendente" tira também o documento de quem está vivo: é processado duas vezes, e um resultado se perde.
-- @step a_claims A
-- A has ten minutes …
-- @pt A tem dez minutos …
SELECT documento_id, tentativas
FROM reservar('worker-a', 1, '10 minutes');
-- @step b_claims B
-- … and B an hour, which it needs.
-- @pt … e B, uma hora, e precisa dela.
SELECT documento_id, tentativas
FROM reservar('worker-b', 1, '1 hour');
-- @step o_moves O
-- A dies. Eleven minutes pass.
-- @pt A morre. Passam onze minutos.
UPDATE relogio_do_laboratorio
SET adiantado = adiantado + INTERVAL '11 minutes'
RETURNING adiantado;
-- @step o_resets O
-- The operator puts everything back, as after every crash. How many of the leases still held?
-- @pt O operador devolve tudo, como depois de toda queda. Quantas reservas ainda valiam?
WITH devolvidos AS (
    UPDATE fila_documentos
    SET status = 'pendente', worker_id = NULL
    WHERE status = 'processando'
    RETURNING documento_id, reservado_ate > relogio() AS ainda_valia
)
SELECT documento_id, ainda_valia
FROM devolvidos
ORDER BY documento_id;
-- @step c_claims C
-- B is still working on document 2. Which documents does C get?
-- @pt B continua trabalhando no documento 2. Quais documentos C recebe?
SELECT documento_id, tentativas
FROM reservar('worker-c', 2, '1 hour')
ORDER BY documento_id;
-- @step b_finishes B
-- B has done its work, in time, and says so. How many rows change?
-- @pt B terminou o trabalho, dentro do prazo, e avisa. Quantas linhas mudam?
SELECT documento_id, status
FROM concluir(2, 'worker-b');
-- @step c_finishes C
-- None. C does it all over again.
-- @pt Nenhuma. C faz tudo de novo.
SELECT documento_id, status
FROM concluir(2, 'worker-c');
-- @step o_looks O
SELECT documento_id, status, worker_id, tentativas
FROM fila_documentos
WHERE documento_id IN (1, 2)
ORDER BY documento_id;
