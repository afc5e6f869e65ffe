-- What waits for people, as they need it to decide, and without the document itself.
CREATE OR REPLACE VIEW sql_semana_12.para_pessoas AS
SELECT
    fila.inquilino,
    fila.documento_id,
    fila.chave,
    fila.status,
    fila.versao,
    fila.tentativas,
    fila.etapa,
    fila.chave_operacao,
    fila.referencia_externa,
    fila.categoria_erro,
    fila.ultimo_erro
FROM sql_semana_12.fila_documentos AS fila
WHERE fila.status IN ('conciliacao', 'falhou', 'pausado');

COMMENT ON VIEW sql_semana_12.para_pessoas IS
'One row for each document that people have to decide on: of unknown result, failed, paused. Zero rows: none waits for them.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
