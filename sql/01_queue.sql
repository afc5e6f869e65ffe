-- 01 queue: what does the queue look like, and what guards its entrance?
-- @pt Como é a fila, e o que guarda a entrada dela?
--
-- Needs  PostgreSQL 14 or later built with libxml, and the right to create a schema in this database.
-- Run    psql -X -f sql/01_queue.sql          (again whenever you like: it rebuilds the schema sql_semana_12)
-- See    four pending documents, NFE-0001 … NFE-0004, none attempted yet.
-- @pt Precisa de PostgreSQL 14 ou mais novo, compilado com libxml, e do direito de criar um esquema neste banco.
-- @pt Pode rodar de novo quando quiser: recria o esquema sql_semana_12.
-- @pt Veja quatro documentos pendentes, NFE-0001 … NFE-0004, ainda sem nenhuma tentativa.
--
-- The schema is dropped only if its comment carries the lab's mark. One that you typed along with the episode stays as it is.
-- @pt O esquema só é removido se o comentário dele tiver a marca do laboratório. O que você digitou junto com o episódio fica como está.

\set ON_ERROR_STOP on
\setenv PSQL_PAGER ''
SET client_min_messages = warning;

BEGIN;

\ir refuse_dependents.sql

DO $guard$
DECLARE
    v_pt BOOLEAN := coalesce(current_setting('lab.lang', TRUE), '') LIKE 'pt%';
    mark TEXT := obj_description(to_regnamespace('sql_semana_12'), 'pg_namespace');
BEGIN
    IF to_regnamespace('sql_semana_12') IS NOT NULL AND coalesce(mark, '') NOT LIKE 'queue lab, state %' THEN
        RAISE EXCEPTION USING
            MESSAGE = CASE
                WHEN v_pt THEN 'já existe um esquema sql_semana_12 que não é do laboratório; ele ficou intacto'
                ELSE 'a schema sql_semana_12 that this lab did not make is here; it was left untouched'
            END,
            HINT = format(
                E'%s:\nALTER SCHEMA sql_semana_12 RENAME TO sql_semana_12_%s;\nCREATE DATABASE queue_lab;  -- %s: \\c queue_lab',
                CASE
                    WHEN v_pt THEN 'Cole uma destas duas linhas e rode este script de novo'
                    ELSE 'Paste one of these two lines, then run this script again'
                END,
                CASE WHEN v_pt THEN 'meu' ELSE 'mine' END,
                CASE WHEN v_pt THEN 'e conecte-se a ele' ELSE 'and connect to it' END
            );
    END IF;
    IF (SELECT NOT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'sql_semana_12') THEN
        RAISE EXCEPTION USING
            MESSAGE = format(
                CASE
                    WHEN v_pt THEN 'o esquema sql_semana_12 do laboratório é de outro papel; %s não pode recriá-lo'
                    ELSE 'the lab''s schema sql_semana_12 belongs to another role, so %s may not rebuild it'
                END,
                current_user
            ),
            HINT = CASE
                WHEN v_pt THEN 'Rode como o dono do esquema, ou em outro banco.'
                ELSE 'Run this as its owner, or in another database.'
            END;
    END IF;
    IF current_setting('server_version_num')::INTEGER < 140000 THEN
        RAISE EXCEPTION USING MESSAGE = format(
            CASE
                WHEN v_pt THEN 'este é o PostgreSQL %s; o laboratório precisa do 14 ou mais novo'
                ELSE 'this is PostgreSQL %s; the lab needs 14 or later'
            END,
            current_setting('server_version')
        );
    END IF;
    IF NOT has_database_privilege(current_database(), 'CREATE') THEN
        RAISE EXCEPTION USING
            MESSAGE = format(
                CASE
                    WHEN v_pt THEN 'o papel %s não pode criar esquemas no banco %s'
                    ELSE 'role %s may not create a schema in database %s'
                END,
                current_user, current_database()
            ),
            HINT = format(
                '%s: GRANT CREATE ON DATABASE %I TO %I;',
                CASE WHEN v_pt THEN 'Peça ao dono do banco' ELSE 'Ask its owner for' END,
                current_database(), current_user
            );
    END IF;
    BEGIN
        PERFORM '<a/>'::XML;
    EXCEPTION WHEN feature_not_supported THEN
        RAISE EXCEPTION USING
            MESSAGE = CASE
                WHEN v_pt THEN 'este servidor foi compilado sem libxml; nele o tipo xml não funciona'
                ELSE 'this server was built without libxml, so it has no working type xml'
            END,
            HINT = CASE
                WHEN v_pt
                    THEN 'Use um PostgreSQL configurado com --with-libxml: o do Debian, a imagem oficial ou o do laboratório (./lab up)'
                ELSE 'Use a PostgreSQL configured --with-libxml, as Debian''s, the official container image, or the lab''s own: ./lab up'
            END;
    END;
END
$guard$;

DO $drop$
DECLARE
    v_pt BOOLEAN := coalesce(current_setting('lab.lang', TRUE), '') LIKE 'pt%';
BEGIN
    SET LOCAL lock_timeout = '900ms';
    DROP SCHEMA IF EXISTS sql_semana_12 CASCADE;
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION '%', CASE WHEN v_pt
        THEN 'outra sessão está segurando a fila, então não dá para criá-la de novo'
        ELSE 'another session holds a lock on the queue, so it cannot be rebuilt' END
        USING HINT = CASE WHEN v_pt
            THEN 'Faça COMMIT ou ROLLBACK no outro terminal, ou feche-o. Depois rode este script de novo.'
            ELSE 'COMMIT or ROLLBACK in the other terminal, or close it. Then run this script again.' END;
END
$drop$;
CREATE SCHEMA sql_semana_12;
COMMENT ON SCHEMA sql_semana_12 IS 'queue lab, state 01';

CREATE TABLE sql_semana_12.fila_documentos (
    documento_id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chave TEXT NOT NULL UNIQUE,
    nome_arquivo TEXT NOT NULL,
    conteudo_xml XML NOT NULL,
    status TEXT NOT NULL DEFAULT 'pendente' CHECK (status IN ('pendente', 'processando', 'concluido', 'falhou')),
    tentativas INTEGER NOT NULL DEFAULT 0 CHECK (tentativas >= 0),
    worker_id TEXT,
    criado_em TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    iniciado_em TIMESTAMPTZ,
    concluido_em TIMESTAMPTZ,
    ultimo_erro TEXT
);

-- Only the rows a worker may claim, in the order in which they are claimed.
CREATE INDEX fila_documentos_pendentes_idx
ON sql_semana_12.fila_documentos (criado_em, documento_id)
WHERE status = 'pendente';

INSERT INTO sql_semana_12.fila_documentos (chave, nome_arquivo, conteudo_xml, criado_em)
VALUES
(
    'NFE-0001', 'nfe-0001.xml',
    xmlparse(DOCUMENT '<nfe id="NFE-0001"><valor>101.10</valor></nfe>'),
    TIMESTAMPTZ '2026-10-16 09:00:01-03'
),
(
    'NFE-0002', 'nfe-0002.xml',
    xmlparse(DOCUMENT '<nfe id="NFE-0002"><valor>202.20</valor></nfe>'),
    TIMESTAMPTZ '2026-10-16 09:00:02-03'
),
(
    'NFE-0003', 'nfe-0003.xml',
    xmlparse(DOCUMENT '<nfe id="NFE-0003"><valor>303.30</valor></nfe>'),
    TIMESTAMPTZ '2026-10-16 09:00:03-03'
),
(
    'NFE-0004', 'nfe-0004.xml',
    xmlparse(DOCUMENT '<nfe id="NFE-0004"><valor>404.40</valor></nfe>'),
    TIMESTAMPTZ '2026-10-16 09:00:04-03'
);

COMMIT;

SELECT documento_id, chave, nome_arquivo, conteudo_xml, status, tentativas
FROM sql_semana_12.fila_documentos
ORDER BY criado_em, documento_id;
