-- Where a document leaves a state other than by a claim or in a batch: versao grows by one, with one row in auditoria.
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
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    -- After a restore the audit may be ahead of the queue. No version is written twice.
    v_versao BIGINT := 1 + greatest(
        p_posse.versao,
        (
            SELECT max(versao)
            FROM auditoria
            WHERE inquilino = p_posse.inquilino AND documento_id = p_posse.documento_id
        )
    );
BEGIN
    IF v_versao <> p_posse.versao + 1 THEN
        RAISE WARNING 'document %: auditoria was ahead of it; its next version is %, not %',
            p_posse.documento_id, v_versao, p_posse.versao + 1;
    END IF;
    UPDATE fila_documentos
    SET
        status = p_para,
        versao = v_versao,
        token_reserva = NULL, -- void: no write passes under it any more
        worker_id = CASE WHEN p_para <> 'pendente' THEN p_posse.worker_id END,
        reservado_ate = NULL,
        concluido_em = CASE WHEN p_para IN ('concluido', 'falhou', 'cancelado') THEN p_agora END,
        -- A finished document has no error, even if its last attempt ended by a failure and its stage was as good as done.
        ultimo_erro = CASE WHEN p_para <> 'concluido' THEN resumir(p_erro) END,
        categoria_erro = CASE WHEN p_para <> 'concluido' THEN p_categoria END,
        disponivel_em = coalesce(p_disponivel_em, disponivel_em),
        -- @defence etapa: etapa = CASE WHEN p_para = 'pendente' THEN 'nao_chamado' ELSE p_posse.etapa END,
        etapa = p_posse.etapa,
        referencia_externa = p_posse.referencia_externa
    WHERE inquilino = p_posse.inquilino AND documento_id = p_posse.documento_id;
    -- @audit
    INSERT INTO auditoria (
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
        resumir(p_por_que),
        p_agora,
        CASE WHEN p_posse.status = 'processando' THEN p_categoria END
    );
    RETURN v_versao;
END
$$;

COMMENT ON FUNCTION sql_semana_12.mudar IS
'Changes the state of a locked document, and writes its row of auditoria.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
-- @@
-- +DECLARE
-- +    -- After a restore the audit may be ahead of the queue. No version is written twice.
-- +    v_versao BIGINT := 1 + greatest(
-- +        p_posse.versao,
-- +        (
-- +            SELECT max(versao)
-- +            FROM auditoria
-- +            WHERE inquilino = p_posse.inquilino AND documento_id = p_posse.documento_id
-- +        )
-- +    );
-- @@
-- +    IF v_versao <> p_posse.versao + 1 THEN
-- +        RAISE WARNING 'document %: auditoria was ahead of it; its next version is %, not %',
-- +            p_posse.documento_id, v_versao, p_posse.versao + 1;
-- +    END IF;
-- @@
-- -        versao = p_posse.versao + 1,
-- +        versao = v_versao,
-- @@
-- -        p_posse.versao + 1,
-- +        v_versao,
-- @@
-- -    RETURN p_posse.versao + 1;
-- +    RETURN v_versao;
-- @@
-- -    -- @audit
-- -    INSERT INTO auditoria (inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando)
-- +    INSERT INTO auditoria (
-- +        inquilino, documento_id, versao, de, para, token_reserva, quem, por_que, quando, categoria_erro
-- +    )
-- @@
-- -        p_agora
-- +        p_agora,
-- +        CASE WHEN p_posse.status = 'processando' THEN p_categoria END
-- @lesson 09
-- @@
-- -        ultimo_erro = resumir(p_erro),
-- -        categoria_erro = p_categoria,
-- -        disponivel_em = coalesce(p_disponivel_em, disponivel_em)
-- +        -- A finished document has no error, even if its last attempt ended by a failure and its stage was as good as done.
-- +        ultimo_erro = CASE WHEN p_para <> 'concluido' THEN resumir(p_erro) END,
-- +        categoria_erro = CASE WHEN p_para <> 'concluido' THEN p_categoria END,
-- +        disponivel_em = coalesce(p_disponivel_em, disponivel_em),
-- +        etapa = p_posse.etapa,
-- +        referencia_externa = p_posse.referencia_externa
-- @lesson 08
-- @@
-- -    p_agora TIMESTAMPTZ
-- +    p_agora TIMESTAMPTZ,
-- +    p_categoria TEXT DEFAULT NULL,
-- +    p_disponivel_em TIMESTAMPTZ DEFAULT NULL
-- @@
-- -        ultimo_erro = left(p_erro, 200)
-- +        ultimo_erro = resumir(p_erro),
-- +        categoria_erro = p_categoria,
-- +        disponivel_em = coalesce(p_disponivel_em, disponivel_em)
-- @@
-- -        left(p_por_que, 200),
-- +        resumir(p_por_que),
-- @lesson 06
