-- The guard of the operators' commands: the document is as they saw it, in a state the command is for, and in no live worker's
-- hands. Gives it back, locked; null if the guard does not let it pass.
CREATE OR REPLACE FUNCTION sql_semana_12.travar_para_operador(
    p_documento BIGINT, p_versao BIGINT, p_de TEXT[], p_quem TEXT, p_motivo TEXT, p_inquilino TEXT
)
RETURNS sql_semana_12.posse
LANGUAGE plpgsql
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_inquilinos TEXT[];
    v_posse posse;
    v_reservado_ate TIMESTAMPTZ;
BEGIN
    PERFORM exigir_quem(p_quem);
    PERFORM exigir_motivo(p_motivo);
    -- Look first: a command that is refused locks nothing. Without a tenant this looks at the whole key.
    v_inquilinos := ARRAY(
        SELECT fila.inquilino
        FROM fila_documentos AS fila
        WHERE
            fila.documento_id = p_documento
            AND fila.versao = p_versao
            AND fila.status = ANY(p_de)
            AND (fila.status <> 'processando' OR coalesce(fila.reservado_ate, '-infinity') < relogio())
            AND fila.inquilino = coalesce(p_inquilino, fila.inquilino)
    );
    IF cardinality(v_inquilinos) > 1 THEN
        RAISE EXCEPTION 'document %: more than one tenant has a document of this number, so p_inquilino must name it', p_documento
            USING ERRCODE = '22023';
    END IF;
    IF cardinality(v_inquilinos) = 0 THEN
        RETURN NULL;
    END IF;
    BEGIN
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
        INTO v_posse
        FROM fila_documentos AS fila
        WHERE
            fila.inquilino = v_inquilinos[1]
            AND fila.documento_id = p_documento
            AND fila.versao = p_versao
            AND fila.status = ANY(p_de)
        FOR NO KEY UPDATE;
        -- Read after the lock: a renewal may have moved it, and a renewal does not change versao.
        IF v_posse.status = 'processando' THEN
            SELECT fila.reservado_ate INTO v_reservado_ate
            FROM fila_documentos AS fila
            WHERE fila.inquilino = v_inquilinos[1] AND fila.documento_id = p_documento;
        END IF;
        IF v_posse.documento_id IS NULL OR v_reservado_ate >= relogio() THEN
            RAISE EXCEPTION 'moved on' USING ERRCODE = 'P0002';
        END IF;
    EXCEPTION
        -- What moved on while this waited is locked by now: the end of the block gives the lock back.
        WHEN no_data_found THEN
            RETURN NULL;
    END;
    RETURN v_posse;
END
$$;

COMMENT ON FUNCTION sql_semana_12.travar_para_operador IS
'Locks the document and gives it back if it is as the operator saw it and in no live worker''s hands, else null and locks '
'nothing; the one guard of the operators.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
