-- The protocol as it is today, all of it in this folder: the queue and its audit here, types.sql, indexes.sql, then one file for each
-- function and view. Made in this order: types, tables, indexes, functions, views. Who may call what: sql/roles.sql.
--
-- A file of a function ends with its history, from which the editions in the numbered scripts come; those scripts lead a queue
-- that has documents from one lesson to the next.

CREATE TABLE IF NOT EXISTS sql_semana_12.fila_documentos (
    documento_id BIGINT GENERATED ALWAYS AS IDENTITY,
    chave TEXT NOT NULL,
    nome_arquivo TEXT NOT NULL,
    conteudo_xml XML NOT NULL,
    status TEXT NOT NULL DEFAULT 'pendente',
    tentativas INTEGER NOT NULL DEFAULT 0 CHECK (tentativas >= 0),
    worker_id TEXT,
    criado_em TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    iniciado_em TIMESTAMPTZ,
    concluido_em TIMESTAMPTZ,
    ultimo_erro TEXT,
    inquilino TEXT NOT NULL DEFAULT 'padrao',
    reservado_ate TIMESTAMPTZ,
    token_reserva BIGINT,
    versao BIGINT NOT NULL DEFAULT 0,
    -- No default: enfileirar reads the clock.
    disponivel_em TIMESTAMPTZ NOT NULL,
    max_tentativas INTEGER NOT NULL DEFAULT 5 CHECK (max_tentativas > 0),
    categoria_erro TEXT CHECK (
        categoria_erro IN ('conteudo', 'sistemico', 'conexao', 'impasse', 'queda')
    ),
    -- Beside the key, since xml has no equality. Null where the document did not come by enfileirar.
    conteudo_sha256 BYTEA,
    chave_operacao TEXT NOT NULL,
    etapa TEXT NOT NULL DEFAULT 'nao_chamado' CHECK (
        etapa IN ('nao_chamado', 'desconhecido', 'obtido', 'confirmando')
    ),
    referencia_externa TEXT,
    -- Whether the call is all that is to be done; else there is work inside the database, too, and a call's result is not its end.
    chamada_basta BOOLEAN NOT NULL DEFAULT FALSE,
    -- For monitoring. A renewal writes a new version of the row anyway: counted there it can stay heap-only, and is exact.
    renovacoes INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (inquilino, documento_id),
    -- What a tenant calls a document is its own affair. chave_operacao holds both, so that it needs no key.
    UNIQUE (inquilino, chave),
    -- The slash ends the tenant's name in chave_operacao, so that two tenants never meet in one.
    CONSTRAINT fila_documentos_inquilino_check CHECK (inquilino NOT LIKE '%/%'),
    CONSTRAINT fila_documentos_status_check
    CHECK (status IN ('pendente', 'processando', 'concluido', 'falhou', 'conciliacao', 'pausado', 'cancelado'))
);

-- What an installation sets for itself, in one row: change it by UPDATE. A script that is run again leaves it as it is.
CREATE TABLE IF NOT EXISTS sql_semana_12.configuracao (
    unica BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (unica),
    duracao_maxima INTERVAL NOT NULL DEFAULT '15 minutes' CHECK (duracao_maxima > INTERVAL '0'),
    primeira_espera INTERVAL NOT NULL DEFAULT '1 second' CHECK (primeira_espera > INTERVAL '0'),
    espera_maxima INTERVAL NOT NULL DEFAULT '5 minutes' CHECK (espera_maxima > INTERVAL '0'),
    tentativas INTEGER NOT NULL DEFAULT 5 CHECK (tentativas BETWEEN 1 AND 1000),
    planos_fixos BOOLEAN NOT NULL DEFAULT TRUE
);

INSERT INTO sql_semana_12.configuracao DEFAULT VALUES ON CONFLICT DO NOTHING;

COMMENT ON TABLE sql_semana_12.configuracao IS
'What this installation sets for itself: one row. Its owner changes it by UPDATE, and running an installation again leaves it.';
COMMENT ON COLUMN sql_semana_12.configuracao.duracao_maxima IS
'How long one attempt may run, renewals included. No lease is longer.';
COMMENT ON COLUMN sql_semana_12.configuracao.primeira_espera IS
'The delay after the first attempt; it doubles with each.';
COMMENT ON COLUMN sql_semana_12.configuracao.espera_maxima IS
'The longest delay between two attempts.';
COMMENT ON COLUMN sql_semana_12.configuracao.tentativas IS
'How many attempts a document has for which enfileirar was given no number.';
COMMENT ON COLUMN sql_semana_12.configuracao.planos_fixos IS
'Whether the functions of the workers keep one plan each (force_generic_plan): set for good at each installation. Off on Citus.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.renovacoes IS
'How often the lease of this document was renewed, in all attempts.';

CREATE TABLE IF NOT EXISTS sql_semana_12.auditoria (
    inquilino TEXT NOT NULL,
    documento_id BIGINT NOT NULL,
    versao BIGINT NOT NULL,
    de TEXT NOT NULL,
    para TEXT NOT NULL,
    token_reserva BIGINT,
    quem TEXT NOT NULL,
    por_que TEXT NOT NULL,
    quando TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (inquilino, documento_id, versao),
    -- How the attempt that ended here failed; null where none did. The class in the queue is only that of the last failure.
    categoria_erro TEXT,
    -- Beside quem, which the caller says of themselves: the account that was logged in.
    conectado_como TEXT DEFAULT session_user
);

COMMENT ON TABLE sql_semana_12.auditoria IS
'Every change of state: from, to, version, token, who, why, when. versao of a document grows by exactly one with every row.';
COMMENT ON COLUMN sql_semana_12.auditoria.quem IS
'Who made the change, as they say themselves.';
COMMENT ON COLUMN sql_semana_12.auditoria.conectado_como IS
'The account (session_user) that made the change, whatever name it gave.';
COMMENT ON COLUMN sql_semana_12.auditoria.categoria_erro IS
'Class of the failure that ended an attempt here, queda for a take-over; null for every other change.';
