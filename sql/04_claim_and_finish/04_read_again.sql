-- What a claim returns is what was claimed; reading "my rows in processando" again brings back earlier claims, too.
-- @pt O que a reserva devolve é o que foi reservado; ler de novo "minhas linhas em processando" traz também as reservas anteriores.
-- @step a_claims A
-- A claims document 1, and dies before it ends it. Its name lives on.
-- @pt A reserva o documento 1 e morre antes de encerrá-lo. O nome dele continua em uso.
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
-- B is the new process of that name.
-- @pt B é o novo processo com esse nome.
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
-- @step b_reads_again B
-- RETURNING gave one row. How many does B find when it looks its own rows up?
-- @pt RETURNING devolveu uma linha. Quantas B encontra ao procurar as próprias linhas?
SELECT documento_id, chave
FROM sql_semana_12.fila_documentos
WHERE status = 'processando' AND worker_id = 'worker-a'
ORDER BY documento_id;
