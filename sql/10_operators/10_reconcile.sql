-- Attempts, worker, lease, stage and external key are shown first; only then the result found at the receiver is confirmed.
-- @pt Tentativas, worker, reserva, etapa e chave externa aparecem primeiro; só então se confirma o resultado achado no receptor.
-- @step a_claims A
SELECT documento_id, token_reserva, chave_operacao
FROM reservar('worker-a');
-- @step a_is_about_to_call A
SELECT documento_id, etapa, versao
FROM registrar_etapa(1, 1, 'desconhecido');
-- @step a_reconciles A
-- No answer came, and the receiver cannot be asked: A hands document 1 to people.
-- @pt Não veio resposta, e não há a quem perguntar: o worker A encaminha o documento 1 para conciliação manual.
SELECT documento_id, status, versao
FROM conciliar(1, 1, 'receptor fora do ar');
-- @step o_examines O
-- By which key does the operator ask the receiver?
-- @pt Por qual chave o operador pergunta ao receptor?
SELECT status, versao, tentativas, worker_id, reserva_viva, etapa, chave_operacao, referencia_externa
FROM examinar(1);
-- @step o_pauses O
-- No worker has it now. Can it be paused?
-- @pt Agora não é trabalho de ninguém. Dá para pausar?
SELECT documento_id, status
FROM pausar(1, 3, 'operador', 'em analise');
-- @step o_confirms_nothing O errors 22023
SELECT documento_id, status
FROM confirmar(1, 3, ' ', 'operador', 'achado no receptor');
-- @step o_confirms O
-- The receiver's ledger has it, under its own reference.
-- @pt Está nos registros do receptor, com a referência dele.
SELECT documento_id, status, versao
FROM confirmar(1, 3, 'R-4711', 'operador', 'achado no receptor');
-- @step o_confirms_again O
-- Another operator found it, too. How many rows?
-- @pt Outra pessoa também o achou. Quantas linhas?
SELECT documento_id, status, versao
FROM confirmar(1, 3, 'R-4712', 'plantao', 'achado no receptor');
-- @step o_examines_again O
SELECT status, versao, tentativas, etapa, referencia_externa
FROM examinar(1);
-- @step o_audits O
SELECT versao, de, para, quem, por_que
FROM auditoria
WHERE documento_id = 1
ORDER BY versao;
