CREATE OR REPLACE VIEW sql_semana_12.falhas_por_categoria AS
SELECT
    categoria_erro,
    count(*) AS falhas,
    count(*) FILTER (WHERE para = 'pendente') AS a_repetir,
    count(*) FILTER (WHERE para IN ('falhou', 'conciliacao')) AS definitivas,
    max(quando) AS ultima
FROM sql_semana_12.auditoria
WHERE categoria_erro IS NOT NULL
GROUP BY categoria_erro;

COMMENT ON VIEW sql_semana_12.falhas_por_categoria IS
'One row for each class of failure: attempts that ended so, how many were put back, how many ended their document without a '
'result, and when the last one was. Zero rows: none has failed.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
