-- Where an attempt that did not finish leaves its document. While there are attempts left it is taken up again, stage and all.
-- When there are none, the stage decides: never called is a failure, unknown is for people. So is obtained, unless the call was
-- the whole effect, for then it is done.
CREATE OR REPLACE FUNCTION sql_semana_12.destino(p_etapa TEXT, p_esgotado BOOLEAN, p_chamada_basta BOOLEAN)
RETURNS TEXT
LANGUAGE plpgsql
IMMUTABLE
SET search_path = sql_semana_12, pg_temp
AS $$
BEGIN
    RETURN CASE
        WHEN NOT p_esgotado THEN 'pendente'
        WHEN p_etapa = 'nao_chamado' THEN 'falhou'
        WHEN p_etapa = 'desconhecido' OR p_chamada_basta IS NOT TRUE THEN 'conciliacao'
        ELSE 'concluido'
    END;
END
$$;

COMMENT ON FUNCTION sql_semana_12.destino IS
'The state in which an attempt that did not finish leaves its document, by stage, by whether attempts are left and by whether '
'the call was the whole effect.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 09
