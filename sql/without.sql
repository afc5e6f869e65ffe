-- without: take one defence out of the lab's protocol, and put it back at the second call. Generated: ./lab generate
-- @pt Tira uma defesa do protocolo do laboratório e a devolve na segunda chamada.
--
-- Needs  sql/all.sql
-- Run    psql -X -v without=token -f sql/without.sql          (one of: etapa linhas reserva token)
-- See    what is off now. A scenario of ./lab walk rebuilds the queue and puts it back: try it in psql (docs/defences.md).
-- @pt Precisa de sql/all.sql. Escolha uma: etapa linhas reserva token.
-- @pt Veja o que está desligado. Um cenário de ./lab walk recria a fila e a devolve: experimente no psql (docs/pt/defences.md).

\set ON_ERROR_STOP on
\setenv PSQL_PAGER ''
SET client_min_messages = warning;
SET "lab.de" = '10';
SET "lab.para" = '99';
\ir require_state.sql

\if :{?without}
\else
\set without ''
\endif
SELECT
    :'without' = ANY('{etapa,linhas,reserva,token}') AS conhecida,
    coalesce(current_setting('lab.lang', TRUE), '') LIKE 'pt%' AS em_portugues
\gset
\if :conhecida
\else
\if :em_portugues
\echo 'Qual delas? psql -X -v without=NOME -f sql/without.sql, com uma destas: etapa linhas reserva token'
\else
\echo 'Which one? psql -X -v without=NAME -f sql/without.sql, with one of: etapa linhas reserva token'
\endif
\quit
\endif

SELECT
    :'without' = 'etapa' AS esta,
    (
        SELECT count(*) > 0
        FROM pg_proc
        WHERE pronamespace = 'sql_semana_12'::REGNAMESPACE AND prosrc LIKE '%-- without etapa%'
    ) AS desligada
\gset
\if :esta
\if :desligada

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
DECLARE
    -- After a restore the audit may be ahead of the queue. No version is written twice.
    v_versao BIGINT := 1 + greatest(
        p_posse.versao,
        (
            SELECT max(versao)
            FROM sql_semana_12.auditoria
            WHERE inquilino = p_posse.inquilino AND documento_id = p_posse.documento_id
        )
    );
BEGIN
    IF v_versao <> p_posse.versao + 1 THEN
        RAISE WARNING 'document %: auditoria was ahead of it; its next version is %, not %',
            p_posse.documento_id, v_versao, p_posse.versao + 1;
    END IF;
    UPDATE sql_semana_12.fila_documentos
    SET
        status = p_para,
        versao = v_versao,
        token_reserva = NULL, -- void: no write passes under it any more
        worker_id = CASE WHEN p_para <> 'pendente' THEN p_posse.worker_id END,
        reservado_ate = NULL,
        concluido_em = CASE WHEN p_para IN ('concluido', 'falhou', 'cancelado') THEN p_agora END,
        -- A finished document has no error, even if its last attempt ended by a failure and its stage was as good as done.
        ultimo_erro = CASE WHEN p_para <> 'concluido' THEN sql_semana_12.resumir(p_erro) END,
        categoria_erro = CASE WHEN p_para <> 'concluido' THEN p_categoria END,
        disponivel_em = coalesce(p_disponivel_em, disponivel_em),
        etapa = p_posse.etapa,
        referencia_externa = p_posse.referencia_externa
    WHERE inquilino = p_posse.inquilino AND documento_id = p_posse.documento_id;
    INSERT INTO sql_semana_12.auditoria (
        inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando, categoria_erro
    )
    VALUES (
        p_posse.inquilino,
        p_posse.documento_id,
        v_versao,
        p_posse.status,
        p_para,
        p_posse.token_reserva,
        p_quem,
        sql_semana_12.resumir(p_por_que),
        p_agora,
        CASE WHEN p_posse.status = 'processando' THEN p_categoria END
    );
    RETURN v_versao;
END
$$;

\if :em_portugues
\echo 'etapa está ligada de novo.'
\else
\echo 'etapa is on again.'
\endif
\else

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
AS $$ -- without etapa
DECLARE
    -- After a restore the audit may be ahead of the queue. No version is written twice.
    v_versao BIGINT := 1 + greatest(
        p_posse.versao,
        (
            SELECT max(versao)
            FROM sql_semana_12.auditoria
            WHERE inquilino = p_posse.inquilino AND documento_id = p_posse.documento_id
        )
    );
BEGIN
    IF v_versao <> p_posse.versao + 1 THEN
        RAISE WARNING 'document %: auditoria was ahead of it; its next version is %, not %',
            p_posse.documento_id, v_versao, p_posse.versao + 1;
    END IF;
    UPDATE sql_semana_12.fila_documentos
    SET
        status = p_para,
        versao = v_versao,
        token_reserva = NULL, -- void: no write passes under it any more
        worker_id = CASE WHEN p_para <> 'pendente' THEN p_posse.worker_id END,
        reservado_ate = NULL,
        concluido_em = CASE WHEN p_para IN ('concluido', 'falhou', 'cancelado') THEN p_agora END,
        -- A finished document has no error, even if its last attempt ended by a failure and its stage was as good as done.
        ultimo_erro = CASE WHEN p_para <> 'concluido' THEN sql_semana_12.resumir(p_erro) END,
        categoria_erro = CASE WHEN p_para <> 'concluido' THEN p_categoria END,
        disponivel_em = coalesce(p_disponivel_em, disponivel_em),
        etapa = CASE WHEN p_para = 'pendente' THEN 'nao_chamado' ELSE p_posse.etapa END,
        referencia_externa = p_posse.referencia_externa
    WHERE inquilino = p_posse.inquilino AND documento_id = p_posse.documento_id;
    INSERT INTO sql_semana_12.auditoria (
        inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando, categoria_erro
    )
    VALUES (
        p_posse.inquilino,
        p_posse.documento_id,
        v_versao,
        p_posse.status,
        p_para,
        p_posse.token_reserva,
        p_quem,
        sql_semana_12.resumir(p_por_que),
        p_agora,
        CASE WHEN p_posse.status = 'processando' THEN p_categoria END
    );
    RETURN v_versao;
END
$$;

\if :em_portugues
\echo 'etapa está desligada. O mesmo comando a devolve.'
\else
\echo 'etapa is off. The same command puts it back.'
\endif
\endif
\endif

SELECT
    :'without' = 'linhas' AS esta,
    (
        SELECT count(*) > 0
        FROM pg_proc
        WHERE pronamespace = 'sql_semana_12'::REGNAMESPACE AND prosrc LIKE '%-- without linhas%'
    ) AS desligada
\gset
\if :esta
\if :desligada

CREATE OR REPLACE FUNCTION sql_semana_12.registrar_etapa(
    p_documento BIGINT,
    p_token BIGINT,
    p_etapa TEXT,
    p_referencia TEXT DEFAULT NULL,
    p_inquilino TEXT DEFAULT NULL,
    p_prazo INTERVAL DEFAULT '30 seconds',
    p_chamada_basta BOOLEAN DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, etapa TEXT, versao BIGINT, reservado_ate TIMESTAMPTZ)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_posse sql_semana_12.posse;
    v_agora TIMESTAMPTZ;
    v_fim TIMESTAMPTZ;
BEGIN
    PERFORM sql_semana_12.exigir_pedido('etapa', 1, p_prazo);
    v_posse := sql_semana_12.travar(p_documento, p_token, p_inquilino);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    IF p_etapa IS NULL OR (v_posse.etapa, p_etapa) NOT IN (
        ('nao_chamado', 'nao_chamado'), -- sent again, since the answer was lost
        ('nao_chamado', 'desconhecido'),
        ('nao_chamado', 'obtido'), -- what said desconhecido was lost with its server
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
        PERFORM sql_semana_12.exigir_referencia(p_referencia, v_posse.referencia_externa);
    END IF;
    IF p_etapa IN ('nao_chamado', 'desconhecido') AND p_referencia IS NOT NULL THEN
        RAISE EXCEPTION 'document %: at stage % there is no result, so p_referencia must be null', p_documento, p_etapa
            USING ERRCODE = '22023';
    END IF;
    v_agora := sql_semana_12.relogio();
    v_fim := v_posse.iniciado_em + sql_semana_12.tempo_maximo();
    IF p_etapa IN ('desconhecido', 'confirmando') AND v_agora >= v_fim THEN
        RETURN;
    END IF;
    INSERT INTO sql_semana_12.auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
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
    UPDATE sql_semana_12.fila_documentos AS fila
    SET
        etapa = p_etapa,
        referencia_externa = coalesce(p_referencia, fila.referencia_externa),
        versao = fila.versao + 1,
        reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, v_fim)),
        chamada_basta = coalesce(p_chamada_basta, fila.chamada_basta)
    WHERE fila.inquilino = v_posse.inquilino AND fila.documento_id = v_posse.documento_id
    RETURNING fila.documento_id, fila.etapa, fila.versao, fila.reservado_ate;
END
$$;

\if :em_portugues
\echo 'linhas está ligada de novo.'
\else
\echo 'linhas is on again.'
\endif
\else

CREATE OR REPLACE FUNCTION sql_semana_12.registrar_etapa(
    p_documento BIGINT,
    p_token BIGINT,
    p_etapa TEXT,
    p_referencia TEXT DEFAULT NULL,
    p_inquilino TEXT DEFAULT NULL,
    p_prazo INTERVAL DEFAULT '30 seconds',
    p_chamada_basta BOOLEAN DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, etapa TEXT, versao BIGINT, reservado_ate TIMESTAMPTZ)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$ -- without linhas
#variable_conflict use_column
DECLARE
    v_posse sql_semana_12.posse;
    v_agora TIMESTAMPTZ;
    v_fim TIMESTAMPTZ;
BEGIN
    PERFORM sql_semana_12.exigir_pedido('etapa', 1, p_prazo);
    v_posse := sql_semana_12.travar(p_documento, p_token, p_inquilino);
    IF v_posse.documento_id IS NULL THEN
        RETURN QUERY SELECT p_documento, p_etapa, 0::BIGINT, sql_semana_12.relogio(); RETURN;
    END IF;
    IF p_etapa IS NULL OR (v_posse.etapa, p_etapa) NOT IN (
        ('nao_chamado', 'nao_chamado'), -- sent again, since the answer was lost
        ('nao_chamado', 'desconhecido'),
        ('nao_chamado', 'obtido'), -- what said desconhecido was lost with its server
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
        PERFORM sql_semana_12.exigir_referencia(p_referencia, v_posse.referencia_externa);
    END IF;
    IF p_etapa IN ('nao_chamado', 'desconhecido') AND p_referencia IS NOT NULL THEN
        RAISE EXCEPTION 'document %: at stage % there is no result, so p_referencia must be null', p_documento, p_etapa
            USING ERRCODE = '22023';
    END IF;
    v_agora := sql_semana_12.relogio();
    v_fim := v_posse.iniciado_em + sql_semana_12.tempo_maximo();
    IF p_etapa IN ('desconhecido', 'confirmando') AND v_agora >= v_fim THEN
        RETURN;
    END IF;
    INSERT INTO sql_semana_12.auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
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
    UPDATE sql_semana_12.fila_documentos AS fila
    SET
        etapa = p_etapa,
        referencia_externa = coalesce(p_referencia, fila.referencia_externa),
        versao = fila.versao + 1,
        reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, v_fim)),
        chamada_basta = coalesce(p_chamada_basta, fila.chamada_basta)
    WHERE fila.inquilino = v_posse.inquilino AND fila.documento_id = v_posse.documento_id
    RETURNING fila.documento_id, fila.etapa, fila.versao, fila.reservado_ate;
END
$$;

\if :em_portugues
\echo 'linhas está desligada. O mesmo comando a devolve.'
\else
\echo 'linhas is off. The same command puts it back.'
\endif
\endif
\endif

SELECT
    :'without' = 'reserva' AS esta,
    (
        SELECT count(*) > 0
        FROM pg_proc
        WHERE pronamespace = 'sql_semana_12'::REGNAMESPACE AND prosrc LIKE '%-- without reserva%'
    ) AS desligada
\gset
\if :esta
\if :desligada

CREATE OR REPLACE FUNCTION sql_semana_12.recuperar(
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
            fila.max_tentativas,
            fila.etapa,
            fila.referencia_externa,
            fila.chamada_basta
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
        status := sql_semana_12.destino(v_posse.etapa, v_posse.tentativas >= v_posse.max_tentativas, v_posse.chamada_basta);
        v_disponivel_em := CASE WHEN status = 'pendente' THEN v_agora + sql_semana_12.recuo(v_posse.tentativas) END;
        versao := sql_semana_12.mudar(v_posse, status, p_quem, p_motivo, p_motivo, v_agora, 'queda', v_disponivel_em);
        tentativas := v_posse.tentativas;
        worker_anterior := v_posse.worker_id;
        etapa := v_posse.etapa;
        RETURN NEXT;
    END LOOP;
END
$$;

\if :em_portugues
\echo 'reserva está ligada de novo.'
\else
\echo 'reserva is on again.'
\endif
\else

CREATE OR REPLACE FUNCTION sql_semana_12.recuperar(
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
SET search_path = pg_catalog, pg_temp
AS $$ -- without reserva
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
            fila.max_tentativas,
            fila.etapa,
            fila.referencia_externa,
            fila.chamada_basta
        FROM sql_semana_12.fila_documentos AS fila
        WHERE
            fila.status = 'processando'
            AND FALSE
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        ORDER BY fila.documento_id
        LIMIT p_limite
        FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        v_agora := sql_semana_12.relogio(); -- again: the look may have waited for a lock on the table
        documento_id := v_posse.documento_id;
        status := sql_semana_12.destino(v_posse.etapa, v_posse.tentativas >= v_posse.max_tentativas, v_posse.chamada_basta);
        v_disponivel_em := CASE WHEN status = 'pendente' THEN v_agora + sql_semana_12.recuo(v_posse.tentativas) END;
        versao := sql_semana_12.mudar(v_posse, status, p_quem, p_motivo, p_motivo, v_agora, 'queda', v_disponivel_em);
        tentativas := v_posse.tentativas;
        worker_anterior := v_posse.worker_id;
        etapa := v_posse.etapa;
        RETURN NEXT;
    END LOOP;
END
$$;

\if :em_portugues
\echo 'reserva está desligada. O mesmo comando a devolve.'
\else
\echo 'reserva is off. The same command puts it back.'
\endif
\endif
\endif

SELECT
    :'without' = 'token' AS esta,
    (
        SELECT count(*) > 0
        FROM pg_proc
        WHERE pronamespace = 'sql_semana_12'::REGNAMESPACE AND prosrc LIKE '%-- without token%'
    ) AS desligada
\gset
\if :esta
\if :desligada

CREATE OR REPLACE FUNCTION sql_semana_12.concluir_lote(
    p_documentos BIGINT[], p_tokens BIGINT[], p_referencias TEXT[] DEFAULT NULL, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_inquilinos TEXT[];
    v_travados BIGINT[];
    v_versoes BIGINT[];
    v_tokens BIGINT[];
    v_workers TEXT[];
    v_referencias TEXT[];
    v_sem_resultado BIGINT;
    v_outro_resultado BIGINT;
    v_agora TIMESTAMPTZ;
BEGIN
    PERFORM sql_semana_12.exigir_lote(p_documentos, p_tokens, p_referencias);
    SELECT
        array_agg(inquilino),
        array_agg(documento_id),
        array_agg(versao + 1),
        array_agg(token_reserva),
        array_agg(worker_id),
        array_agg(coalesce(p_referencia, referencia_externa)),
        min(documento_id) FILTER (WHERE etapa = 'desconhecido' AND coalesce(p_referencia, referencia_externa) IS NULL),
        min(documento_id) FILTER (WHERE p_referencia <> referencia_externa)
    INTO v_inquilinos, v_travados, v_versoes, v_tokens, v_workers, v_referencias, v_sem_resultado, v_outro_resultado
    FROM (
        SELECT p_documento, p_token, p_referencia
        FROM unnest(p_documentos, p_tokens, p_referencias) AS lista (p_documento, p_token, p_referencia)
        ORDER BY p_documento
    ) AS pedido
    -- One look into the index for each document: joined, they would be compared each with each.
    CROSS JOIN LATERAL (
        SELECT fila.inquilino, fila.documento_id, fila.versao, fila.token_reserva, fila.worker_id, fila.etapa, fila.referencia_externa
        FROM sql_semana_12.fila_documentos AS fila
        WHERE
            fila.documento_id = p_documento
            AND fila.status = 'processando'
            AND fila.token_reserva = p_token
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        FOR NO KEY UPDATE
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
    v_agora := sql_semana_12.relogio();
    INSERT INTO sql_semana_12.auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
    SELECT inquilino, documento, versao, 'processando', 'concluido', token, worker, 'conclusao', v_agora
    FROM unnest(v_inquilinos, v_travados, v_versoes, v_tokens, v_workers)
        AS travado (inquilino, documento, versao, token, worker);
    RETURN QUERY
    UPDATE sql_semana_12.fila_documentos AS fila
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
    FROM unnest(v_inquilinos, v_travados, v_referencias) AS travado (inquilino, documento, referencia)
    WHERE
        fila.inquilino = travado.inquilino
        AND fila.documento_id = travado.documento
        AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
    RETURNING fila.documento_id, fila.status, fila.versao;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.renovar_lote(
    p_documentos BIGINT[], p_tokens BIGINT[], p_prazo INTERVAL DEFAULT '30 seconds', p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, resultado TEXT, reservado_ate TIMESTAMPTZ)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_inquilinos TEXT[];
    v_travados BIGINT[];
    v_agora TIMESTAMPTZ;
BEGIN
    PERFORM sql_semana_12.exigir_pedido('renovar', 1, p_prazo);
    PERFORM sql_semana_12.exigir_lote(p_documentos, p_tokens, NULL);
    SELECT coalesce(array_agg(inquilino), '{}'), coalesce(array_agg(documento_id), '{}')
    INTO v_inquilinos, v_travados
    FROM (
        SELECT p_documento, p_token
        FROM unnest(p_documentos, p_tokens) AS lista (p_documento, p_token)
        ORDER BY p_documento
    ) AS pedido
    CROSS JOIN LATERAL (
        SELECT fila.inquilino, fila.documento_id
        FROM sql_semana_12.fila_documentos AS fila
        WHERE
            fila.documento_id = p_documento
            AND fila.status = 'processando'
            AND fila.token_reserva = p_token
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS travado;
    v_agora := sql_semana_12.relogio();
    RETURN QUERY
    WITH renovado AS (
        UPDATE sql_semana_12.fila_documentos AS fila
        SET
            reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, fila.iniciado_em + sql_semana_12.tempo_maximo())),
            renovacoes = fila.renovacoes + 1
        FROM unnest(v_inquilinos, v_travados) AS travado (inquilino, documento)
        WHERE
            fila.inquilino = travado.inquilino
            AND fila.documento_id = travado.documento
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
            AND v_agora < fila.iniciado_em + sql_semana_12.tempo_maximo()
        RETURNING fila.documento_id, fila.reservado_ate
    )

    SELECT
        pedido.documento,
        CASE
            WHEN renovado.documento_id IS NOT NULL THEN 'renovada'
            WHEN fila.documento_id IS NULL OR pedido.documento = ANY(v_travados) THEN 'recusada'
            ELSE 'ocupada'
        END,
        renovado.reservado_ate
    FROM unnest(p_documentos, p_tokens) AS pedido (documento, token)
    LEFT JOIN renovado ON pedido.documento = renovado.documento_id
    LEFT JOIN sql_semana_12.fila_documentos AS fila
        ON
            pedido.documento = fila.documento_id
            AND fila.status = 'processando'
            AND pedido.token = fila.token_reserva
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino);
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
        fila.max_tentativas,
        fila.etapa,
        fila.referencia_externa,
        fila.chamada_basta
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

\if :em_portugues
\echo 'token está ligada de novo.'
\else
\echo 'token is on again.'
\endif
\else

CREATE OR REPLACE FUNCTION sql_semana_12.concluir_lote(
    p_documentos BIGINT[], p_tokens BIGINT[], p_referencias TEXT[] DEFAULT NULL, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$ -- without token
#variable_conflict use_column
DECLARE
    v_inquilinos TEXT[];
    v_travados BIGINT[];
    v_versoes BIGINT[];
    v_tokens BIGINT[];
    v_workers TEXT[];
    v_referencias TEXT[];
    v_sem_resultado BIGINT;
    v_outro_resultado BIGINT;
    v_agora TIMESTAMPTZ;
BEGIN
    PERFORM sql_semana_12.exigir_lote(p_documentos, p_tokens, p_referencias);
    SELECT
        array_agg(inquilino),
        array_agg(documento_id),
        array_agg(versao + 1),
        array_agg(token_reserva),
        array_agg(worker_id),
        array_agg(coalesce(p_referencia, referencia_externa)),
        min(documento_id) FILTER (WHERE etapa = 'desconhecido' AND coalesce(p_referencia, referencia_externa) IS NULL),
        min(documento_id) FILTER (WHERE p_referencia <> referencia_externa)
    INTO v_inquilinos, v_travados, v_versoes, v_tokens, v_workers, v_referencias, v_sem_resultado, v_outro_resultado
    FROM (
        SELECT p_documento, p_token, p_referencia
        FROM unnest(p_documentos, p_tokens, p_referencias) AS lista (p_documento, p_token, p_referencia)
        ORDER BY p_documento
    ) AS pedido
    -- One look into the index for each document: joined, they would be compared each with each.
    CROSS JOIN LATERAL (
        SELECT fila.inquilino, fila.documento_id, fila.versao, fila.token_reserva, fila.worker_id, fila.etapa, fila.referencia_externa
        FROM sql_semana_12.fila_documentos AS fila
        WHERE
            fila.documento_id = p_documento
            AND fila.status = 'processando'
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        FOR NO KEY UPDATE
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
    v_agora := sql_semana_12.relogio();
    INSERT INTO sql_semana_12.auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
    SELECT inquilino, documento, versao, 'processando', 'concluido', token, worker, 'conclusao', v_agora
    FROM unnest(v_inquilinos, v_travados, v_versoes, v_tokens, v_workers)
        AS travado (inquilino, documento, versao, token, worker);
    RETURN QUERY
    UPDATE sql_semana_12.fila_documentos AS fila
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
    FROM unnest(v_inquilinos, v_travados, v_referencias) AS travado (inquilino, documento, referencia)
    WHERE
        fila.inquilino = travado.inquilino
        AND fila.documento_id = travado.documento
        AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
    RETURNING fila.documento_id, fila.status, fila.versao;
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.renovar_lote(
    p_documentos BIGINT[], p_tokens BIGINT[], p_prazo INTERVAL DEFAULT '30 seconds', p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, resultado TEXT, reservado_ate TIMESTAMPTZ)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$ -- without token
#variable_conflict use_column
DECLARE
    v_inquilinos TEXT[];
    v_travados BIGINT[];
    v_agora TIMESTAMPTZ;
BEGIN
    PERFORM sql_semana_12.exigir_pedido('renovar', 1, p_prazo);
    PERFORM sql_semana_12.exigir_lote(p_documentos, p_tokens, NULL);
    SELECT coalesce(array_agg(inquilino), '{}'), coalesce(array_agg(documento_id), '{}')
    INTO v_inquilinos, v_travados
    FROM (
        SELECT p_documento, p_token
        FROM unnest(p_documentos, p_tokens) AS lista (p_documento, p_token)
        ORDER BY p_documento
    ) AS pedido
    CROSS JOIN LATERAL (
        SELECT fila.inquilino, fila.documento_id
        FROM sql_semana_12.fila_documentos AS fila
        WHERE
            fila.documento_id = p_documento
            AND fila.status = 'processando'
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS travado;
    v_agora := sql_semana_12.relogio();
    RETURN QUERY
    WITH renovado AS (
        UPDATE sql_semana_12.fila_documentos AS fila
        SET
            reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, fila.iniciado_em + sql_semana_12.tempo_maximo())),
            renovacoes = fila.renovacoes + 1
        FROM unnest(v_inquilinos, v_travados) AS travado (inquilino, documento)
        WHERE
            fila.inquilino = travado.inquilino
            AND fila.documento_id = travado.documento
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
            AND v_agora < fila.iniciado_em + sql_semana_12.tempo_maximo()
        RETURNING fila.documento_id, fila.reservado_ate
    )

    SELECT
        pedido.documento,
        CASE
            WHEN renovado.documento_id IS NOT NULL THEN 'renovada'
            WHEN fila.documento_id IS NULL OR pedido.documento = ANY(v_travados) THEN 'recusada'
            ELSE 'ocupada'
        END,
        renovado.reservado_ate
    FROM unnest(p_documentos, p_tokens) AS pedido (documento, token)
    LEFT JOIN renovado ON pedido.documento = renovado.documento_id
    LEFT JOIN sql_semana_12.fila_documentos AS fila
        ON
            pedido.documento = fila.documento_id
            AND fila.status = 'processando'
            AND pedido.token = fila.token_reserva
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino);
END
$$;

CREATE OR REPLACE FUNCTION sql_semana_12.travar(p_documento BIGINT, p_token BIGINT, p_inquilino TEXT)
RETURNS sql_semana_12.posse
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$ -- without token
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
        fila.max_tentativas,
        fila.etapa,
        fila.referencia_externa,
        fila.chamada_basta
    INTO v_posse
    FROM sql_semana_12.fila_documentos AS fila
    WHERE
        fila.documento_id = p_documento
        AND fila.status = 'processando'
        AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
    FOR NO KEY UPDATE;
    RETURN v_posse;
END
$$;

\if :em_portugues
\echo 'token está desligada. O mesmo comando a devolve.'
\else
\echo 'token is off. The same command puts it back.'
\endif
\endif
\endif
