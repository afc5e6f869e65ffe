-- Leaves to people those of the documents whose audit is ahead of them: it tells of attempts that the queue has forgotten.
CREATE OR REPLACE FUNCTION sql_semana_12.separar(p_inquilinos TEXT[], p_documentos BIGINT[], p_quem TEXT)
RETURNS VOID
LANGUAGE plpgsql
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_posse posse;
    v_adiantada BOOLEAN := FALSE;
BEGIN
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
        FROM unnest(p_inquilinos, p_documentos) AS escolhido (inquilino, documento)
        INNER JOIN fila_documentos AS fila ON fila.inquilino = escolhido.inquilino AND fila.documento_id = escolhido.documento
        WHERE
            (
                SELECT max(auditoria.versao)
                FROM auditoria
                WHERE auditoria.inquilino = fila.inquilino AND auditoria.documento_id = fila.documento_id
            ) > fila.versao
    LOOP
        v_adiantada := TRUE;
        PERFORM mudar(
            v_posse, 'conciliacao', p_quem, 'auditoria adiantada', 'a auditoria sabe mais do que a fila', relogio(), 'sistemico'
        );
    END LOOP;
    IF NOT v_adiantada THEN
        RAISE EXCEPTION 'auditoria refuses the row of one of these documents, and is ahead of none: %', p_documentos
            USING ERRCODE = '23505';
    END IF;
END
$$;

COMMENT ON FUNCTION sql_semana_12.separar IS
'Leaves to people, each with a warning, those of the documents whose audit is ahead of them. It refuses with 23505 if none is.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
