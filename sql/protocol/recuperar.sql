-- Only what is late, only so many at a time, only so many attempts, under a name, for a reason. No deadline promises nothing.
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
SET search_path = sql_semana_12, pg_temp
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
            fila.referencia_externa,
            fila.chamada_basta
        FROM fila_documentos AS fila
        WHERE
            fila.status = 'processando'
            -- @defence reserva: AND FALSE
            AND coalesce(fila.reservado_ate, '-infinity') < v_agora
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
        ORDER BY fila.documento_id
        LIMIT p_limite
        FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        v_agora := relogio(); -- again: the look may have waited for a lock on the table
        documento_id := v_posse.documento_id;
        status := destino(v_posse.etapa, v_posse.tentativas >= v_posse.max_tentativas, v_posse.chamada_basta);
        v_disponivel_em := CASE WHEN status = 'pendente' THEN v_agora + recuo(v_posse.tentativas) END;
        versao := mudar(v_posse, status, p_quem, p_motivo, p_motivo, v_agora, 'queda', v_disponivel_em);
        tentativas := v_posse.tentativas;
        worker_anterior := v_posse.worker_id;
        etapa := v_posse.etapa;
        RETURN NEXT;
    END LOOP;
END
$$;

COMMENT ON FUNCTION sql_semana_12.recuperar IS
'Takes up to p_limite late documents from their workers: to pendente, due after recuo, or after max_tentativas by their '
'stage (destino); their tokens are void. Zero rows: none is late and free.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 09
-- @@
-- -RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT, tentativas INTEGER, worker_anterior TEXT)
-- +RETURNS TABLE (
-- +    documento_id BIGINT, status TEXT, versao BIGINT, tentativas INTEGER, worker_anterior TEXT, etapa TEXT
-- +)
-- @@
-- -            fila.max_tentativas
-- +            fila.max_tentativas,
-- +            fila.etapa,
-- +            fila.referencia_externa,
-- +            fila.chamada_basta
-- @@
-- -        status := CASE WHEN v_posse.tentativas < v_posse.max_tentativas THEN 'pendente' ELSE 'falhou' END;
-- +        status := destino(v_posse.etapa, v_posse.tentativas >= v_posse.max_tentativas, v_posse.chamada_basta);
-- @@
-- +        etapa := v_posse.etapa;
-- @lesson 08
-- @@
--      p_limite INTEGER DEFAULT 100,
-- -    p_max_tentativas INTEGER DEFAULT 5,
-- @@
-- +    v_disponivel_em TIMESTAMPTZ;
-- @@
--      PERFORM exigir_motivo(p_motivo);
-- -    PERFORM exigir_quantidade('p_max_tentativas', p_max_tentativas);
-- @@
-- -            fila.iniciado_em
-- +            fila.iniciado_em,
-- +            fila.max_tentativas
-- @@
-- -        status := CASE WHEN v_posse.tentativas < p_max_tentativas THEN 'pendente' ELSE 'falhou' END;
-- -        versao := mudar(v_posse, status, p_quem, p_motivo, p_motivo, v_agora);
-- +        status := CASE WHEN v_posse.tentativas < v_posse.max_tentativas THEN 'pendente' ELSE 'falhou' END;
-- +        v_disponivel_em := CASE WHEN status = 'pendente' THEN v_agora + recuo(v_posse.tentativas) END;
-- +        versao := mudar(v_posse, status, p_quem, p_motivo, p_motivo, v_agora, 'queda', v_disponivel_em);
-- @lesson 06
-- @@
-- +    p_quem TEXT,
-- @@
-- -RETURNS TABLE (documento_id BIGINT, status TEXT, tentativas INTEGER, worker_anterior TEXT)
-- +RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT, tentativas INTEGER, worker_anterior TEXT)
-- @@
-- -    v_vencido RECORD;
-- +    v_posse posse;
-- @@
-- +    PERFORM exigir_quem(p_quem);
-- +    PERFORM exigir_quantidade('p_limite', p_limite);
-- @@
--      PERFORM exigir_motivo(p_motivo);
-- -    PERFORM exigir_quantidade('p_limite', p_limite);
-- @@
-- -    FOR v_vencido IN
-- +    FOR v_posse IN
-- @@
-- +            fila.status,
-- +            fila.versao,
-- +            fila.token_reserva,
-- @@
-- -            fila.tentativas >= p_max_tentativas AS esgotado
-- +            fila.tentativas,
-- +            fila.iniciado_em
-- @@
-- -        RETURN QUERY
-- -        UPDATE fila_documentos AS fila
-- -        SET
-- -            status = CASE WHEN v_vencido.esgotado THEN 'falhou' ELSE 'pendente' END,
-- -            worker_id = CASE WHEN v_vencido.esgotado THEN fila.worker_id END,
-- -            reservado_ate = NULL,
-- -            concluido_em = CASE WHEN v_vencido.esgotado THEN v_agora END,
-- -            ultimo_erro = left(p_motivo, 200)
-- -        WHERE fila.inquilino = v_vencido.inquilino AND fila.documento_id = v_vencido.documento_id
-- -        RETURNING fila.documento_id, fila.status, fila.tentativas, v_vencido.worker_id;
-- +        documento_id := v_posse.documento_id;
-- +        status := CASE WHEN v_posse.tentativas < p_max_tentativas THEN 'pendente' ELSE 'falhou' END;
-- +        versao := mudar(v_posse, status, p_quem, p_motivo, p_motivo, v_agora);
-- +        tentativas := v_posse.tentativas;
-- +        worker_anterior := v_posse.worker_id;
-- +        RETURN NEXT;
-- @lesson 05
