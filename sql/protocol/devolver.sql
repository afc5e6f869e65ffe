-- What a worker claimed and did not begin, it gives back when it has to end. The audit tells both what was begun and how often it came
-- back: the row of the claim is the last one as long as no stage was recorded under it. So nothing is written for it beforehand.
--
-- A few times the attempt is not charged; after these it is, so that a document that is always given back still ends.
CREATE OR REPLACE FUNCTION sql_semana_12.devolver(p_documento BIGINT, p_token BIGINT, p_inquilino TEXT DEFAULT NULL)
RETURNS TABLE (documento_id BIGINT, status TEXT, versao BIGINT, tentativas INTEGER)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_posse posse;
    v_devolucoes BIGINT;
    v_comecado BOOLEAN;
BEGIN
    v_posse := travar(p_documento, p_token, p_inquilino);
    IF v_posse.documento_id IS NULL THEN
        RETURN;
    END IF;
    SELECT
        count(*) FILTER (WHERE auditoria.por_que = 'devolucao'),
        count(*) FILTER (WHERE auditoria.versao = v_posse.versao AND auditoria.por_que = 'reserva') = 0
    INTO v_devolucoes, v_comecado
    FROM auditoria
    WHERE auditoria.inquilino = v_posse.inquilino AND auditoria.documento_id = v_posse.documento_id;
    IF v_comecado THEN
        RAISE EXCEPTION 'document %: its attempt has begun, so it is not given back', p_documento
            USING ERRCODE = '55000', HINT = 'Bring it to an end: concluir, falhar or conciliar.';
    END IF;
    tentativas := v_posse.tentativas;
    IF v_devolucoes < 3 THEN
        tentativas := tentativas - 1;
        UPDATE fila_documentos AS fila
        SET tentativas = v_posse.tentativas - 1
        WHERE fila.inquilino = v_posse.inquilino AND fila.documento_id = v_posse.documento_id;
    END IF;
    documento_id := p_documento;
    status := destino(v_posse.etapa, tentativas >= v_posse.max_tentativas, v_posse.chamada_basta);
    versao := mudar(
        v_posse,
        status,
        v_posse.worker_id,
        'devolucao',
        CASE WHEN status <> 'pendente' THEN 'devolvido sem tentativa restante' END,
        relogio(),
        CASE WHEN status <> 'pendente' THEN 'sistemico' END
    );
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION sql_semana_12.devolver IS
'Gives back a document in work under this token whose attempt was not begun, due as before. Three times in its life its attempt is not '
'charged; then it is, and destino tells where it goes. 55000: a stage was recorded. Zero rows: it is not in work under it.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 09
