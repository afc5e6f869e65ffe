-- Written before the call (desconhecido), when its result is known (obtido, with the receiver's reference) and before the
-- outcome is confirmed (confirmando). Back to nao_chamado only where the receiver said that it knows nothing of the key.
--
-- A call that begins under a lease that has ended, or is about to, meets the next worker's: so the one who may call is given time,
-- and is told until when. A result that is known is never refused, however late it comes.
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
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_posse posse;
    v_agora TIMESTAMPTZ;
    v_fim TIMESTAMPTZ;
BEGIN
    PERFORM exigir_pedido('etapa', 1, p_prazo);
    v_posse := travar(p_documento, p_token, p_inquilino);
    IF v_posse.documento_id IS NULL THEN
        -- @defence linhas: RETURN QUERY SELECT p_documento, p_etapa, 0::BIGINT, relogio(); RETURN;
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
        PERFORM exigir_referencia(p_referencia, v_posse.referencia_externa);
    END IF;
    IF p_etapa IN ('nao_chamado', 'desconhecido') AND p_referencia IS NOT NULL THEN
        RAISE EXCEPTION 'document %: at stage % there is no result, so p_referencia must be null', p_documento, p_etapa
            USING ERRCODE = '22023';
    END IF;
    v_agora := relogio();
    v_fim := v_posse.iniciado_em + tempo_maximo();
    IF p_etapa IN ('desconhecido', 'confirmando') AND v_agora >= v_fim THEN
        RETURN;
    END IF;
    -- @audit
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
        versao = fila.versao + 1,
        reservado_ate = greatest(fila.reservado_ate, least(v_agora + p_prazo, v_fim)),
        chamada_basta = coalesce(p_chamada_basta, fila.chamada_basta)
    WHERE fila.inquilino = v_posse.inquilino AND fila.documento_id = v_posse.documento_id
    RETURNING fila.documento_id, fila.etapa, fila.versao, fila.reservado_ate;
END
$$;

COMMENT ON FUNCTION sql_semana_12.registrar_etapa IS
'Records where the attempt stands towards the outside world, renews its lease as renovar does, and gives it back: a call must end '
'before it. p_chamada_basta says that the call is the whole effect, so that its result is the end. Zero rows: the document is not in '
'work under this token, or its time is up; the worker must not call.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 09
