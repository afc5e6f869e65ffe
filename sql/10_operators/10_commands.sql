-- A command wants a reason, matches the version its user has seen, and leaves one row in auditoria; a refused one leaves none.
-- @pt Um comando exige motivo, confere a versão que o operador viu e deixa uma linha em auditoria; recusado, não deixa nenhuma.
-- @step o_examines O
SELECT status, versao, tentativas
FROM examinar(1);
-- @step o_gives_no_reason O errors 22023
-- What comes of a command without a reason?
-- @pt O que acontece com um comando sem motivo?
SELECT documento_id, status
FROM pausar(1, 0, 'operador', ' ');
-- @step o_gives_no_name O errors 22023
SELECT documento_id, status
FROM pausar(1, 0, '', 'cliente pediu para esperar');
-- @step a_claims A
-- While the operator ponders, A tries document 1 and fails: it is back in the queue.
-- @pt Enquanto o operador pensa, A tenta o documento 1 e falha: ele volta para a fila.
SELECT documento_id, token_reserva, versao
FROM reservar('worker-a');
-- @step a_fails A
SELECT documento_id, status, versao
FROM falhar(1, 1, 'sistemico', 'receptor fora do ar');
-- @step o_pauses_what_was_seen O
-- The document is pendente again, as the operator saw it. How many rows does the command change?
-- @pt O documento está pendente de novo, como o operador o viu. Quantas linhas o comando altera?
SELECT documento_id, status, versao
FROM pausar(1, 0, 'operador', 'cliente pediu para esperar');
-- @step o_examines_again O
-- It is not what was seen: a worker has tried it meanwhile.
-- @pt Não é o que foi visto: alguém o tentou nesse meio-tempo.
SELECT status, versao, tentativas, categoria_erro, ultimo_erro
FROM examinar(1);
-- @step o_pauses O
SELECT documento_id, status, versao
FROM pausar(1, 2, 'operador', 'cliente pediu para esperar');
-- @step o_resumes O
SELECT documento_id, status, versao
FROM retomar(1, 3, 'operador', 'cliente liberou');
-- @step o_resumes_again O
-- Sent twice by mistake: how many rows?
-- @pt Enviado duas vezes, por engano: quantas linhas?
SELECT documento_id, status, versao
FROM retomar(1, 3, 'operador', 'cliente liberou');
-- @step o_audits O
-- Six commands, two of them obeyed. How many rows of the operator's are here?
-- @pt Seis comandos, dois atendidos. Quantas linhas do operador há aqui?
SELECT versao, de, para, quem, por_que
FROM auditoria
WHERE documento_id = 1
ORDER BY versao;
-- @step o_examines_at_last O
-- A command is no attempt: what the last attempt left as its error is still there.
-- @pt Um comando não é uma tentativa: o erro que a última tentativa deixou continua lá.
SELECT status, versao, tentativas, categoria_erro, ultimo_erro
FROM examinar(1);
