CREATE OR REPLACE FUNCTION sql_semana_12.concluir(
    p_documento BIGINT, p_token BIGINT, p_referencia TEXT DEFAULT NULL, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
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
    versao := mudar(v_posse, 'concluido', v_posse.worker_id, 'conclusao', NULL, relogio(), NULL, NULL::TIMESTAMPTZ);
    documento_id := p_documento;
    status := 'concluido';
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION sql_semana_12.concluir IS
'Finishes a document in work under this token, with the receiver''s reference if it was called. Zero rows: it is not in work '
'under it, and nothing was changed.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 09
-- @@
-- -FUNCTION sql_semana_12.concluir(p_documento BIGINT, p_token BIGINT, p_inquilino TEXT DEFAULT NULL)
-- +FUNCTION sql_semana_12.concluir(
-- +    p_documento BIGINT, p_token BIGINT, p_referencia TEXT DEFAULT NULL, p_inquilino TEXT DEFAULT NULL
-- +)
-- @@
-- +    IF p_referencia IS NOT NULL THEN
-- +        PERFORM exigir_referencia(p_referencia, v_posse.referencia_externa);
-- +    END IF;
-- +    v_posse.referencia_externa := coalesce(p_referencia, v_posse.referencia_externa);
-- +    IF v_posse.etapa = 'desconhecido' AND v_posse.referencia_externa IS NULL THEN
-- +        RAISE EXCEPTION 'document %: the result of the call is unknown, so it cannot be finished', p_documento
-- +            USING ERRCODE = '55000', HINT = 'Ask the receiver by chave_operacao, then finish with p_referencia, or use conciliar.';
-- +    END IF;
-- +    IF v_posse.etapa <> 'confirmando' AND v_posse.referencia_externa IS NOT NULL THEN
-- +        v_posse.etapa := 'obtido'; -- the reference says so
-- +    END IF;
-- @@
-- -    versao := mudar(v_posse, 'concluido', v_posse.worker_id, 'conclusao', NULL, relogio());
-- +    versao := mudar(v_posse, 'concluido', v_posse.worker_id, 'conclusao', NULL, relogio(), NULL, NULL::TIMESTAMPTZ);
-- @lesson 06
-- @@
-- -FUNCTION sql_semana_12.concluir(p_documento BIGINT, p_worker TEXT, p_inquilino TEXT DEFAULT NULL)
-- -RETURNS TABLE (documento_id BIGINT, status TEXT)
-- +FUNCTION sql_semana_12.concluir(p_documento BIGINT, p_token BIGINT, p_inquilino TEXT DEFAULT NULL)
-- +RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
-- @@
--  AS $$
-- -#variable_conflict use_column
-- @@
-- -    v_inquilino TEXT := travar(p_documento, p_worker, p_inquilino);
-- -    v_agora TIMESTAMPTZ;
-- +    v_posse posse := travar(p_documento, p_token, p_inquilino);
-- @@
-- -    IF v_inquilino IS NULL THEN
-- +    IF v_posse.documento_id IS NULL THEN
-- @@
-- -    v_agora := relogio();
-- -    RETURN QUERY
-- -    UPDATE fila_documentos AS fila
-- -    SET status = 'concluido', reservado_ate = NULL, concluido_em = v_agora, ultimo_erro = NULL
-- -    WHERE fila.inquilino = v_inquilino AND fila.documento_id = p_documento
-- -    RETURNING fila.documento_id, fila.status;
-- +    versao := mudar(v_posse, 'concluido', v_posse.worker_id, 'conclusao', NULL, relogio());
-- +    documento_id := p_documento;
-- +    status := 'concluido';
-- +    RETURN NEXT;
-- @lesson 05
