-- A claim sets iniciado_em and clears what an earlier attempt left; finishing clears ultimo_erro, failing sets it and concluido_em.
-- @pt A reserva preenche iniciado_em e limpa o resto da tentativa anterior; concluir limpa ultimo_erro, falhar o grava, com concluido_em.
-- @setup
UPDATE fila_documentos
SET
    tentativas = 1,
    iniciado_em = clock_timestamp() - INTERVAL '1 day',
    concluido_em = clock_timestamp(),
    ultimo_erro = 'receptor fora do ar'
WHERE documento_id IN (1, 2);
-- @step a_before A
-- Documents 1 and 2 failed once and were put back.
-- @pt Os documentos 1 e 2 falharam uma vez e voltaram à fila.
SELECT
    documento_id,
    iniciado_em > clock_timestamp() - INTERVAL '1 hour' AS iniciado_agora,
    concluido_em IS NOT NULL AS terminado,
    ultimo_erro,
    tentativas
FROM fila_documentos
WHERE documento_id IN (1, 2)
ORDER BY documento_id;
-- @step a_claims A
WITH proximo AS (
    SELECT documento_id
    FROM sql_semana_12.fila_documentos
    WHERE status = 'pendente'
    ORDER BY criado_em, documento_id
    FOR UPDATE SKIP LOCKED
    LIMIT 1
)
UPDATE sql_semana_12.fila_documentos AS fila
SET
    status = 'processando',
    worker_id = 'worker-a',
    tentativas = tentativas + 1,
    iniciado_em = clock_timestamp(),
    concluido_em = NULL,
    ultimo_erro = NULL
FROM proximo
WHERE fila.documento_id = proximo.documento_id
RETURNING fila.documento_id, fila.chave, fila.nome_arquivo, fila.status, fila.worker_id, fila.tentativas;
-- @step b_claims B
WITH proximo AS (
    SELECT documento_id
    FROM sql_semana_12.fila_documentos
    WHERE status = 'pendente'
    ORDER BY criado_em, documento_id
    FOR UPDATE SKIP LOCKED
    LIMIT 1
)
UPDATE sql_semana_12.fila_documentos AS fila
SET
    status = 'processando',
    worker_id = 'worker-b',
    tentativas = tentativas + 1,
    iniciado_em = clock_timestamp(),
    concluido_em = NULL,
    ultimo_erro = NULL
FROM proximo
WHERE fila.documento_id = proximo.documento_id
RETURNING fila.documento_id, fila.chave, fila.nome_arquivo, fila.status, fila.worker_id, fila.tentativas;
-- @step a_between A
-- What is left of the earlier error while the second attempt runs?
-- @pt O que resta do erro anterior durante a segunda tentativa?
SELECT
    documento_id,
    iniciado_em > clock_timestamp() - INTERVAL '1 hour' AS iniciado_agora,
    concluido_em IS NOT NULL AS terminado,
    ultimo_erro,
    tentativas
FROM fila_documentos
WHERE documento_id IN (1, 2)
ORDER BY documento_id;
-- @step a_notes A
-- A's first call is not answered. A notes that, and calls again.
-- @pt A primeira chamada de A fica sem resposta. A anota isso e chama de novo.
UPDATE fila_documentos
SET ultimo_erro = 'primeira chamada sem resposta'
WHERE documento_id = 1 AND status = 'processando' AND worker_id = 'worker-a'
RETURNING ultimo_erro;
-- @step a_finishes A
UPDATE sql_semana_12.fila_documentos
SET status = 'concluido', concluido_em = clock_timestamp(), ultimo_erro = NULL
WHERE documento_id = 1 AND status = 'processando' AND worker_id = 'worker-a'
RETURNING documento_id, chave, status, concluido_em;
-- @step b_fails B
UPDATE sql_semana_12.fila_documentos
SET status = 'falhou', concluido_em = clock_timestamp(), ultimo_erro = 'Falha sintética ao enviar documento'
WHERE documento_id = 2 AND status = 'processando' AND worker_id = 'worker-b'
RETURNING documento_id, chave, status, tentativas, ultimo_erro;
-- @step a_after A
SELECT
    documento_id,
    status,
    iniciado_em > clock_timestamp() - INTERVAL '1 hour' AS iniciado_agora,
    concluido_em IS NOT NULL AS terminado,
    ultimo_erro
FROM fila_documentos
WHERE documento_id IN (1, 2)
ORDER BY documento_id;
