-- What enfileirar does, for a batch in one round trip; in the order of the keys, so that two batches with the same keys never deadlock.
CREATE OR REPLACE FUNCTION sql_semana_12.enfileirar_lote(
    p_chaves TEXT[],
    p_nomes_arquivo TEXT[],
    p_conteudos XML[],
    p_inquilino TEXT DEFAULT 'padrao',
    p_disponivel_em TIMESTAMPTZ DEFAULT NULL,
    p_max_tentativas INTEGER DEFAULT NULL
)
RETURNS TABLE (chave TEXT, documento_id BIGINT, novo BOOLEAN)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_quantos INTEGER := cardinality(p_chaves);
BEGIN
    IF v_quantos IS NULL OR v_quantos > 1000 OR array_ndims(p_chaves) > 1 THEN
        RAISE EXCEPTION 'p_chaves must be a list of at most 1000 keys' USING ERRCODE = '22023';
    END IF;
    IF p_nomes_arquivo IS NULL OR array_ndims(p_nomes_arquivo) > 1 OR cardinality(p_nomes_arquivo) <> v_quantos THEN
        RAISE EXCEPTION 'p_nomes_arquivo must be the file name of each of p_chaves' USING ERRCODE = '22023';
    END IF;
    IF p_conteudos IS NULL OR array_ndims(p_conteudos) > 1 OR cardinality(p_conteudos) <> v_quantos THEN
        RAISE EXCEPTION 'p_conteudos must be the content of each of p_chaves' USING ERRCODE = '22023';
    END IF;
    RETURN QUERY
    SELECT pedido.chave, feito.documento_id, feito.novo
    FROM (
        SELECT lista.chave, lista.nome, lista.documento
        FROM unnest(p_chaves, p_nomes_arquivo, p_conteudos) AS lista (chave, nome, documento)
        ORDER BY lista.chave
    ) AS pedido
    CROSS JOIN LATERAL enfileirar(
        pedido.chave, pedido.nome, pedido.documento, p_inquilino, p_disponivel_em, p_max_tentativas
    ) AS feito;
END
$$;

COMMENT ON FUNCTION sql_semana_12.enfileirar_lote IS
'Brings up to 1000 documents of one tenant into the queue, all or (if it raises) none, each as enfileirar does; a row a document, in '
'the order of the keys. Zero rows: p_chaves is empty.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
