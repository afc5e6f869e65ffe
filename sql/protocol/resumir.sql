-- A reason as it may be kept and logged: one short line, without what may be the document's and without credentials. It is the
-- last line of defence: a worker writes a reason of its own, with nothing quoted in it.
CREATE OR REPLACE FUNCTION sql_semana_12.resumir(p_motivo TEXT)
RETURNS TEXT
LANGUAGE plpgsql
IMMUTABLE
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    -- From its first word on, and cut before anything else, so that a reason of a megabyte costs little.
    v_motivo TEXT := left(regexp_replace(p_motivo, '^\s+', ''), 2000);
BEGIN
    -- Below its first line an error quotes the document (libxml), the statement or the row (DETAIL).
    v_motivo := regexp_replace(v_motivo, '[\r\n].*', '');
    -- What is quoted or in brackets is a name at best, and a value of the document at worst.
    v_motivo := regexp_replace(v_motivo, '<.*', '<...>');
    v_motivo := regexp_replace(v_motivo, '"[^"]*("|$)', '"..."', 'g');
    v_motivo := regexp_replace(v_motivo, '''[^'']*''', '''...''', 'g');
    v_motivo := regexp_replace(v_motivo, '=\(.*', '=(...)');
    v_motivo := regexp_replace(
        v_motivo, '((password|passwd|pwd|senha|secret\w*|token|api_?key)\s*[=:]|\mbearer\s)\s*\S+', '\1...', 'gi'
    );
    v_motivo := regexp_replace(v_motivo, '\m(authorization|cookie)\s*[=:].*', '\1: ...', 'i');
    v_motivo := regexp_replace(v_motivo, '://\S*@', '://...@', 'g');
    -- Who it is about: the number of a person or a company (CPF, CNPJ), and any other of so many digits.
    v_motivo := regexp_replace(
        v_motivo, '\d{11,}|\d{3}\.\d{3}\.\d{3}-\d{2}|\w{2}\.\w{3}\.\w{3}/\w{4}-\d{2}', '...', 'g'
    );
    RETURN left(btrim(regexp_replace(v_motivo, '\s+', ' ', 'g')), 200);
END
$$;

COMMENT ON FUNCTION sql_semana_12.resumir IS
'A reason cut to its first line and 200 characters, without elements, quoted words, credentials and long numbers.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 08
