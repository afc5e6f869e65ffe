-- Every change of state leaves one row in auditoria and adds one to versao; renewals and refused writes leave none and add nothing.
-- @pt Cada mudança de estado deixa uma linha em auditoria e soma um a versao; renovações e escritas recusadas não deixam nem somam nada.
-- @step a_claims A
SELECT documento_id, token_reserva, versao
FROM reservar('worker-a');
-- @step a_renews A
SELECT documento_id, reservado_ate > relogio() + INTERVAL '1 minute' AS prazo_maior
FROM renovar(1, 1, '5 minutes');
-- @step a_renews_again A
SELECT documento_id, reservado_ate > relogio() + INTERVAL '5 minutes' AS prazo_maior
FROM renovar(1, 1, '10 minutes');
-- @step a_reads A
-- Two renewals. Which version and which token does the row have now?
-- @pt Duas renovações. Que versão e que token a linha tem agora?
SELECT versao, token_reserva
FROM fila_documentos
WHERE documento_id = 1;
-- @step c_waits C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '1 hour'
RETURNING adiantado;
-- @step c_recovers C
SELECT documento_id, status, versao
FROM recuperar('vigia', 'worker-a sem sinal');
-- @step b_claims B
SELECT documento_id, token_reserva, versao
FROM reservar('worker-b');
-- @step a_finishes A
-- Too late: A's write is refused.
-- @pt Tarde demais: a escrita de A é recusada.
SELECT documento_id, status
FROM concluir(1, 1);
-- @step b_fails B
SELECT documento_id, status, versao
FROM falhar(1, 2, 'valor ausente');
-- @step c_audits C
-- A claim, two renewals, a recovery, a claim, a refused finish, a failure. How many rows are there?
-- @pt Uma reserva, duas renovações, uma recuperação, uma reserva, uma conclusão recusada, uma falha. Quantas linhas há?
SELECT versao, de, para, token_reserva, quem, por_que
FROM auditoria
WHERE documento_id = 1
ORDER BY versao;
-- @step c_reads C
SELECT status, versao, token_reserva, tentativas
FROM fila_documentos
WHERE documento_id = 1;
-- @step a_asks A
-- A was refused. What became of its token?
-- @pt A foi recusado. O que aconteceu com o token dele?
SELECT para, quem, por_que
FROM auditoria
WHERE documento_id = 1 AND token_reserva = 1
ORDER BY versao;
