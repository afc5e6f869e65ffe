-- One view says where every document stands: each counted once, besides renewals, take-overs and failures by class.
-- @pt Uma só visão diz onde está cada documento: cada um contado uma vez, além de renovações, recuperações e falhas por classe.
-- @setup
SELECT documento_id FROM enfileirar('NFE-0005', 'nfe-0005.xml', '<nfe/>');
SELECT documento_id FROM enfileirar('NFE-0006', 'nfe-0006.xml', '<nfe/>');
SELECT documento_id FROM enfileirar('NFE-0007', 'nfe-0007.xml', '<nfe/>');
SELECT documento_id
FROM enfileirar('NFE-0008', 'nfe-0008.xml', '<nfe/>', p_disponivel_em => sql_semana_12.relogio() + INTERVAL '1 hour');
-- @step a_claims A
SELECT documento_id, token_reserva
FROM reservar('worker-a', 6)
ORDER BY documento_id;
-- @step a_finishes A
SELECT documento_id, status
FROM concluir(1, 1);
-- @step a_fails A
SELECT documento_id, status
FROM falhar(2, 2, 'conteudo', 'valor ausente');
-- @step a_puts_off A
SELECT documento_id, status
FROM falhar(3, 3, 'sistemico', 'tempo esgotado');
-- @step a_is_about_to_call A
SELECT documento_id, etapa
FROM registrar_etapa(4, 4, 'desconhecido');
-- @step a_reconciles A
SELECT documento_id, status
FROM conciliar(4, 4, 'receptor fora do ar');
-- @step a_renews A
SELECT documento_id
FROM renovar(5, 5, '10 minutes');
-- @step o_pauses O
SELECT documento_id, status
FROM pausar(7, 0, 'operador', 'cliente pediu para esperar');
-- @step o_waits O
-- A minute goes by: no worker has renewed document 6, and document 3 is due again.
-- @pt Passa um minuto: ninguém renovou o documento 6, e o documento 3 já pode ser tentado de novo.
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '1 minute'
RETURNING adiantado;
-- @step o_looks O
-- Eight documents. Where do they stand?
-- @pt Oito documentos. Onde estão?
SELECT aguardando, adiados, executando, orfaos, pausados, em_conciliacao, falhos, concluidos, repetindo, renovacoes, recuperacoes
FROM situacao;
-- @step o_asks_how_long O
-- And for how long? Document 3 was due after a second; the lease of 6 was half a minute; 5 has no stage since its claim.
-- @pt E há quanto tempo? O 3 podia ser pego depois de um segundo; a reserva do 6 era de meio minuto; o 5 está sem etapa.
SELECT
    maior_espera BETWEEN INTERVAL '50 seconds' AND INTERVAL '80 seconds' AS espera_ha_quase_um_minuto,
    maior_atraso BETWEEN INTERVAL '30 seconds' AND INTERVAL '50 seconds' AS orfao_ha_meio_minuto,
    maior_demora_para_iniciar BETWEEN INTERVAL '1 minute' AND INTERVAL '80 seconds' AS reservado_ha_um_minuto
FROM situacao;
-- @step o_recovers O
SELECT documento_id, status
FROM recuperar('vigia');
-- @step o_looks_again O
SELECT orfaos, repetindo, recuperacoes
FROM situacao;
-- @step o_asks_why O
-- What did the attempts fail of?
-- @pt Por que as tentativas falharam?
SELECT categoria_erro, falhas, a_repetir, definitivas
FROM falhas_por_categoria
ORDER BY categoria_erro;
