-- What the table's constraints would refuse as well, whose errors repeat the row, payload and all; and more: a blank key, a DOCTYPE,
-- a moment without end.
CREATE OR REPLACE FUNCTION sql_semana_12.exigir_documento(
    p_chave TEXT,
    p_nome_arquivo TEXT,
    p_conteudo_xml XML,
    p_inquilino TEXT,
    p_disponivel_em TIMESTAMPTZ,
    p_max_tentativas INTEGER
)
RETURNS VOID
LANGUAGE plpgsql
IMMUTABLE
SET search_path = sql_semana_12, pg_temp
AS $$
BEGIN
    -- No line break or other control character in a key or a tenant's name: both are told in logs, a line each.
    IF p_chave IS NULL OR p_chave !~ '[^[:space:]]' OR p_chave ~ '[[:cntrl:]]' OR length(p_chave) > 200 THEN
        RAISE EXCEPTION 'p_chave must be the key of the document, in at most 200 characters of one line' USING ERRCODE = '22023';
    END IF;
    IF p_nome_arquivo IS NULL OR p_nome_arquivo !~ '[^[:space:]]' OR length(p_nome_arquivo) > 1000 THEN
        RAISE EXCEPTION 'p_nome_arquivo must name the file, in at most 1000 characters' USING ERRCODE = '22023';
    END IF;
    -- A value of type xml may also be empty, bare text or several roots. A DOCTYPE may stand before the root only, behind
    -- declarations and comments; a document that has one can name entities, which a parser may silently empty.
    IF
        p_conteudo_xml IS NULL
        OR p_conteudo_xml IS NOT DOCUMENT
        OR p_conteudo_xml::TEXT ~ '^([[:space:]]|<[?]([^?]|[?]+[^?>])*[?]+>|<!--([^-]|-[^-])*-->)*<!DOCTYPE'
    THEN
        RAISE EXCEPTION 'p_conteudo_xml must be the document itself, with one root and no DOCTYPE' USING ERRCODE = '22023';
    END IF;
    -- No slash: it ends the tenant's name in a key of operation (lesson 09), where two tenants must not meet.
    IF p_inquilino IS NULL OR p_inquilino !~ '[^[:space:]]' OR p_inquilino ~ '[[:cntrl:]/]' OR length(p_inquilino) > 200 THEN
        RAISE EXCEPTION 'p_inquilino must name the tenant, without a slash, in at most 200 characters of one line'
            USING ERRCODE = '22023';
    END IF;
    IF NOT isfinite(p_disponivel_em) THEN
        RAISE EXCEPTION 'p_disponivel_em must be a moment, not %', p_disponivel_em USING ERRCODE = '22023';
    END IF;
    PERFORM exigir_quantidade('p_max_tentativas', p_max_tentativas);
END
$$;

COMMENT ON FUNCTION sql_semana_12.exigir_documento IS
'Refuses a document that makes no sense with 22023, and does not repeat it.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 08
