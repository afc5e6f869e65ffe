-- A reason as it is kept and logged: one short line, from which what it recognizes as the document's or as a credential is taken out.
-- It misses some, so it is the last line of defence: a worker writes a reason of its own, with nothing quoted in it. No backslash in a
-- plain string: what it means is a setting of the session.
CREATE OR REPLACE FUNCTION sql_semana_12.resumir(p_motivo TEXT)
RETURNS TEXT
LANGUAGE plpgsql
IMMUTABLE
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    -- From its first word on, and cut before anything else, so that a reason of a megabyte costs little.
    v_motivo TEXT := left(regexp_replace(p_motivo, '^[[:space:]]+', ''), 2000);
BEGIN
    -- Below its first line an error quotes the document (libxml), the statement or the row (DETAIL).
    v_motivo := regexp_replace(v_motivo, E'[\r\n].*', '');
    -- What is quoted or in brackets is a name at best, and a value of the document at worst.
    v_motivo := regexp_replace(v_motivo, '<.*', '<...>');
    v_motivo := regexp_replace(v_motivo, '"[^"]*("|$)', '"..."', 'g');
    v_motivo := regexp_replace(v_motivo, '''[^'']*''', '''...''', 'g');
    v_motivo := regexp_replace(v_motivo, '=[(].*', '=(...)');
    v_motivo := regexp_replace(
        v_motivo,
        '((password|passwd|pwd|senha|secret[[:alnum:]_]*|token|api_?key)[[:space:]]*[=:]|[[:<:]]bearer[[:space:]])[[:space:]]*[^[:space:]]+',
        E'\\1...',
        'gi'
    );
    v_motivo := regexp_replace(v_motivo, '[[:<:]](authorization|cookie)[[:space:]]*[=:].*', E'\\1: ...', 'i');
    v_motivo := regexp_replace(v_motivo, '://[^[:space:]]*@', '://...@', 'g');
    -- Who it is about: the number of a person or a company (CPF, CNPJ), and any other of so many digits.
    v_motivo := regexp_replace(
        v_motivo,
        '[[:digit:]]{11,}|([[:digit:]]{3}[.]){2}[[:digit:]]{3}-[[:digit:]]{2}'
        '|[[:alnum:]_]{2}[.][[:alnum:]_]{3}[.][[:alnum:]_]{3}/[[:alnum:]_]{4}-[[:digit:]]{2}',
        '...',
        'g'
    );
    RETURN left(btrim(regexp_replace(v_motivo, '[[:space:]]+', ' ', 'g')), 200);
END
$$;

COMMENT ON FUNCTION sql_semana_12.resumir IS
'A reason cut to its first line and 200 characters. It takes out elements, quoted words, credentials and long numbers as it '
'recognizes them, and will miss some: write reasons that hold none.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 08
