-- The protocol's types. They come first: tables and functions are made of them.

-- A document as a function holds it once it is locked: without the payload, which would be read at every hand-over.
CREATE TYPE sql_semana_12.posse AS (
    documento_id BIGINT,
    inquilino TEXT,
    status TEXT,
    versao BIGINT,
    token_reserva BIGINT,
    worker_id TEXT,
    tentativas INTEGER,
    iniciado_em TIMESTAMPTZ,
    max_tentativas INTEGER,
    etapa TEXT,
    referencia_externa TEXT,
    chamada_basta BOOLEAN
);
