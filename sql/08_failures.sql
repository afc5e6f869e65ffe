-- 08 failures: what is worth trying again, when, and how often?
-- @pt O que vale a pena tentar de novo, quando e quantas vezes?
--
-- Needs  sql/07_heartbeat.sql
-- Run    psql -X -f sql/08_failures.sql          (again whenever you like: it upgrades the schema in place)
-- See    every document with the moment from which it is due; the functions enfileirar and falhar by category.
-- @pt Precisa de sql/07_heartbeat.sql. Pode rodar de novo quando quiser: ele atualiza o esquema no lugar.
-- @pt Veja cada documento com o momento a partir do qual pode ser reservado; as funções enfileirar e falhar, por categoria.
--
-- A failure of the content ends the document at once: repeating it unchanged would not help. Everything else comes back later,
-- after a delay that doubles, is capped and is never the same for all; and never more often than max_tentativas.
-- @pt Uma falha de conteúdo encerra o documento na hora: repetir sem mudar nada não adianta. O resto volta mais tarde, depois de uma espera
-- @pt que dobra, tem teto e nunca é igual para todos; e nunca mais que max_tentativas vezes.

\set ON_ERROR_STOP on
\setenv PSQL_PAGER ''
SET client_min_messages = warning;
SET "lab.de" = '07';
SET "lab.para" = '08';
SET "lab.muda" = 'sim';
\ir require_state.sql

BEGIN;

COMMENT ON SCHEMA sql_semana_12 IS 'queue lab, state 08';

ALTER TABLE sql_semana_12.fila_documentos
ADD COLUMN IF NOT EXISTS disponivel_em TIMESTAMPTZ,
ADD COLUMN IF NOT EXISTS max_tentativas INTEGER NOT NULL DEFAULT 5 CHECK (max_tentativas > 0),
ADD COLUMN IF NOT EXISTS categoria_erro TEXT CHECK (
    categoria_erro IN ('conteudo', 'sistemico', 'conexao', 'impasse', 'queda')
),
-- Beside the key, since xml has no equality. Null where the document did not come by enfileirar.
ADD COLUMN IF NOT EXISTS conteudo_sha256 BYTEA;

UPDATE sql_semana_12.fila_documentos
SET disponivel_em = criado_em
WHERE disponivel_em IS NULL;

-- No default: the one who brings a document says from when on it is due (enfileirar reads the clock).
ALTER TABLE sql_semana_12.fila_documentos ALTER COLUMN disponivel_em SET NOT NULL;

DROP INDEX IF EXISTS sql_semana_12.fila_documentos_pendentes_idx;
CREATE INDEX IF NOT EXISTS fila_documentos_devidos_idx
ON sql_semana_12.fila_documentos (disponivel_em, documento_id)
WHERE status = 'pendente';
CREATE INDEX IF NOT EXISTS fila_documentos_devidos_inquilino_idx
ON sql_semana_12.fila_documentos (inquilino, disponivel_em, documento_id)
WHERE status = 'pendente';

ALTER TABLE sql_semana_12.configuracao
ADD COLUMN IF NOT EXISTS primeira_espera INTERVAL NOT NULL DEFAULT '1 second' CHECK (primeira_espera > INTERVAL '0'),
ADD COLUMN IF NOT EXISTS espera_maxima INTERVAL NOT NULL DEFAULT '5 minutes' CHECK (espera_maxima > INTERVAL '0'),
ADD COLUMN IF NOT EXISTS tentativas INTEGER NOT NULL DEFAULT 5 CHECK (tentativas BETWEEN 1 AND 1000);

-- Their signatures change.
DROP FUNCTION IF EXISTS sql_semana_12.falhar(BIGINT, BIGINT, TEXT, TEXT);
DROP FUNCTION IF EXISTS sql_semana_12.recuperar(TEXT, TEXT, INTEGER, INTEGER, TEXT);
DROP TYPE IF EXISTS sql_semana_12.posse CASCADE;
CREATE TYPE sql_semana_12.posse AS (
    documento_id BIGINT,
    inquilino TEXT,
    status TEXT,
    versao BIGINT,
    token_reserva BIGINT,
    worker_id TEXT,
    tentativas INTEGER,
    iniciado_em TIMESTAMPTZ,
    max_tentativas INTEGER
);

-- A reason as it may be kept and logged: one short line, without what may be the document's and without credentials. It is the
-- last line of defence: a worker writes a reason of its own, with nothing quoted in it.
CREATE OR REPLACE FUNCTION sql_semana_12.resumir(p_motivo TEXT)
RETURNS TEXT
LANGUAGE plpgsql
IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- From its first word on, and cut before anything else, so that a reason of a megabyte costs little.
    v_motivo TEXT := left(regexp_replace(p_motivo, '^[[:space:]]+', ''), 2000);
BEGIN
    -- Below its first line an error quotes the document (libxml), the statement or the row (DETAIL).
    v_motivo := regexp_replace(v_motivo, E'[\r\n].*', '');
    -- What is quoted or in brackets is a name at best, and a value of the document at worst.
    v_motivo := regexp_replace(v_motivo, '<.*', '<...>');
    v_motivo := regexp_replace(v_motivo, '"[^"]*("|$)', '"..."', 'g');
    v_motivo := regexp_replace(v_motivo, '''[^'']*''', '''...''', 'g');
    v_motivo := regexp_replace(v_motivo, '=[(].*', '=(...)');
    v_motivo := regexp_replace(
        v_motivo,
        '((password|passwd|pwd|senha|secret[[:alnum:]_]*|token|api_?key)[[:space:]]*[=:]|[[:<:]]bearer[[:space:]])[[:space:]]*[^[:space:]]+',
        E'\\1...',
        'gi'
    );
    v_motivo := regexp_replace(v_motivo, '[[:<:]](authorization|cookie)[[:space:]]*[=:].*', E'\\1: ...', 'i');
    v_motivo := regexp_replace(v_motivo, '://[^[:space:]]*@', '://...@', 'g');
    -- Who it is about: the number of a person or a company (CPF, CNPJ), and any other of so many digits.
    v_motivo := regexp_replace(
        v_motivo,
        '[[:digit:]]{11,}|([[:digit:]]{3}[.]){2}[[:digit:]]{3}-[[:digit:]]{2}'
        '|[[:alnum:]_]{2}[.][[:alnum:]_]{3}[.][[:alnum:]_]{3}/[[:alnum:]_]{4}-[[:digit:]]{2}',
        '...',
        'g'
    );
    RETURN left(btrim(regexp_replace(v_motivo, '[[:space:]]+', ' ', 'g')), 200);
END
$$;

-- The delay before the next attempt: doubled each time up to a maximum, then a random share of the upper half, so that what
-- failed together does not come back together.
CREATE OR REPLACE FUNCTION sql_semana_12.recuo(p_tentativas INTEGER)
RETURNS INTERVAL
LANGUAGE plpgsql
VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_inteira INTERVAL;
BEGIN
    SELECT least(primeira_espera * 2 ^ least(p_tentativas - 1, 20), espera_maxima) INTO STRICT v_inteira FROM sql_semana_12.configuracao;
    RETURN v_inteira * (0.5 + random() / 2);
END
$$;

-- What the table's constraints would refuse as well, whose errors repeat the row, payload and all; and more: a blank key, a DOCTYPE,
-- a moment without end.
CREATE OR REPLACE FUNCTION sql_semana_12.exigir_documento(
    p_chave TEXT,
    p_nome_arquivo TEXT,
    p_conteudo_xml XML,
    p_inquilino TEXT,
    p_disponivel_em TIMESTAMPTZ,
    p_max_tentativas INTEGER
)
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- No line break or other control character in a key or a tenant's name: both are told in logs, a line each.
    IF p_chave IS NULL OR p_chave !~ '[^[:space:]]' OR p_chave ~ '[[:cntrl:]]' OR length(p_chave) > 200 THEN
        RAISE EXCEPTION 'p_chave must be the key of the document, in at most 200 characters of one line' USING ERRCODE = '22023';
    END IF;
    IF p_nome_arquivo IS NULL OR p_nome_arquivo !~ '[^[:space:]]' OR length(p_nome_arquivo) > 1000 THEN
        RAISE EXCEPTION 'p_nome_arquivo must name the file, in at most 1000 characters' USING ERRCODE = '22023';
    END IF;
    -- A value of type xml may also be empty, bare text or several roots. A DOCTYPE may stand before the root only, behind
    -- declarations and comments; a document that has one can name entities, which a parser may silently empty.
    IF
        p_conteudo_xml IS NULL
        OR p_conteudo_xml IS NOT DOCUMENT
        OR p_conteudo_xml::TEXT ~ '^([[:space:]]|<[?]([^?]|[?]+[^?>])*[?]+>|<!--([^-]|-[^-])*-->)*<!DOCTYPE'
    THEN
        RAISE EXCEPTION 'p_conteudo_xml must be the document itself, with one root and no DOCTYPE' USING ERRCODE = '22023';
    END IF;
    -- No slash: it ends the tenant's name in a key of operation (lesson 09), where two tenants must not meet.
    IF p_inquilino IS NULL OR p_inquilino !~ '[^[:space:]]' OR p_inquilino ~ '[[:cntrl:]/]' OR length(p_inquilino) > 200 THEN
        RAISE EXCEPTION 'p_inquilino must name the tenant, without a slash, in at most 200 characters of one line'
            USING ERRCODE = '22023';
    END IF;
    IF NOT isfinite(p_disponivel_em) THEN
        RAISE EXCEPTION 'p_disponivel_em must be a moment, not %', p_disponivel_em USING ERRCODE = '22023';
    END IF;
    PERFORM sql_semana_12.exigir_quantidade('p_max_tentativas', p_max_tentativas);
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.enfileirar(
    p_chave TEXT,
    p_nome_arquivo TEXT,
    p_conteudo_xml XML,
    p_inquilino TEXT DEFAULT 'padrao',
    p_disponivel_em TIMESTAMPTZ DEFAULT NULL,
    p_max_tentativas INTEGER DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, novo BOOLEAN)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    -- Before the INSERT, which waits where another session is just writing the same key: if that one rolls back, criado_em is of
    -- before the wait. No lease depends on it; to read it afterwards would cost every document a second statement.
    v_agora TIMESTAMPTZ := sql_semana_12.relogio();
    v_resumo BYTEA;
    v_outro BYTEA;
    v_max_tentativas INTEGER := coalesce(p_max_tentativas, (SELECT tentativas FROM sql_semana_12.configuracao));
BEGIN
    PERFORM sql_semana_12.exigir_documento(p_chave, p_nome_arquivo, p_conteudo_xml, p_inquilino, p_disponivel_em, v_max_tentativas);
    v_resumo := sha256(convert_to(p_conteudo_xml::TEXT, 'UTF8'));
    LOOP
        INSERT INTO sql_semana_12.fila_documentos AS fila (
            chave, nome_arquivo, conteudo_xml, conteudo_sha256, inquilino, criado_em, disponivel_em, max_tentativas
        )
        VALUES (
            p_chave,
            p_nome_arquivo,
            p_conteudo_xml,
            v_resumo,
            p_inquilino,
            v_agora,
            greatest(p_disponivel_em, v_agora),
            v_max_tentativas
        )
        ON CONFLICT (inquilino, chave) DO NOTHING
        RETURNING fila.documento_id INTO documento_id;
        novo := FOUND;
        EXIT WHEN novo;
        SELECT fila.documento_id, fila.conteudo_sha256
        INTO documento_id, v_outro
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.inquilino = p_inquilino AND fila.chave = p_chave;
        -- Not found: it was deleted in between, and its key is free.
        EXIT WHEN FOUND;
    END LOOP;
    IF v_outro <> v_resumo THEN
        RAISE EXCEPTION 'document %: under the key % another content came before', documento_id, p_chave
            USING ERRCODE = 'QL001', HINT = 'Use a new key for a new document. Nothing was changed.';
    END IF;
    RETURN NEXT;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.reservar(
    p_worker TEXT,
    p_lote INTEGER DEFAULT 1,
    p_prazo INTERVAL DEFAULT '30 seconds',
    p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (
    documento_id BIGINT,
    inquilino TEXT,
    chave TEXT,
    token_reserva BIGINT,
    versao BIGINT,
    tentativas INTEGER,
    reservado_ate TIMESTAMPTZ,
    conteudo_xml XML
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_agora TIMESTAMPTZ;
    v_inquilinos TEXT[];
    v_documentos BIGINT[];
    v_versoes BIGINT[];
    v_tokens BIGINT[];
BEGIN
    PERFORM sql_semana_12.exigir_pedido(p_worker, p_lote, p_prazo);
    IF p_inquilino IS NULL THEN
        SELECT array_agg(inquilino), array_agg(documento_id), array_agg(versao + 1)
        INTO v_inquilinos, v_documentos, v_versoes
        FROM (
            SELECT inquilino, documento_id, versao
            FROM sql_semana_12.fila_documentos
            WHERE status = 'pendente' AND disponivel_em <= (SELECT sql_semana_12.relogio())
            ORDER BY disponivel_em, documento_id
            FOR NO KEY UPDATE SKIP LOCKED
            LIMIT p_lote
        ) AS escolhido;
    ELSE
        SELECT array_agg(inquilino), array_agg(documento_id), array_agg(versao + 1)
        INTO v_inquilinos, v_documentos, v_versoes
        FROM (
            SELECT inquilino, documento_id, versao
            FROM sql_semana_12.fila_documentos
            WHERE status = 'pendente' AND inquilino = p_inquilino AND disponivel_em <= (SELECT sql_semana_12.relogio())
            ORDER BY disponivel_em, documento_id
            FOR NO KEY UPDATE SKIP LOCKED
            LIMIT p_lote
        ) AS escolhido;
    END IF;
    IF v_documentos IS NULL THEN
        RETURN;
    END IF;
    v_agora := sql_semana_12.relogio();
    -- Before the UPDATE, in which nothing is volatile.
    v_tokens := sql_semana_12.novos_tokens(cardinality(v_documentos));
    INSERT INTO sql_semana_12.auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
    SELECT inquilino, documento, versao, 'pendente', 'processando', token, p_worker, 'reserva', v_agora
    FROM unnest(v_inquilinos, v_documentos, v_versoes, v_tokens) AS escolhido (inquilino, documento, versao, token);
    RETURN QUERY
    WITH reservados AS (
        UPDATE sql_semana_12.fila_documentos AS fila
        SET
            status = 'processando',
            tentativas = fila.tentativas + 1,
            versao = fila.versao + 1,
            token_reserva = escolhido.token,
            worker_id = p_worker,
            reservado_ate = v_agora + p_prazo,
            iniciado_em = v_agora,
            concluido_em = NULL,
            ultimo_erro = NULL,
            categoria_erro = NULL
        FROM unnest(v_inquilinos, v_documentos, v_tokens) AS escolhido (inquilino, documento, token)
        WHERE
            fila.inquilino = escolhido.inquilino
            AND fila.documento_id = escolhido.documento
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        RETURNING fila.*
    )

    SELECT documento_id, inquilino, chave, token_reserva, versao, tentativas, reservado_ate, conteudo_xml
    FROM reservados
    ORDER BY disponivel_em, documento_id;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.travar(p_documento BIGINT, p_token BIGINT, p_inquilino TEXT)
RETURNS sql_semana_12.posse
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_posse sql_semana_12.posse;
BEGIN
    SELECT
        fila.documento_id,
        fila.inquilino,
        fila.status,
        fila.versao,
        fila.token_reserva,
        fila.worker_id,
        fila.tentativas,
        fila.iniciado_em,
        fila.max_tentativas
    INTO v_posse
    FROM sql_semana_12.fila_documentos AS fila
    WHERE
        fila.documento_id = p_documento
        AND fila.status = 'processando'
        AND fila.token_reserva = p_token
        AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
    FOR NO KEY UPDATE;
    RETURN v_posse;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.mudar(
    p_posse sql_semana_12.posse,
    p_para TEXT,
    p_quem TEXT,
    p_por_que TEXT,
    p_erro TEXT,
    p_agora TIMESTAMPTZ,
    p_categoria TEXT DEFAULT NULL,
    p_disponivel_em TIMESTAMPTZ DEFAULT NULL
)
RETURNS BIGINT
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE sql_semana_12.fila_documentos
    SET
        status = p_para,
        versao = p_posse.versao + 1,
        token_reserva = NULL, -- void: no write passes under it any more
        worker_id = CASE WHEN p_para <> 'pendente' THEN p_posse.worker_id END,
        reservado_ate = NULL,
        concluido_em = CASE WHEN p_para IN ('concluido', 'falhou', 'cancelado') THEN p_agora END,
        ultimo_erro = sql_semana_12.resumir(p_erro),
        categoria_erro = p_categoria,
        disponivel_em = coalesce(p_disponivel_em, disponivel_em)
    WHERE inquilino = p_posse.inquilino AND documento_id = p_posse.documento_id;
    INSERT INTO sql_semana_12.auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
    VALUES (
        p_posse.inquilino,
        p_posse.documento_id,
        p_posse.versao + 1,
        p_posse.status,
        p_para,
        p_posse.token_reserva,
        p_quem,
        sql_semana_12.resumir(p_por_que),
        p_agora
    );
    RETURN p_posse.versao + 1;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.falhar(
    p_documento BIGINT, p_token BIGINT, p_categoria TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT, disponivel_em TIMESTAMPTZ)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_posse sql_semana_12.posse;
    v_agora TIMESTAMPTZ;
BEGIN
    IF p_categoria IS NULL OR p_categoria NOT IN ('conteudo', 'sistemico', 'conexao', 'impasse') THEN
        RAISE EXCEPTION 'p_categoria must be conteudo, sistemico, conexao or impasse, not %', left(p_categoria, 50)
            USING ERRCODE = '22023';
    END IF;
    PERFORM sql_semana_12.exigir_motivo(p_motivo);
    v_posse := sql_semana_12.travar(p_documento, p_token, p_inquilino);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    v_agora := sql_semana_12.relogio();
    documento_id := p_documento;
    IF p_categoria = 'conteudo' OR v_posse.tentativas >= v_posse.max_tentativas THEN
        status := 'falhou';
    ELSE
        status := 'pendente';
        disponivel_em := v_agora + sql_semana_12.recuo(v_posse.tentativas);
    END IF;
    versao := sql_semana_12.mudar(v_posse, status, v_posse.worker_id, 'falha ' || p_categoria, p_motivo, v_agora, p_categoria, disponivel_em);
    RETURN NEXT;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.recuperar(
    p_quem TEXT,
    p_motivo TEXT DEFAULT 'reserva vencida',
    p_limite INTEGER DEFAULT 100,
    p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT, tentativas INTEGER, worker_anterior TEXT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_agora TIMESTAMPTZ := sql_semana_12.relogio();
    v_posse sql_semana_12.posse;
    v_disponivel_em TIMESTAMPTZ;
BEGIN
    PERFORM sql_semana_12.exigir_quem(p_quem);
    PERFORM sql_semana_12.exigir_quantidade('p_limite', p_limite);
    PERFORM sql_semana_12.exigir_motivo(p_motivo);
    FOR v_posse IN
        SELECT
            fila.documento_id,
            fila.inquilino,
            fila.status,
            fila.versao,
            fila.token_reserva,
            fila.worker_id,
            fila.tentativas,
            fila.iniciado_em,
            fila.max_tentativas
        FROM sql_semana_12.fila_documentos AS fila
        WHERE
            fila.status = 'processando'
            AND coalesce(fila.reservado_ate, '-infinity') < v_agora
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        ORDER BY fila.documento_id
        LIMIT p_limite
        FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        v_agora := sql_semana_12.relogio(); -- again: the look may have waited for a lock on the table
        documento_id := v_posse.documento_id;
        status := CASE WHEN v_posse.tentativas < v_posse.max_tentativas THEN 'pendente' ELSE 'falhou' END;
        v_disponivel_em := CASE WHEN status = 'pendente' THEN v_agora + sql_semana_12.recuo(v_posse.tentativas) END;
        versao := sql_semana_12.mudar(v_posse, status, p_quem, p_motivo, p_motivo, v_agora, 'queda', v_disponivel_em);
        tentativas := v_posse.tentativas;
        worker_anterior := v_posse.worker_id;
        RETURN NEXT;
    END LOOP;
END
$$;

DROP VIEW IF EXISTS sql_semana_12.situacao;
CREATE VIEW sql_semana_12.situacao AS
WITH hora AS MATERIALIZED (
    SELECT sql_semana_12.relogio() AS agora
)

SELECT
    count(*) FILTER (WHERE fila.status = 'pendente' AND fila.disponivel_em <= hora.agora) AS aguardando,
    count(*) FILTER (WHERE fila.status = 'pendente' AND fila.disponivel_em > hora.agora) AS adiados,
    count(*) FILTER (WHERE fila.status = 'processando' AND fila.reservado_ate >= hora.agora) AS executando,
    count(*) FILTER (WHERE fila.status = 'processando' AND coalesce(fila.reservado_ate, '-infinity') < hora.agora) AS orfaos,
    count(*) FILTER (WHERE fila.status = 'concluido') AS concluidos,
    count(*) FILTER (WHERE fila.status = 'falhou') AS falhos,
    max(hora.agora - fila.disponivel_em) FILTER (
        WHERE fila.status = 'pendente' AND fila.disponivel_em <= hora.agora
    ) AS maior_espera,
    max(hora.agora - fila.reservado_ate) FILTER (
        WHERE fila.status = 'processando' AND fila.reservado_ate < hora.agora
    ) AS maior_atraso
FROM sql_semana_12.fila_documentos AS fila
CROSS JOIN hora;

COMMENT ON COLUMN sql_semana_12.configuracao.primeira_espera IS
'The delay after the first attempt; it doubles with each.';
COMMENT ON COLUMN sql_semana_12.configuracao.espera_maxima IS
'The longest delay between two attempts.';
COMMENT ON COLUMN sql_semana_12.configuracao.tentativas IS
'How many attempts a document has for which enfileirar was given no number.';
COMMENT ON FUNCTION sql_semana_12.exigir_documento IS
'Refuses a document that makes no sense with 22023, and does not repeat it.';
COMMENT ON FUNCTION sql_semana_12.enfileirar IS
'Brings a document into the queue, due at once or from p_disponivel_em on if that is later. novo is false if its tenant has the key '
'in the queue already, which is left as it is; with another content that is an error, QL001. One row, always.';
COMMENT ON FUNCTION sql_semana_12.reservar IS
'Claims up to p_lote due documents, the longest due first, for p_prazo, each under a new token. Zero rows: nothing is free now.';
COMMENT ON FUNCTION sql_semana_12.travar IS
'Locks the document and gives it back if it is in work under this token, else null; the guard of every outcome of one document.';
COMMENT ON FUNCTION sql_semana_12.mudar IS
'Changes the state of a locked document, and writes its row of auditoria.';
COMMENT ON FUNCTION sql_semana_12.resumir IS
'A reason cut to its first line and 200 characters. It takes out elements, quoted words, credentials and long numbers as it '
'recognizes them, and will miss some: write reasons that hold none.';
COMMENT ON FUNCTION sql_semana_12.recuo IS
'The delay before the attempt after this one: doubled each time, at most espera_maxima, the upper half of it random.';
COMMENT ON FUNCTION sql_semana_12.falhar IS
'Ends the attempt under this token: falhou for conteudo or the last attempt, else pendente, due after recuo. Zero rows: nothing changed.';
COMMENT ON FUNCTION sql_semana_12.recuperar IS
'Puts up to p_limite late documents back to pendente, due after recuo, or to falhou after max_tentativas. '
'Zero rows: none is late and free.';
COMMENT ON VIEW sql_semana_12.situacao IS
'One row: documents due, put off, in work, orphaned (late), ended; how long the first due one waits, how late the latest is.';

COMMIT;

SELECT documento_id, status, tentativas, max_tentativas, disponivel_em
FROM sql_semana_12.fila_documentos
ORDER BY disponivel_em, documento_id;
