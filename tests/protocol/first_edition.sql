-- A queue of documents in PostgreSQL 14 or later: claims with a lease and a token, retries, stages of outside calls, an audit.
-- Names: pt. Schema: "public". The installing role owns it; it takes CREATE on the database, or an empty schema of that name.
--
-- Claims must be committed synchronously (synchronous_commit on, as it is unless an administrator turned it off for
-- the server, a database or a role): otherwise, after a crash of the server, a token can be given twice, and a late worker passes
-- for the present one.
--
-- Install    psql -X -v ON_ERROR_STOP=1 -f protocol.sql     (again whenever you like: documents and grants stay, functions and
--            views become this file's; it refuses a schema that holds something else, and a queue of another structure)
-- Alerts     the lines that begin with --? at the end: three queries; zero rows mean that none of the three is so
-- Uninstall  the lines that begin with --- at the end; the documents go too, and nothing that this file did not make
--
-- A worker calls, each in a short transaction: reservar, then works, calling renovar before its lease ends, then concluir (for
-- a batch: concluir_lote), falhar or conciliar, always with the token that reservar gave it. A scheduled job calls recuperar
-- from time to time. COMMENTs say the rest.

BEGIN;

SET LOCAL client_min_messages = warning;

-- It installs into a schema of its own, an empty one, or over itself.
DO $guard$
DECLARE
    v_mark TEXT := obj_description(to_regclass('"public".token_reserva_seq'), 'pg_class');
    v_stranger TEXT;
BEGIN
    IF v_mark = 'document queue, structure 02ad4f81' THEN
        RETURN;
    END IF;
    IF v_mark LIKE 'document queue, structure %' THEN
        RAISE EXCEPTION 'the document queue in schema "public" has another structure than this file makes; it was left untouched'
            USING HINT = 'Install this one in another schema; once the old one has run empty, uninstall it with its own file.';
    END IF;
    IF to_regnamespace('"public"') IS NULL THEN
        CREATE SCHEMA "public";
        COMMENT ON SCHEMA "public" IS 'made for the document queue';
        RETURN;
    END IF;
    SELECT pg_describe_object(classid, objid, objsubid) INTO v_stranger
    FROM pg_depend
    WHERE refclassid = 'pg_namespace'::REGCLASS AND refobjid = to_regnamespace('"public"')
    LIMIT 1;
    IF v_stranger IS NOT NULL THEN
        RAISE EXCEPTION 'schema "public" holds something else, % for one; it was left untouched', v_stranger
            USING HINT = 'Make this file for another schema.';
    END IF;
END
$guard$;

-- A document as a function holds it once it is locked: without the payload, which would be read at every hand-over.
DO $type$
BEGIN
    IF to_regtype('"public".posse') IS NULL THEN
        CREATE TYPE "public".posse AS (
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
            referencia_externa TEXT
        );
    END IF;
END
$type$;

-- A sequence gives no number back: not on rollback, not to another document, and not after a crash as long as claims commit
-- synchronously. It does after an asynchronous standby was promoted, or a backup restored.
CREATE SEQUENCE IF NOT EXISTS "public".token_reserva_seq AS BIGINT NO CYCLE;

CREATE TABLE IF NOT EXISTS "public".fila_documentos (
    documento_id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chave TEXT NOT NULL UNIQUE,
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
    chave_operacao TEXT UNIQUE NOT NULL,
    etapa TEXT NOT NULL DEFAULT 'nao_chamado' CHECK (
        etapa IN ('nao_chamado', 'desconhecido', 'obtido', 'confirmando')
    ),
    referencia_externa TEXT,
    -- For monitoring. A renewal writes a new version of the row anyway: counted there it stays heap-only and is exact.
    renovacoes INTEGER NOT NULL DEFAULT 0,
    -- The slash ends the tenant's name in chave_operacao, so that two tenants never meet in one.
    CONSTRAINT fila_documentos_inquilino_check CHECK (inquilino NOT LIKE '%/%'),
    CONSTRAINT fila_documentos_status_check CHECK (status IN ('pendente', 'processando', 'concluido', 'falhou', 'conciliacao', 'pausado'))
);

COMMENT ON COLUMN "public".fila_documentos.renovacoes IS
'How often the lease of this document was renewed, in all attempts.';

CREATE TABLE IF NOT EXISTS "public".auditoria (
    auditoria_id BIGINT GENERATED ALWAYS AS IDENTITY,
    inquilino TEXT NOT NULL,
    documento_id BIGINT NOT NULL,
    versao BIGINT NOT NULL,
    de TEXT NOT NULL,
    para TEXT NOT NULL,
    token_reserva BIGINT,
    quem TEXT NOT NULL,
    por_que TEXT NOT NULL,
    quando TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (documento_id, versao),
    -- How the attempt that ended here failed; null where none did. The class in the queue is only that of the last failure.
    categoria_erro TEXT
);

COMMENT ON TABLE "public".auditoria IS
'Every change of state: from, to, version, token, who, why, when. versao of a document grows by exactly one with every row.';

COMMENT ON COLUMN "public".auditoria.categoria_erro IS
'Class of the failure that ended an attempt here, queda for a take-over; null for every other change.';

-- Only the rows a worker may claim, in the order in which they are claimed: of any tenant, and of one.
CREATE INDEX IF NOT EXISTS fila_documentos_devidos_idx
ON "public".fila_documentos (disponivel_em, documento_id)
WHERE status = 'pendente';

CREATE INDEX IF NOT EXISTS fila_documentos_devidos_inquilino_idx
ON "public".fila_documentos (inquilino, disponivel_em, documento_id)
WHERE status = 'pendente';

-- For recovery. The deadline itself stays unindexed, so that a renewal can be a heap-only update.
CREATE INDEX IF NOT EXISTS fila_documentos_processando_idx
ON "public".fila_documentos (documento_id)
WHERE status = 'processando';

CREATE INDEX IF NOT EXISTS auditoria_falhas_idx
ON "public".auditoria (categoria_erro)
WHERE categoria_erro IS NOT NULL;

CREATE OR REPLACE FUNCTION "public".conciliar(
    p_documento BIGINT, p_token BIGINT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = "public", pg_temp
AS $$
DECLARE
    v_posse posse;
BEGIN
    PERFORM exigir_motivo(p_motivo);
    v_posse := travar(p_documento, p_token, p_inquilino);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    versao := mudar(v_posse, 'conciliacao', v_posse.worker_id, 'conciliacao', p_motivo, relogio());
    documento_id := p_documento;
    status := 'conciliacao';
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION "public".conciliar IS
'Hands a document in work under this token to people: its result is unknown, and the receiver cannot be asked. Zero rows: it '
'is not in work under it.';

CREATE OR REPLACE FUNCTION "public".concluir(
    p_documento BIGINT, p_token BIGINT, p_referencia TEXT DEFAULT NULL, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = "public", pg_temp
AS $$
DECLARE
    v_posse posse := travar(p_documento, p_token, p_inquilino);
BEGIN
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    IF p_referencia IS NOT NULL THEN
        PERFORM exigir_referencia(p_referencia, v_posse.referencia_externa);
    END IF;
    v_posse.referencia_externa := coalesce(p_referencia, v_posse.referencia_externa);
    IF v_posse.etapa = 'desconhecido' AND v_posse.referencia_externa IS NULL THEN
        RAISE EXCEPTION 'document %: the result of the call is unknown, so it cannot be finished', p_documento
            USING ERRCODE = '55000', HINT = 'Ask the receiver by chave_operacao, then finish with p_referencia, or use conciliar.';
    END IF;
    IF v_posse.etapa <> 'confirmando' AND v_posse.referencia_externa IS NOT NULL THEN
        v_posse.etapa := 'obtido'; -- the reference says so
    END IF;
    versao := mudar(v_posse, 'concluido', v_posse.worker_id, 'conclusao', NULL, relogio());
    documento_id := p_documento;
    status := 'concluido';
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION "public".concluir IS
'Finishes a document in work under this token, with the receiver''s reference if it was called. Zero rows: it is not in work '
'under it, and nothing was changed.';

-- What concluir does, for a batch in three statements whatever its size. The guard stands here as it stands in travar, word for
-- word: called for each document, it would cost what the batch saves. All are locked in the order of their keys before any is
-- changed, so that two batches never deadlock; one may wait for the other.
CREATE OR REPLACE FUNCTION "public".concluir_lote(
    p_documentos BIGINT[], p_tokens BIGINT[], p_referencias TEXT[] DEFAULT NULL, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = "public", pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_travados BIGINT[];
    v_referencias TEXT[];
    v_sem_resultado BIGINT;
    v_outro_resultado BIGINT;
    v_agora TIMESTAMPTZ;
BEGIN
    PERFORM exigir_lote(p_documentos, p_tokens, p_referencias);
    SELECT
        array_agg(documento_id),
        array_agg(coalesce(p_referencia, referencia_externa)),
        min(documento_id) FILTER (WHERE etapa = 'desconhecido' AND coalesce(p_referencia, referencia_externa) IS NULL),
        min(documento_id) FILTER (WHERE p_referencia <> referencia_externa)
    INTO v_travados, v_referencias, v_sem_resultado, v_outro_resultado
    FROM (
        SELECT fila.documento_id, fila.etapa, fila.referencia_externa, pedido.p_referencia
        FROM unnest(p_documentos, p_tokens, p_referencias) AS pedido (p_documento, p_token, p_referencia)
        CROSS JOIN fila_documentos AS fila
        WHERE
            fila.documento_id = p_documento
            AND fila.status = 'processando'
            AND fila.token_reserva = p_token
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        ORDER BY fila.documento_id
        FOR NO KEY UPDATE OF fila
    ) AS travado;
    IF v_sem_resultado IS NOT NULL THEN
        RAISE EXCEPTION 'document %: the result of the call is unknown, so it cannot be finished', v_sem_resultado
            USING ERRCODE = '55000', HINT = 'Ask the receiver by chave_operacao, then finish with p_referencias, or use conciliar.';
    END IF;
    IF v_outro_resultado IS NOT NULL THEN
        RAISE EXCEPTION 'document %: its p_referencia must be the reference that is known already, and no other', v_outro_resultado
            USING ERRCODE = '22023';
    END IF;
    IF v_travados IS NULL THEN
        RETURN;
    END IF;
    v_agora := relogio();
    INSERT INTO auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
    SELECT
        fila.inquilino,
        fila.documento_id,
        fila.versao + 1,
        fila.status,
        'concluido',
        fila.token_reserva,
        fila.worker_id,
        'conclusao',
        v_agora
    FROM fila_documentos AS fila
    WHERE fila.documento_id = ANY(v_travados);
    RETURN QUERY
    UPDATE fila_documentos AS fila
    SET
        status = 'concluido',
        versao = fila.versao + 1,
        token_reserva = NULL,
        reservado_ate = NULL,
        concluido_em = v_agora,
        ultimo_erro = NULL,
        categoria_erro = NULL,
        -- A reference says that the result was obtained.
        etapa = CASE WHEN fila.etapa <> 'confirmando' AND travado.referencia IS NOT NULL THEN 'obtido' ELSE fila.etapa END,
        referencia_externa = travado.referencia
    FROM unnest(v_travados, v_referencias) AS travado (documento, referencia)
    WHERE fila.documento_id = travado.documento
    RETURNING fila.documento_id, fila.status, fila.versao;
END
$$;

COMMENT ON FUNCTION "public".concluir_lote IS
'Finishes those of the documents that are in work, each under its token, with the receiver''s reference if it was called; in no '
'order. No row for one that is not in work under it, which is left as it is. Zero rows: nothing was changed.';

CREATE OR REPLACE FUNCTION "public".confirmar(
    p_documento BIGINT,
    p_versao BIGINT,
    p_referencia TEXT,
    p_quem TEXT,
    p_motivo TEXT,
    p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = "public", pg_temp
AS $$
DECLARE
    v_posse posse := travar_para_operador(p_documento, p_versao, '{conciliacao}', p_quem, p_motivo, p_inquilino);
BEGIN
    PERFORM exigir_referencia(p_referencia, v_posse.referencia_externa);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    IF v_posse.etapa <> 'confirmando' THEN
        v_posse.etapa := 'obtido';
    END IF;
    v_posse.referencia_externa := p_referencia;
    versao := mudar(v_posse, 'concluido', p_quem, p_motivo, NULL, relogio());
    documento_id := p_documento;
    status := 'concluido';
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION "public".confirmar IS
'Finishes a document in conciliacao with the result that people found at the receiver; a reference that is known already is '
'never replaced by another (22023). Zero rows: it has moved on since p_versao, or is not there.';

-- Where an attempt that did not finish leaves its document. While there are attempts left it is taken up again, stage and all.
-- When there are none, the stage decides: never called is a failure, unknown is for people, obtained is as good as done.
CREATE OR REPLACE FUNCTION "public".destino(p_etapa TEXT, p_esgotado BOOLEAN)
RETURNS TEXT
LANGUAGE plpgsql
IMMUTABLE
SET search_path = "public", pg_temp
AS $$
BEGIN
    RETURN CASE
        WHEN NOT p_esgotado THEN 'pendente'
        WHEN p_etapa = 'nao_chamado' THEN 'falhou'
        WHEN p_etapa = 'desconhecido' THEN 'conciliacao'
        ELSE 'concluido'
    END;
END
$$;

COMMENT ON FUNCTION "public".destino IS
'The state in which an attempt that did not finish leaves its document, by stage and by whether attempts are left.';

CREATE OR REPLACE FUNCTION "public".enfileirar(
    p_chave TEXT,
    p_nome_arquivo TEXT,
    p_conteudo_xml XML,
    p_inquilino TEXT DEFAULT 'padrao',
    p_disponivel_em TIMESTAMPTZ DEFAULT NULL,
    p_max_tentativas INTEGER DEFAULT 5
)
RETURNS TABLE (documento_id BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = "public", pg_temp
AS $$
#variable_conflict use_column
DECLARE
    -- Before the INSERT, which waits where another session is just writing the same key: if that one rolls back, criado_em is of
    -- before the wait. No lease depends on it; to read it afterwards would cost every document a second statement.
    v_agora TIMESTAMPTZ := relogio();
BEGIN
    PERFORM exigir_documento(p_chave, p_nome_arquivo, p_conteudo_xml, p_inquilino, p_disponivel_em, p_max_tentativas);
    RETURN QUERY
    INSERT INTO fila_documentos AS fila (
        chave, chave_operacao, nome_arquivo, conteudo_xml, inquilino, criado_em, disponivel_em, max_tentativas
    )
    VALUES (
        p_chave,
        p_inquilino || '/' || p_chave,
        p_nome_arquivo,
        p_conteudo_xml,
        p_inquilino,
        v_agora,
        greatest(p_disponivel_em, v_agora),
        p_max_tentativas
    )
    ON CONFLICT DO NOTHING
    RETURNING fila.documento_id;
END
$$;

COMMENT ON FUNCTION "public".enfileirar IS
'Brings a document into the queue, due at once or from p_disponivel_em on if that is later. Zero rows: its key is in the queue '
'already.';

CREATE OR REPLACE FUNCTION "public".examinar(p_documento BIGINT, p_inquilino TEXT DEFAULT NULL)
RETURNS TABLE (
    documento_id BIGINT,
    inquilino TEXT,
    chave TEXT,
    status TEXT,
    versao BIGINT,
    tentativas INTEGER,
    max_tentativas INTEGER,
    worker_id TEXT,
    reservado_ate TIMESTAMPTZ,
    reserva_viva BOOLEAN,
    etapa TEXT,
    chave_operacao TEXT,
    referencia_externa TEXT,
    categoria_erro TEXT,
    ultimo_erro TEXT
)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = "public", pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_agora TIMESTAMPTZ := relogio();
BEGIN
    RETURN QUERY
    SELECT
        fila.documento_id,
        fila.inquilino,
        fila.chave,
        fila.status,
        fila.versao,
        fila.tentativas,
        fila.max_tentativas,
        fila.worker_id,
        fila.reservado_ate,
        coalesce(fila.status = 'processando' AND fila.reservado_ate >= v_agora, FALSE),
        fila.etapa,
        fila.chave_operacao,
        fila.referencia_externa,
        fila.categoria_erro,
        fila.ultimo_erro
    FROM fila_documentos AS fila
    WHERE fila.documento_id = p_documento AND fila.inquilino = coalesce(p_inquilino, fila.inquilino);
END
$$;

COMMENT ON FUNCTION "public".examinar IS
'A document as an operator should see it before changing anything, without its payload. Zero rows: there is none.';

-- What the table's constraints would refuse as well, whose errors repeat the row, payload and all; and more: a blank key, a DOCTYPE,
-- a moment without end.
CREATE OR REPLACE FUNCTION "public".exigir_documento(
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
SET search_path = "public", pg_temp
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
    -- No slash: it ends the tenant's name in a key of operation, where two tenants must not meet.
    IF p_inquilino IS NULL OR p_inquilino !~ '[^[:space:]]' OR p_inquilino ~ '[[:cntrl:]/]' OR length(p_inquilino) > 200 THEN
        RAISE EXCEPTION 'p_inquilino must name the tenant, without a slash, in at most 200 characters of one line'
            USING ERRCODE = '22023';
    END IF;
    IF NOT isfinite(p_disponivel_em) THEN
        RAISE EXCEPTION 'p_disponivel_em must be a moment, not %', p_disponivel_em USING ERRCODE = '22023';
    END IF;
    PERFORM exigir_quantidade('p_max_tentativas', p_max_tentativas);
END
$$;

COMMENT ON FUNCTION "public".exigir_documento IS
'Refuses a document that makes no sense with 22023, and does not repeat it.';

CREATE OR REPLACE FUNCTION "public".exigir_lote(p_documentos BIGINT[], p_tokens BIGINT[], p_referencias TEXT[])
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = "public", pg_temp
AS $$
BEGIN
    IF
        p_documentos IS NULL
        OR array_ndims(p_documentos) <> 1
        OR cardinality(p_documentos) > 1000
        OR cardinality(p_documentos) <> (SELECT count(DISTINCT documento) FROM unnest(p_documentos) AS documento)
    THEN
        RAISE EXCEPTION 'p_documentos must be a list of at most 1000 documents, none of them null, each of them once'
            USING ERRCODE = '22023';
    END IF;
    IF
        p_tokens IS NULL
        OR array_ndims(p_tokens) <> 1
        OR cardinality(p_tokens) <> cardinality(p_documentos)
        OR (SELECT count(*) FROM unnest(p_tokens) AS token WHERE token IS NULL) > 0
    THEN
        RAISE EXCEPTION 'p_tokens must be the token of each of p_documentos' USING ERRCODE = '22023';
    END IF;
    IF array_ndims(p_referencias) <> 1 OR cardinality(p_referencias) <> cardinality(p_documentos) THEN
        RAISE EXCEPTION 'p_referencias must be the reference of each of p_documentos, or null' USING ERRCODE = '22023';
    END IF;
    PERFORM exigir_referencia(referencia)
    FROM unnest(p_referencias) AS referencia
    WHERE referencia IS NOT NULL;
END
$$;

COMMENT ON FUNCTION "public".exigir_lote IS
'Refuses a batch that makes no sense with 22023: more than 1000 documents, a null one, one twice, one without a token.';

CREATE OR REPLACE FUNCTION "public".exigir_motivo(p_motivo TEXT)
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = "public", pg_temp
AS $$
BEGIN
    IF p_motivo IS NULL OR p_motivo !~ '[^[:space:]]' THEN
        RAISE EXCEPTION 'p_motivo must give the reason' USING ERRCODE = '22023';
    END IF;
END
$$;

COMMENT ON FUNCTION "public".exigir_motivo IS
'Refuses a reason that is null or blank with 22023.';

-- A lease cannot be longer than an attempt may run.
CREATE OR REPLACE FUNCTION "public".exigir_pedido(p_worker TEXT, p_lote INTEGER, p_prazo INTERVAL)
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = "public", pg_temp
AS $$
BEGIN
    IF p_worker IS NULL OR p_worker !~ '[^[:space:]]' OR length(p_worker) > 200 THEN
        RAISE EXCEPTION 'p_worker must name the worker, in at most 200 characters' USING ERRCODE = '22023';
    END IF;
    PERFORM exigir_quantidade('p_lote', p_lote);
    -- Days and months are compared as 24 hours and 30 days, but added by the calendar: '1 month -30 days 1 second' may be a day.
    IF
        p_prazo IS NULL
        OR p_prazo <= INTERVAL '0'
        OR p_prazo > tempo_maximo()
        OR (extract(YEAR FROM p_prazo), extract(MONTH FROM p_prazo), extract(DAY FROM p_prazo)) <> (0, 0, 0)
    THEN
        RAISE EXCEPTION 'p_prazo must be hours, minutes and seconds, more than nothing and at most %, not %', tempo_maximo(), p_prazo
            USING ERRCODE = '22023';
    END IF;
END
$$;

COMMENT ON FUNCTION "public".exigir_pedido IS
'Refuses a request that makes no sense with 22023, before anything is changed.';

CREATE OR REPLACE FUNCTION "public".exigir_quantidade(p_nome TEXT, p_quantidade INTEGER)
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = "public", pg_temp
AS $$
BEGIN
    IF p_quantidade IS NULL OR p_quantidade NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION '% must be from 1 to 1000, not %', p_nome, p_quantidade USING ERRCODE = '22023';
    END IF;
END
$$;

COMMENT ON FUNCTION "public".exigir_quantidade IS
'Refuses a quantity that is not from 1 to 1000 with 22023; p_nome is its name in the message.';

CREATE OR REPLACE FUNCTION "public".exigir_quem(p_quem TEXT)
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = "public", pg_temp
AS $$
BEGIN
    IF p_quem IS NULL OR p_quem !~ '[^[:space:]]' OR length(p_quem) > 200 THEN
        RAISE EXCEPTION 'p_quem must say who does this, in at most 200 characters' USING ERRCODE = '22023';
    END IF;
END
$$;

COMMENT ON FUNCTION "public".exigir_quem IS
'Refuses a name that is null, blank or longer than 200 characters with 22023.';

-- The same reference may come again, another one may not: there is one result for each key of operation.
CREATE OR REPLACE FUNCTION "public".exigir_referencia(p_referencia TEXT, p_referencia_externa TEXT DEFAULT NULL)
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = "public", pg_temp
AS $$
BEGIN
    IF p_referencia IS NULL OR p_referencia !~ '[^[:space:]]' OR length(p_referencia) > 200 THEN
        RAISE EXCEPTION 'p_referencia must be the receiver''s reference of the result' USING ERRCODE = '22023';
    END IF;
    IF p_referencia <> p_referencia_externa THEN
        RAISE EXCEPTION 'p_referencia must be the reference that is known already, and no other' USING ERRCODE = '22023';
    END IF;
END
$$;

COMMENT ON FUNCTION "public".exigir_referencia IS
'Refuses a reference that is null, blank or longer than 200 characters, or other than one known already, with 22023.';

CREATE OR REPLACE FUNCTION "public".falhar(
    p_documento BIGINT, p_token BIGINT, p_categoria TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT, disponivel_em TIMESTAMPTZ)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = "public", pg_temp
AS $$
DECLARE
    v_posse posse;
    v_agora TIMESTAMPTZ;
BEGIN
    IF p_categoria IS NULL OR p_categoria NOT IN ('conteudo', 'sistemico', 'conexao', 'impasse') THEN
        RAISE EXCEPTION 'p_categoria must be conteudo, sistemico, conexao or impasse, not %', left(p_categoria, 50)
            USING ERRCODE = '22023';
    END IF;
    PERFORM exigir_motivo(p_motivo);
    v_posse := travar(p_documento, p_token, p_inquilino);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    v_agora := relogio();
    documento_id := p_documento;
    status := destino(v_posse.etapa, p_categoria = 'conteudo' OR v_posse.tentativas >= v_posse.max_tentativas);
    IF status = 'pendente' THEN
        disponivel_em := v_agora + recuo(v_posse.tentativas);
    END IF;
    versao := mudar(v_posse, status, v_posse.worker_id, 'falha ' || p_categoria, p_motivo, v_agora, p_categoria, disponivel_em);
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION "public".falhar IS
'Ends an attempt of a document in work under this token: to pendente, due after recuo, or, if attempts are used up or the '
'content is at fault, to the state that its stage demands (destino). Zero rows: it is not in work under it, and nothing was changed.';

-- Where a document leaves a state other than by a claim or in a batch: versao grows by one, with one row in auditoria.
CREATE OR REPLACE FUNCTION "public".mudar(
    p_posse "public".posse,
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
SET search_path = "public", pg_temp
AS $$
BEGIN
    UPDATE fila_documentos
    SET
        status = p_para,
        versao = p_posse.versao + 1,
        token_reserva = NULL, -- void: no write passes under it any more
        worker_id = CASE WHEN p_para <> 'pendente' THEN p_posse.worker_id END,
        reservado_ate = NULL,
        concluido_em = CASE WHEN p_para IN ('concluido', 'falhou') THEN p_agora END,
        -- A finished document has no error, even if its last attempt ended by a failure and its stage was as good as done.
        ultimo_erro = CASE WHEN p_para <> 'concluido' THEN resumir(p_erro) END,
        categoria_erro = CASE WHEN p_para <> 'concluido' THEN p_categoria END,
        disponivel_em = coalesce(p_disponivel_em, disponivel_em),
        etapa = p_posse.etapa,
        referencia_externa = p_posse.referencia_externa
    WHERE documento_id = p_posse.documento_id;
    INSERT INTO auditoria (
        inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando, categoria_erro
    )
    VALUES (
        p_posse.inquilino,
        p_posse.documento_id,
        p_posse.versao + 1,
        p_posse.status,
        p_para,
        p_posse.token_reserva,
        p_quem,
        resumir(p_por_que),
        p_agora,
        CASE WHEN p_posse.status = 'processando' THEN p_categoria END
    );
    RETURN p_posse.versao + 1;
END
$$;

COMMENT ON FUNCTION "public".mudar IS
'Changes the state of a locked document, and writes its row of auditoria.';

-- A command is no attempt: what the last attempt left as its error stays. An orphan's attempt ends here, as a crash.
CREATE OR REPLACE FUNCTION "public".mudar_por_operador(
    p_posse "public".posse, p_para TEXT, p_quem TEXT, p_motivo TEXT, p_disponivel_em TIMESTAMPTZ DEFAULT NULL
)
RETURNS BIGINT
LANGUAGE plpgsql
SET search_path = "public", pg_temp
AS $$
DECLARE
    v_erro TEXT := 'reserva vencida';
    v_categoria TEXT := 'queda';
BEGIN
    IF p_posse.status <> 'processando' THEN
        SELECT fila.ultimo_erro, fila.categoria_erro
        INTO v_erro, v_categoria
        FROM fila_documentos AS fila
        WHERE fila.documento_id = p_posse.documento_id;
    END IF;
    RETURN mudar(p_posse, p_para, p_quem, p_motivo, v_erro, relogio(), v_categoria, p_disponivel_em);
END
$$;

COMMENT ON FUNCTION "public".mudar_por_operador IS
'As mudar, by an operator''s command: the error of the last attempt stays, and an orphan''s attempt counts as a crash.';

CREATE OR REPLACE FUNCTION "public".pausar(
    p_documento BIGINT, p_versao BIGINT, p_quem TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = "public", pg_temp
AS $$
DECLARE
    v_posse posse := travar_para_operador(
        p_documento, p_versao, '{pendente,processando}', p_quem, p_motivo, p_inquilino
    );
BEGIN
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    versao := mudar_por_operador(v_posse, 'pausado', p_quem, p_motivo);
    documento_id := p_documento;
    status := 'pausado';
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION "public".pausar IS
'Takes a waiting or orphaned document out of work; an orphan''s token is void. Zero rows: it has moved on since p_versao, or a '
'worker holds a live lease on it.';

-- The delay before the next attempt: doubled each time up to five minutes, then a random share of the upper half, so that what
-- failed together does not come back together.
CREATE OR REPLACE FUNCTION "public".recuo(p_tentativas INTEGER)
RETURNS INTERVAL
LANGUAGE plpgsql
VOLATILE
SET search_path = "public", pg_temp
AS $$
BEGIN
    RETURN least(INTERVAL '1 second' * 2 ^ least(p_tentativas - 1, 20), INTERVAL '5 minutes') * (0.5 + random() / 2);
END
$$;

COMMENT ON FUNCTION "public".recuo IS
'The delay before the attempt after this one: doubled each time, at most five minutes, the upper half of it random.';

-- Only what is late, only so many at a time, only so many attempts, under a name, for a reason. No deadline promises nothing.
CREATE OR REPLACE FUNCTION "public".recuperar(
    p_quem TEXT,
    p_motivo TEXT DEFAULT 'reserva vencida',
    p_limite INTEGER DEFAULT 100,
    p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (
    documento_id BIGINT, status TEXT, versao BIGINT, tentativas INTEGER, worker_anterior TEXT, etapa TEXT
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = "public", pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_agora TIMESTAMPTZ := relogio();
    v_posse posse;
    v_disponivel_em TIMESTAMPTZ;
BEGIN
    PERFORM exigir_quem(p_quem);
    PERFORM exigir_quantidade('p_limite', p_limite);
    PERFORM exigir_motivo(p_motivo);
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
            fila.max_tentativas,
            fila.etapa,
            fila.referencia_externa
        FROM fila_documentos AS fila
        WHERE
            fila.status = 'processando'
            AND coalesce(fila.reservado_ate, '-infinity') < v_agora
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        ORDER BY fila.documento_id
        LIMIT p_limite
        FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        v_agora := relogio(); -- again: the look may have waited for a lock on the table
        documento_id := v_posse.documento_id;
        status := destino(v_posse.etapa, v_posse.tentativas >= v_posse.max_tentativas);
        v_disponivel_em := CASE WHEN status = 'pendente' THEN v_agora + recuo(v_posse.tentativas) END;
        versao := mudar(v_posse, status, p_quem, p_motivo, p_motivo, v_agora, 'queda', v_disponivel_em);
        tentativas := v_posse.tentativas;
        worker_anterior := v_posse.worker_id;
        etapa := v_posse.etapa;
        RETURN NEXT;
    END LOOP;
END
$$;

COMMENT ON FUNCTION "public".recuperar IS
'Takes up to p_limite late documents from their workers: to pendente, due after recuo, or after max_tentativas by their '
'stage (destino); their tokens are void. Zero rows: none is late and free.';

-- More attempts, never fewer behind it: tentativas, token and versao go on from where they are, and the stage and the key of
-- operation stay, so that the next worker asks the receiver before it calls.
CREATE OR REPLACE FUNCTION "public".reenfileirar(
    p_documento BIGINT,
    p_versao BIGINT,
    p_quem TEXT,
    p_motivo TEXT,
    p_mais_tentativas INTEGER DEFAULT 1,
    p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = "public", pg_temp
AS $$
DECLARE
    v_posse posse := travar_para_operador(p_documento, p_versao, '{falhou,conciliacao}', p_quem, p_motivo, p_inquilino);
BEGIN
    IF p_mais_tentativas IS NULL OR p_mais_tentativas NOT BETWEEN 1 AND 100 THEN
        RAISE EXCEPTION 'p_mais_tentativas must be from 1 to 100, not %', p_mais_tentativas USING ERRCODE = '22023';
    END IF;
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    UPDATE fila_documentos AS fila
    SET max_tentativas = greatest(fila.max_tentativas, fila.tentativas + p_mais_tentativas)
    WHERE fila.documento_id = p_documento;
    versao := mudar_por_operador(v_posse, 'pendente', p_quem, p_motivo, relogio());
    documento_id := p_documento;
    status := 'pendente';
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION "public".reenfileirar IS
'Gives a failed or unreconciled document more attempts. Zero rows: it has moved on since p_versao, or is in no such state.';

-- Written before the call (desconhecido), when its result is known (obtido, with the receiver's reference) and before the
-- outcome is confirmed (confirmando). Back to nao_chamado only where the receiver said that it knows nothing of the key.
CREATE OR REPLACE FUNCTION "public".registrar_etapa(
    p_documento BIGINT,
    p_token BIGINT,
    p_etapa TEXT,
    p_referencia TEXT DEFAULT NULL,
    p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, etapa TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = "public", pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_posse posse := travar(p_documento, p_token, p_inquilino);
    v_agora TIMESTAMPTZ;
BEGIN
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    IF p_etapa IS NULL OR (v_posse.etapa, p_etapa) NOT IN (
        ('nao_chamado', 'nao_chamado'), -- sent again, since the answer was lost
        ('nao_chamado', 'desconhecido'),
        ('desconhecido', 'desconhecido'),
        ('desconhecido', 'nao_chamado'),
        ('desconhecido', 'obtido'),
        ('obtido', 'obtido'),
        ('obtido', 'confirmando'),
        ('confirmando', 'confirmando')
    ) THEN
        RAISE EXCEPTION 'document %: from stage % it does not go to %', p_documento, v_posse.etapa, left(p_etapa, 50)
            USING ERRCODE = '22023';
    END IF;
    IF p_etapa = 'obtido' OR p_referencia IS NOT NULL THEN
        PERFORM exigir_referencia(p_referencia, v_posse.referencia_externa);
    END IF;
    IF p_etapa IN ('nao_chamado', 'desconhecido') AND p_referencia IS NOT NULL THEN
        RAISE EXCEPTION 'document %: at stage % there is no result, so p_referencia must be null', p_documento, p_etapa
            USING ERRCODE = '22023';
    END IF;
    v_agora := relogio();
    INSERT INTO auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
    VALUES (
        v_posse.inquilino,
        p_documento,
        v_posse.versao + 1,
        v_posse.status,
        v_posse.status,
        p_token,
        v_posse.worker_id,
        'etapa ' || p_etapa,
        v_agora
    );
    RETURN QUERY
    UPDATE fila_documentos AS fila
    SET
        etapa = p_etapa,
        referencia_externa = coalesce(p_referencia, fila.referencia_externa),
        versao = fila.versao + 1
    WHERE fila.documento_id = p_documento
    RETURNING fila.documento_id, fila.etapa, fila.versao;
END
$$;

COMMENT ON FUNCTION "public".registrar_etapa IS
'Records where the attempt stands towards the outside world. Zero rows: the document is not in work under this token, and '
'the worker must not call.';

CREATE OR REPLACE FUNCTION "public".relogio()
RETURNS TIMESTAMPTZ
LANGUAGE plpgsql
STABLE
SET search_path = "public", pg_temp
AS $$
BEGIN
    RETURN clock_timestamp();
END
$$;

COMMENT ON FUNCTION "public".relogio IS
'The one clock of the protocol, the database''s. A function reads it once, after the lock wherever it may have waited for one.';

-- A renewal never shortens. reservado_ate is in no index, so where its page has room a renewal stays on it and touches no index (a
-- heap-only update).
CREATE OR REPLACE FUNCTION "public".renovar(
    p_documento BIGINT, p_token BIGINT, p_prazo INTERVAL DEFAULT '30 seconds', p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, reservado_ate TIMESTAMPTZ)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = "public", pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_posse posse;
    v_agora TIMESTAMPTZ;
    v_fim TIMESTAMPTZ;
BEGIN
    PERFORM exigir_pedido('renovar', 1, p_prazo);
    v_posse := travar(p_documento, p_token, p_inquilino);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    v_agora := relogio();
    v_fim := v_posse.iniciado_em + tempo_maximo();
    IF v_agora >= v_fim THEN
        RETURN;
    END IF;
    RETURN QUERY
    UPDATE fila_documentos AS fila
    SET reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, v_fim)), renovacoes = fila.renovacoes + 1
    WHERE fila.documento_id = p_documento
    RETURNING fila.documento_id, fila.reservado_ate;
END
$$;

COMMENT ON FUNCTION "public".renovar IS
'Moves the deadline of a document in work under this token to p_prazo from now, never to an earlier one, at most to tempo_maximo() '
'from its claim. Zero rows: the worker must stop.';

-- The one place that mints tokens and opens an attempt.
CREATE OR REPLACE FUNCTION "public".reservar(
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
    chave_operacao TEXT,
    etapa TEXT,
    referencia_externa TEXT,
    conteudo_xml XML
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = "public", pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_agora TIMESTAMPTZ;
    v_escolhidos BIGINT[];
BEGIN
    PERFORM exigir_pedido(p_worker, p_lote, p_prazo);
    IF p_inquilino IS NULL THEN
        v_escolhidos := ARRAY(
            SELECT documento_id
            FROM fila_documentos
            WHERE status = 'pendente' AND disponivel_em <= (SELECT relogio())
            ORDER BY disponivel_em, documento_id
            FOR NO KEY UPDATE SKIP LOCKED
            LIMIT p_lote
        );
    ELSE
        v_escolhidos := ARRAY(
            SELECT documento_id
            FROM fila_documentos
            WHERE status = 'pendente' AND inquilino = p_inquilino AND disponivel_em <= (SELECT relogio())
            ORDER BY disponivel_em, documento_id
            FOR NO KEY UPDATE SKIP LOCKED
            LIMIT p_lote
        );
    END IF;
    IF cardinality(v_escolhidos) = 0 THEN
        RETURN;
    END IF;
    v_agora := relogio();
    UPDATE fila_documentos AS fila
    SET
        status = 'processando',
        tentativas = fila.tentativas + 1,
        versao = fila.versao + 1,
        token_reserva = nextval('token_reserva_seq'),
        worker_id = p_worker,
        reservado_ate = v_agora + p_prazo,
        iniciado_em = v_agora,
        concluido_em = NULL,
        ultimo_erro = NULL,
        categoria_erro = NULL
    WHERE fila.documento_id = ANY(v_escolhidos);
    INSERT INTO auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
    SELECT
        fila.inquilino, fila.documento_id, fila.versao, 'pendente', 'processando', fila.token_reserva, p_worker, 'reserva', v_agora
    FROM fila_documentos AS fila
    WHERE fila.documento_id = ANY(v_escolhidos);
    RETURN QUERY
    SELECT
        fila.documento_id,
        fila.inquilino,
        fila.chave,
        fila.token_reserva,
        fila.versao,
        fila.tentativas,
        fila.reservado_ate,
        fila.chave_operacao,
        fila.etapa,
        fila.referencia_externa,
        fila.conteudo_xml
    FROM fila_documentos AS fila
    WHERE fila.documento_id = ANY(v_escolhidos)
    ORDER BY fila.disponivel_em, fila.documento_id;
END
$$;

COMMENT ON FUNCTION "public".reservar IS
'Claims up to p_lote due documents, the longest due first, for p_prazo, each under a new token, with its key of operation '
'and the stage an earlier attempt left. Zero rows: nothing is free now (locked, in work or not yet due is not free).';

-- A reason as it may be kept and logged: one short line, without what may be the document's and without credentials. It is the
-- last line of defence: a worker writes a reason of its own, with nothing quoted in it. No backslash in a plain string: what it means
-- is a setting of the session.
CREATE OR REPLACE FUNCTION "public".resumir(p_motivo TEXT)
RETURNS TEXT
LANGUAGE plpgsql
IMMUTABLE
SET search_path = "public", pg_temp
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

COMMENT ON FUNCTION "public".resumir IS
'A reason cut to its first line and 200 characters. It takes out elements, quoted words, credentials and long numbers as it '
'recognizes them, and will miss some: write reasons that hold none.';

CREATE OR REPLACE FUNCTION "public".retomar(
    p_documento BIGINT, p_versao BIGINT, p_quem TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = "public", pg_temp
AS $$
DECLARE
    v_posse posse := travar_para_operador(p_documento, p_versao, '{pausado}', p_quem, p_motivo, p_inquilino);
    v_disponivel_em TIMESTAMPTZ;
BEGIN
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    -- The pause is no waiting; and what was put off before it stays put off.
    SELECT greatest(fila.disponivel_em, relogio())
    INTO v_disponivel_em
    FROM fila_documentos AS fila
    WHERE fila.documento_id = p_documento;
    -- The pause may have come in the last attempt: then its stage decides, as at any end of attempts.
    status := destino(v_posse.etapa, v_posse.tentativas >= v_posse.max_tentativas);
    versao := mudar_por_operador(v_posse, status, p_quem, p_motivo, v_disponivel_em);
    documento_id := p_documento;
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION "public".retomar IS
'Gives a paused document back to the queue, due now or when it was due anyway, or ends it by its stage if its attempts are used '
'up. Zero rows: it has moved on since p_versao, or is not paused.';

-- Replace it to set another maximum.
CREATE OR REPLACE FUNCTION "public".tempo_maximo()
RETURNS INTERVAL
LANGUAGE plpgsql
IMMUTABLE
SET search_path = "public", pg_temp
AS $$
BEGIN
    RETURN INTERVAL '15 minutes';
END
$$;

COMMENT ON FUNCTION "public".tempo_maximo IS
'How long one attempt may run, renewals included.';

-- The one guard: the document is in work under this token. The worker's name and the number of the attempt prove nothing.
-- Gives the document back, locked; null if the guard does not let it pass.
CREATE OR REPLACE FUNCTION "public".travar(p_documento BIGINT, p_token BIGINT, p_inquilino TEXT)
RETURNS "public".posse
LANGUAGE plpgsql
SET search_path = "public", pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_posse posse;
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
        fila.max_tentativas,
        fila.etapa,
        fila.referencia_externa
    INTO v_posse
    FROM fila_documentos AS fila
    WHERE
        fila.documento_id = p_documento
        AND fila.status = 'processando'
        AND fila.token_reserva = p_token
        AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
    FOR NO KEY UPDATE;
    RETURN v_posse;
END
$$;

COMMENT ON FUNCTION "public".travar IS
'Locks the document and gives it back if it is in work under this token, else null; the guard of every outcome of one document.';

-- The guard of the operators' commands: the document is as they saw it, in a state the command is for, and in no live worker's
-- hands. Gives it back, locked; null if the guard does not let it pass.
CREATE OR REPLACE FUNCTION "public".travar_para_operador(
    p_documento BIGINT, p_versao BIGINT, p_de TEXT[], p_quem TEXT, p_motivo TEXT, p_inquilino TEXT
)
RETURNS "public".posse
LANGUAGE plpgsql
SET search_path = "public", pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_posse posse;
    v_reservado_ate TIMESTAMPTZ;
BEGIN
    PERFORM exigir_quem(p_quem);
    PERFORM exigir_motivo(p_motivo);
    -- Look first: a command that is refused locks nothing.
    IF NOT EXISTS (
        SELECT 1
        FROM fila_documentos AS fila
        WHERE
            fila.documento_id = p_documento
            AND fila.versao = p_versao
            AND fila.status = ANY(p_de)
            AND (fila.status <> 'processando' OR coalesce(fila.reservado_ate, '-infinity') < relogio())
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
    ) THEN
        RETURN NULL;
    END IF;
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
            fila.max_tentativas,
            fila.etapa,
            fila.referencia_externa
        INTO v_posse
        FROM fila_documentos AS fila
        WHERE
            fila.documento_id = p_documento
            AND fila.versao = p_versao
            AND fila.status = ANY(p_de)
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        FOR NO KEY UPDATE;
        -- Read after the lock: a renewal may have moved it, and a renewal does not change versao.
        IF v_posse.status = 'processando' THEN
            SELECT fila.reservado_ate INTO v_reservado_ate FROM fila_documentos AS fila WHERE fila.documento_id = p_documento;
        END IF;
        IF v_posse.documento_id IS NULL OR v_reservado_ate >= relogio() THEN
            RAISE EXCEPTION 'moved on' USING ERRCODE = 'P0002';
        END IF;
    EXCEPTION
        -- What moved on while this waited is locked by now: the end of the block gives the lock back.
        WHEN no_data_found THEN
            RETURN NULL;
    END;
    RETURN v_posse;
END
$$;

COMMENT ON FUNCTION "public".travar_para_operador IS
'Locks the document and gives it back if it is as the operator saw it and in no live worker''s hands, else null and locks '
'nothing; the one guard of the operators.';

CREATE OR REPLACE VIEW "public".falhas_por_categoria AS
SELECT
    categoria_erro,
    count(*) AS falhas,
    count(*) FILTER (WHERE para = 'pendente') AS a_repetir,
    count(*) FILTER (WHERE para IN ('falhou', 'conciliacao')) AS definitivas,
    max(quando) AS ultima
FROM "public".auditoria
WHERE categoria_erro IS NOT NULL
GROUP BY categoria_erro;

COMMENT ON VIEW "public".falhas_por_categoria IS
'One row for each class of failure: attempts that ended so, how many were put back, how many ended their document without a '
'result, and when the last one was. Zero rows: none has failed.';

CREATE OR REPLACE VIEW "public".situacao AS
WITH hora AS MATERIALIZED (
    SELECT "public".relogio() AS agora
)

SELECT
    count(*) FILTER (WHERE fila.status = 'pendente' AND fila.disponivel_em <= hora.agora) AS aguardando,
    count(*) FILTER (WHERE fila.status = 'pendente' AND fila.disponivel_em > hora.agora) AS adiados,
    count(*) FILTER (WHERE fila.status = 'processando' AND fila.reservado_ate >= hora.agora) AS executando,
    count(*) FILTER (
        WHERE fila.status = 'processando' AND coalesce(fila.reservado_ate, '-infinity') < hora.agora
    ) AS orfaos,
    count(*) FILTER (WHERE fila.status = 'pausado') AS pausados,
    count(*) FILTER (WHERE fila.status = 'conciliacao') AS em_conciliacao,
    count(*) FILTER (WHERE fila.status = 'falhou') AS falhos,
    count(*) FILTER (WHERE fila.status = 'concluido') AS concluidos,
    count(*) FILTER (WHERE fila.status = 'pendente' AND fila.tentativas > 0) AS repetindo,
    max(hora.agora - fila.disponivel_em) FILTER (
        WHERE fila.status = 'pendente' AND fila.disponivel_em <= hora.agora
    ) AS maior_espera,
    max(hora.agora - fila.reservado_ate) FILTER (
        WHERE fila.status = 'processando' AND fila.reservado_ate < hora.agora
    ) AS maior_atraso,
    max(
        coalesce(
            (
                SELECT min(etapa.quando)
                FROM "public".auditoria AS etapa
                WHERE
                    etapa.documento_id = fila.documento_id
                    AND etapa.token_reserva = fila.token_reserva
                    AND etapa.de = etapa.para
            ),
            hora.agora
        ) - fila.iniciado_em
    ) FILTER (
        WHERE fila.status = 'processando' AND fila.reservado_ate >= hora.agora
    ) AS maior_demora_para_iniciar,
    coalesce(sum(fila.renovacoes), 0) AS renovacoes,
    (
        SELECT count(*)
        FROM "public".auditoria AS queda
        WHERE queda.categoria_erro = 'queda'
    ) AS recuperacoes
FROM "public".fila_documentos AS fila
CROSS JOIN hora;

COMMENT ON VIEW "public".situacao IS
'One row: how many documents are due, put off, in work, orphaned (late), paused, for people, failed, finished; how many of those '
'that wait had an attempt; how long the first due one waits, how late the latest orphan is, how long one in work took or has '
'been taking from its claim to its first stage; how many renewals and take-overs there were.';

-- By this it is known again.
COMMENT ON SEQUENCE "public".token_reserva_seq IS 'document queue, structure 02ad4f81';

-- Functions are executable by everyone until that is revoked.
REVOKE ALL ON FUNCTION
    "public".conciliar,
    "public".concluir,
    "public".concluir_lote,
    "public".confirmar,
    "public".destino,
    "public".enfileirar,
    "public".examinar,
    "public".exigir_documento,
    "public".exigir_lote,
    "public".exigir_motivo,
    "public".exigir_pedido,
    "public".exigir_quantidade,
    "public".exigir_quem,
    "public".exigir_referencia,
    "public".falhar,
    "public".mudar,
    "public".mudar_por_operador,
    "public".pausar,
    "public".recuo,
    "public".recuperar,
    "public".reenfileirar,
    "public".registrar_etapa,
    "public".relogio,
    "public".renovar,
    "public".reservar,
    "public".resumir,
    "public".retomar,
    "public".tempo_maximo,
    "public".travar,
    "public".travar_para_operador
FROM public;

COMMIT;

-- Alerts: sed -n 's/^--? //p' protocol.sql | psql -X -v ON_ERROR_STOP=1
--? -- Leases end, and no recovery takes their documents: is anything calling recuperar?
--? SELECT
--?     count(*) AS orfaos,
--?     "public".relogio() - min(reservado_ate) AS maior_atraso
--? FROM "public".fila_documentos
--? WHERE
--?     status = 'processando'
--?     AND coalesce(reservado_ate, '-infinity') < (SELECT "public".relogio()) - INTERVAL '2 minutes'
--? HAVING count(*) > 0;
--?
--? -- What is due waits, and no worker claims it: too few workers, or none?
--? SELECT "public".relogio() - min(disponivel_em) AS maior_espera
--? FROM "public".fila_documentos
--? WHERE status = 'pendente'
--? HAVING min(disponivel_em) < "public".relogio() - INTERVAL '10 minutes';
--?
--? -- People are needed: what became of these calls is unknown. It reads the whole queue, so now and then is enough.
--? SELECT
--?     count(*) AS em_conciliacao,
--?     min(documento_id) AS documento_id
--? FROM "public".fila_documentos
--? WHERE status = 'conciliacao'
--? HAVING count(*) > 0;

-- Uninstall: sed -n 's/^--- //p' protocol.sql | psql -X -v ON_ERROR_STOP=1
--- BEGIN;
--- DO $guard$
--- BEGIN
---     IF obj_description(to_regclass('"public".token_reserva_seq'), 'pg_class') IS DISTINCT FROM 'document queue, structure 02ad4f81' THEN
---         RAISE EXCEPTION 'what this file installs is not in schema "public"; nothing was dropped';
---     END IF;
--- END
--- $guard$;
--- DROP VIEW IF EXISTS "public".falhas_por_categoria;
--- DROP VIEW IF EXISTS "public".situacao;
--- DROP FUNCTION IF EXISTS
---     "public".conciliar,
---     "public".concluir,
---     "public".concluir_lote,
---     "public".confirmar,
---     "public".destino,
---     "public".enfileirar,
---     "public".examinar,
---     "public".exigir_documento,
---     "public".exigir_lote,
---     "public".exigir_motivo,
---     "public".exigir_pedido,
---     "public".exigir_quantidade,
---     "public".exigir_quem,
---     "public".exigir_referencia,
---     "public".falhar,
---     "public".mudar,
---     "public".mudar_por_operador,
---     "public".pausar,
---     "public".recuo,
---     "public".recuperar,
---     "public".reenfileirar,
---     "public".registrar_etapa,
---     "public".relogio,
---     "public".renovar,
---     "public".reservar,
---     "public".resumir,
---     "public".retomar,
---     "public".tempo_maximo,
---     "public".travar,
---     "public".travar_para_operador;
--- DROP TYPE IF EXISTS "public".posse;
--- DROP TABLE IF EXISTS "public".fila_documentos;
--- DROP TABLE IF EXISTS "public".auditoria;
--- DROP SEQUENCE IF EXISTS "public".token_reserva_seq;
--- DO $schema$
--- BEGIN
---     IF obj_description(to_regnamespace('"public"'), 'pg_namespace') IS DISTINCT FROM 'made for the document queue' THEN
---         RAISE NOTICE 'schema "public" stays, with all rights on it: it was here before';
---     ELSE
---         DROP SCHEMA "public";
---     END IF;
--- EXCEPTION WHEN dependent_objects_still_exist THEN
---     RAISE NOTICE 'schema "public" stays, with all rights on it: it holds something else';
--- END
--- $schema$;
--- COMMIT;
