CREATE OR REPLACE FUNCTION sql_semana_12.falhar(
    p_documento BIGINT, p_token BIGINT, p_categoria TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT, disponivel_em TIMESTAMPTZ)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
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
    status := destino(v_posse.etapa, p_categoria = 'conteudo' OR v_posse.tentativas >= v_posse.max_tentativas, v_posse.chamada_basta);
    IF status = 'pendente' THEN
        disponivel_em := v_agora + recuo(v_posse.tentativas);
    END IF;
    versao := mudar(v_posse, status, v_posse.worker_id, 'falha ' || p_categoria, p_motivo, v_agora, p_categoria, disponivel_em);
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION sql_semana_12.falhar IS
'Ends an attempt of a document in work under this token: to pendente, due after recuo, or, if attempts are used up or the '
'content is at fault, to the state that its stage demands (destino). Zero rows: it is not in work under it, and nothing was changed.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 09
-- @@
-- -    IF p_categoria = 'conteudo' OR v_posse.tentativas >= v_posse.max_tentativas THEN
-- -        status := 'falhou';
-- -    ELSE
-- -        status := 'pendente';
-- +    status := destino(v_posse.etapa, p_categoria = 'conteudo' OR v_posse.tentativas >= v_posse.max_tentativas, v_posse.chamada_basta);
-- +    IF status = 'pendente' THEN
-- @lesson 08
-- @@
-- -    p_documento BIGINT, p_token BIGINT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
-- +    p_documento BIGINT, p_token BIGINT, p_categoria TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
-- @@
-- -RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
-- +RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT, disponivel_em TIMESTAMPTZ)
-- @@
-- +    v_agora TIMESTAMPTZ;
-- @@
-- +    IF p_categoria IS NULL OR p_categoria NOT IN ('conteudo', 'sistemico', 'conexao', 'impasse') THEN
-- +        RAISE EXCEPTION 'p_categoria must be conteudo, sistemico, conexao or impasse, not %', left(p_categoria, 50)
-- +            USING ERRCODE = '22023';
-- +    END IF;
-- @@
-- -    versao := mudar(v_posse, 'falhou', v_posse.worker_id, 'falha', p_motivo, relogio());
-- +    v_agora := relogio();
-- @@
-- -    status := 'falhou';
-- +    IF p_categoria = 'conteudo' OR v_posse.tentativas >= v_posse.max_tentativas THEN
-- +        status := 'falhou';
-- +    ELSE
-- +        status := 'pendente';
-- +        disponivel_em := v_agora + recuo(v_posse.tentativas);
-- +    END IF;
-- +    versao := mudar(v_posse, status, v_posse.worker_id, 'falha ' || p_categoria, p_motivo, v_agora, p_categoria, disponivel_em);
-- @lesson 06
-- @@
-- -    p_documento BIGINT, p_worker TEXT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
-- +    p_documento BIGINT, p_token BIGINT, p_motivo TEXT, p_inquilino TEXT DEFAULT NULL
-- @@
-- -RETURNS TABLE (documento_id BIGINT, status TEXT)
-- +RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT)
-- @@
--  AS $$
-- -#variable_conflict use_column
-- @@
-- -    v_inquilino TEXT;
-- -    v_agora TIMESTAMPTZ;
-- +    v_posse posse;
-- @@
-- -    v_inquilino := travar(p_documento, p_worker, p_inquilino);
-- -    IF v_inquilino IS NULL THEN
-- +    v_posse := travar(p_documento, p_token, p_inquilino);
-- +    IF v_posse.documento_id IS NULL THEN
-- @@
-- -    v_agora := relogio();
-- -    RETURN QUERY
-- -    UPDATE fila_documentos AS fila
-- -    SET status = 'falhou', reservado_ate = NULL, concluido_em = v_agora, ultimo_erro = left(p_motivo, 200)
-- -    WHERE fila.inquilino = v_inquilino AND fila.documento_id = p_documento
-- -    RETURNING fila.documento_id, fila.status;
-- +    versao := mudar(v_posse, 'falhou', v_posse.worker_id, 'falha', p_motivo, relogio());
-- +    documento_id := p_documento;
-- +    status := 'falhou';
-- +    RETURN NEXT;
-- @lesson 05
