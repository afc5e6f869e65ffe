-- The statements of the written episode, in its order, for comparison with the lab's: data/episode.csv names the place of each.

-- schema
CREATE SCHEMA sql_semana_12;

-- table
CREATE TABLE sql_semana_12.fila_documentos (
    documento_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chave         text NOT NULL UNIQUE,
    nome_arquivo  text NOT NULL,
    conteudo_xml  xml NOT NULL,
    status        text NOT NULL DEFAULT 'pendente'
        CHECK (status IN ('pendente', 'processando', 'concluido', 'falhou')),
    tentativas    integer NOT NULL DEFAULT 0
        CHECK (tentativas >= 0),
    worker_id     text,
    criado_em     timestamptz NOT NULL DEFAULT clock_timestamp(),
    iniciado_em   timestamptz,
    concluido_em  timestamptz,
    ultimo_erro   text
);

-- index
CREATE INDEX fila_documentos_pendentes_idx
    ON sql_semana_12.fila_documentos (criado_em, documento_id)
    WHERE status = 'pendente';

-- documents
INSERT INTO sql_semana_12.fila_documentos
    (chave, nome_arquivo, conteudo_xml, criado_em)
VALUES
    ('NFE-0001', 'nfe-0001.xml',
     xmlparse(document '<nfe id="NFE-0001"><valor>101.10</valor></nfe>'),
     timestamptz '2026-10-16 09:00:01-03'),
    ('NFE-0002', 'nfe-0002.xml',
     xmlparse(document '<nfe id="NFE-0002"><valor>202.20</valor></nfe>'),
     timestamptz '2026-10-16 09:00:02-03'),
    ('NFE-0003', 'nfe-0003.xml',
     xmlparse(document '<nfe id="NFE-0003"><valor>303.30</valor></nfe>'),
     timestamptz '2026-10-16 09:00:03-03'),
    ('NFE-0004', 'nfe-0004.xml',
     xmlparse(document '<nfe id="NFE-0004"><valor>404.40</valor></nfe>'),
     timestamptz '2026-10-16 09:00:04-03');

-- oldest_pending
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE
LIMIT 1;

-- skip_locked
SELECT documento_id, chave, nome_arquivo
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;

-- claim
WITH proximo AS (
    SELECT documento_id
    FROM sql_semana_12.fila_documentos
    WHERE status = 'pendente'
    ORDER BY criado_em, documento_id
    FOR UPDATE SKIP LOCKED
    LIMIT 1
)
UPDATE sql_semana_12.fila_documentos AS fila
SET status = 'processando',
    worker_id = 'worker-a',
    tentativas = tentativas + 1,
    iniciado_em = clock_timestamp(),
    concluido_em = NULL,
    ultimo_erro = NULL
FROM proximo
WHERE fila.documento_id = proximo.documento_id
RETURNING
    fila.documento_id,
    fila.chave,
    fila.nome_arquivo,
    fila.status,
    fila.worker_id,
    fila.tentativas;

-- restore
UPDATE sql_semana_12.fila_documentos
SET status = 'pendente',
    tentativas = 0,
    worker_id = NULL,
    iniciado_em = NULL,
    concluido_em = NULL,
    ultimo_erro = NULL;

-- session_a
WITH proximo AS (
    SELECT documento_id
    FROM sql_semana_12.fila_documentos
    WHERE status = 'pendente'
    ORDER BY criado_em, documento_id
    FOR UPDATE SKIP LOCKED
    LIMIT 1
)
UPDATE sql_semana_12.fila_documentos AS fila
SET status = 'processando',
    worker_id = 'worker-a',
    tentativas = tentativas + 1,
    iniciado_em = clock_timestamp()
FROM proximo
WHERE fila.documento_id = proximo.documento_id
RETURNING fila.documento_id, fila.chave, fila.worker_id;

-- session_b
WITH proximo AS (
    SELECT documento_id
    FROM sql_semana_12.fila_documentos
    WHERE status = 'pendente'
    ORDER BY criado_em, documento_id
    FOR UPDATE SKIP LOCKED
    LIMIT 1
)
UPDATE sql_semana_12.fila_documentos AS fila
SET status = 'processando',
    worker_id = 'worker-b',
    tentativas = tentativas + 1,
    iniciado_em = clock_timestamp()
FROM proximo
WHERE fila.documento_id = proximo.documento_id
RETURNING fila.documento_id, fila.chave, fila.worker_id;

-- outcome
SELECT documento_id, chave, status, worker_id, tentativas
FROM sql_semana_12.fila_documentos
ORDER BY documento_id;

-- finish
UPDATE sql_semana_12.fila_documentos
SET status = 'concluido',
    concluido_em = clock_timestamp(),
    ultimo_erro = NULL
WHERE documento_id = 1
  AND status = 'processando'
  AND worker_id = 'worker-a'
RETURNING documento_id, chave, status, concluido_em;

-- fail
UPDATE sql_semana_12.fila_documentos
SET status = 'falhou',
    concluido_em = clock_timestamp(),
    ultimo_erro = 'Falha sintética ao enviar documento'
WHERE documento_id = 2
  AND status = 'processando'
  AND worker_id = 'worker-b'
RETURNING documento_id, chave, status, tentativas, ultimo_erro;

-- lease
ALTER TABLE sql_semana_12.fila_documentos
ADD COLUMN reservado_ate timestamptz;

-- batch
WITH proximos AS (
    SELECT documento_id
    FROM sql_semana_12.fila_documentos
    WHERE status = 'pendente'
    ORDER BY criado_em, documento_id
    FOR UPDATE SKIP LOCKED
    LIMIT 10
)
UPDATE sql_semana_12.fila_documentos AS fila
SET status = 'processando',
    worker_id = 'worker-a',
    tentativas = tentativas + 1,
    iniciado_em = clock_timestamp()
FROM proximos
WHERE fila.documento_id = proximos.documento_id
RETURNING fila.documento_id, fila.chave, fila.nome_arquivo;
