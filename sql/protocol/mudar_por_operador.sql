-- A command is no attempt: what the last attempt left as its error stays. An orphan's attempt ends here, as a crash.
CREATE OR REPLACE FUNCTION sql_semana_12.mudar_por_operador(
    p_posse sql_semana_12.posse, p_para TEXT, p_quem TEXT, p_motivo TEXT, p_disponivel_em TIMESTAMPTZ DEFAULT NULL
)
RETURNS BIGINT
LANGUAGE plpgsql
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    v_erro TEXT := 'reserva vencida';
    v_categoria TEXT := 'queda';
BEGIN
    IF p_posse.status <> 'processando' THEN
        SELECT fila.ultimo_erro, fila.categoria_erro
        INTO v_erro, v_categoria
        FROM fila_documentos AS fila
        WHERE fila.inquilino = p_posse.inquilino AND fila.documento_id = p_posse.documento_id;
    END IF;
    RETURN mudar(p_posse, p_para, p_quem, p_motivo, v_erro, relogio(), v_categoria, p_disponivel_em);
END
$$;

COMMENT ON FUNCTION sql_semana_12.mudar_por_operador IS
'As mudar, by an operator''s command: the error of the last attempt stays, and an orphan''s attempt counts as a crash.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
