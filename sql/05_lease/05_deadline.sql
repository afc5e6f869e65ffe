-- With reservado_ate anyone can see which claims are late: the view situacao tells waiting, running and orphaned documents apart.
-- @pt Com reservado_ate qualquer um vê quais reservas venceram: a visão situacao separa os documentos à espera, em execução e órfãos.
-- @step a_claims A
SELECT documento_id, tentativas
FROM reservar('worker-a', 1, '10 minutes');
-- @step b_claims B
SELECT documento_id, tentativas
FROM reservar('worker-b', 1, '1 hour');
-- @step c_before C
-- A has ten minutes, B an hour. Both are at work.
-- @pt A tem dez minutos; B, uma hora. Os dois estão trabalhando.
SELECT aguardando, executando, orfaos
FROM situacao;
-- @step c_moves C
-- A dies without a word, and eleven minutes pass.
-- @pt A morre sem avisar, e passam onze minutos.
UPDATE relogio_do_laboratorio
SET adiantado = adiantado + INTERVAL '11 minutes'
RETURNING adiantado;
-- @step c_status C
-- First by the status alone. Does it tell which of the two is late?
-- @pt Primeiro, só pelo status. Ele diz qual dos dois está atrasado?
SELECT status, count(*) AS documentos
FROM fila_documentos
GROUP BY status
ORDER BY status;
-- @step c_after C
-- It is the same as before. Now by the deadline: how many are orphaned?
-- @pt Está como antes. Agora pelo prazo: quantos são órfãos?
SELECT aguardando, executando, orfaos, maior_atraso >= INTERVAL '1 minute' AS ha_mais_de_um_minuto
FROM situacao;
-- @step c_who C
-- Whose are they?
-- @pt De quem são?
SELECT documento_id, worker_id, reservado_ate < relogio() AS vencida
FROM fila_documentos
WHERE status = 'processando'
ORDER BY documento_id;
