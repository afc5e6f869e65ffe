-- A new function may be executed by everyone until that is revoked: with SECURITY DEFINER it does for anybody what its owner may.
-- @pt Uma função nova pode ser executada por todos até que isso seja revogado: com SECURITY DEFINER, faz por qualquer um o que o dono pode.
-- @setup
CREATE FUNCTION sql_semana_12.esvaziar()
RETURNS BIGINT
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = sql_semana_12, pg_temp
AS $$
DECLARE
    v_apagados BIGINT;
BEGIN
    DELETE FROM fila_documentos;
    GET DIAGNOSTICS v_apagados = ROW_COUNT;
    RETURN v_apagados;
END
$$;
-- @step b_role B
-- esvaziar is new. No role was granted anything on it.
-- @pt esvaziar é nova. Ninguém recebeu nenhum direito sobre ela.
SET ROLE sql_semana_12_reader;
-- @step b_deletes B errors 42501
DELETE FROM fila_documentos;
-- @step b_begin B
BEGIN;
-- @step b_empties B
-- The reader may delete nothing. What does the function do for it?
-- @pt O leitor não pode apagar nada. O que a função faz por ele?
SELECT esvaziar() AS apagados;
-- @step b_rolls_back B
ROLLBACK;
-- @step o_revokes O
REVOKE ALL ON FUNCTION sql_semana_12.esvaziar() FROM public;
-- @step b_empties_again B errors 42501
SELECT esvaziar() AS apagados;
-- @step o_counts O
-- Of the protocol's functions, how many may everyone execute?
-- @pt Das funções do protocolo, quantas todos podem executar?
SELECT count(*) AS de_todos
FROM pg_proc
WHERE pronamespace = 'sql_semana_12'::REGNAMESPACE AND has_function_privilege('public', oid, 'EXECUTE');
