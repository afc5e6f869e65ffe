-- From edition 1 of the protocol to take home to edition 2; `lab protocol` puts it into its file. Names and schema are the lab's.
-- Each part says which locks it takes. What it makes is named as a new installation names it.

-- @live
-- While workers go on, outside a transaction: an index that is built CONCURRENTLY takes SHARE UPDATE EXCLUSIVE, beside which all but
-- changes of the table itself go on. It waits for transactions that were open before it.
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS edition_2_document ON sql_semana_12.fila_documentos (inquilino, documento_id);
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS edition_2_key ON sql_semana_12.fila_documentos (inquilino, chave);
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS edition_2_version ON sql_semana_12.auditoria (inquilino, documento_id, versao);
CREATE INDEX CONCURRENTLY IF NOT EXISTS fila_documentos_para_pessoas_idx
ON sql_semana_12.fila_documentos (inquilino, documento_id)
WHERE status IN ('conciliacao', 'falhou', 'pausado');

-- @locked
-- Under ACCESS EXCLUSIVE on both tables, in the transaction that brings the functions: only the catalogue is written, no row is read.
DO $upgrade$
DECLARE
    v_each RECORD;
BEGIN
    FOR v_each IN
        SELECT conrelid::REGCLASS AS owner, conname
        FROM pg_constraint
        WHERE
            conrelid IN (to_regclass('sql_semana_12.fila_documentos'), to_regclass('sql_semana_12.auditoria'))
            AND contype IN ('p', 'u')
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', v_each.owner, v_each.conname);
    END LOOP;
    -- The identity that nothing used.
    FOR v_each IN
        SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('sql_semana_12.auditoria') AND attidentity <> ''
    LOOP
        EXECUTE format('ALTER TABLE sql_semana_12.auditoria DROP COLUMN %I', v_each.attname);
    END LOOP;
    -- Edition 1 kept the maximum in a function, where an installation may have changed it.
    PERFORM set_config('document_queue.maximum', sql_semana_12.tempo_maximo()::TEXT, TRUE);
END
$upgrade$;

ALTER TABLE sql_semana_12.fila_documentos
ADD CONSTRAINT fila_documentos_pkey PRIMARY KEY USING INDEX edition_2_document,
ADD CONSTRAINT fila_documentos_inquilino_chave_key UNIQUE USING INDEX edition_2_key,
ADD COLUMN conteudo_sha256 BYTEA,
ADD COLUMN chamada_basta BOOLEAN NOT NULL DEFAULT FALSE,
DROP CONSTRAINT fila_documentos_status_check,
ADD CONSTRAINT fila_documentos_status_check
CHECK (status IN ('pendente', 'processando', 'concluido', 'falhou', 'conciliacao', 'pausado', 'cancelado')) NOT VALID;

ALTER TABLE sql_semana_12.auditoria
ADD CONSTRAINT auditoria_pkey PRIMARY KEY USING INDEX edition_2_version,
ADD COLUMN conectado_como TEXT;

-- The rows that are there were written before anybody looked.
ALTER TABLE sql_semana_12.auditoria ALTER COLUMN conectado_como SET DEFAULT session_user;

ALTER TYPE sql_semana_12.posse ADD ATTRIBUTE chamada_basta BOOLEAN;

-- What they are given or give back is another in edition 2.
DROP FUNCTION sql_semana_12.destino(TEXT, BOOLEAN);
DROP FUNCTION sql_semana_12.enfileirar(TEXT, TEXT, XML, TEXT, TIMESTAMPTZ, INTEGER);
DROP FUNCTION sql_semana_12.registrar_etapa(BIGINT, BIGINT, TEXT, TEXT, TEXT);
DROP VIEW sql_semana_12.situacao;

-- @installed
-- In the same transaction, once tables, functions and settings are those of edition 2.
UPDATE sql_semana_12.configuracao SET duracao_maxima = current_setting('document_queue.maximum')::INTERVAL;

-- @after
-- In a transaction of its own. A call that began before this edition was there goes on in the function of edition 1 that it is in.
DO $after$
DECLARE
    v_before TEXT[];
BEGIN
    IF to_regclass('sql_semana_12.token_reserva_seq') IS NULL THEN
        RETURN;
    END IF;
    v_before := ARRAY(
        SELECT virtualtransaction
        FROM pg_locks
        INNER JOIN pg_stat_activity USING (pid)
        WHERE locktype = 'virtualxid' AND datname = current_database() AND pid <> pg_backend_pid()
    );
    FOR v_try IN 1..50 LOOP
        IF NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'virtualxid' AND virtualtransaction = ANY(v_before)) THEN
            DROP SEQUENCE sql_semana_12.token_reserva_seq;
            RETURN;
        END IF;
        PERFORM pg_sleep(0.1);
    END LOOP;
    RAISE NOTICE 'a transaction that began before the upgrade is still open: token_reserva_seq stays until this file is run again';
END
$after$;

-- Every row is looked at while workers go on: SHARE UPDATE EXCLUSIVE. Once it is done, nothing is.
ALTER TABLE sql_semana_12.fila_documentos VALIDATE CONSTRAINT fila_documentos_status_check;
