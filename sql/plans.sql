-- Included by 10_operators.sql, in its transaction: which plans the functions of the workers keep.
-- @pt Incluído por 10_operators.sql, na transação dele: que planos as funções dos workers mantêm.

-- The functions that workers call keep the plan of their first call, which saves planning them at each, and walk the indexes: the plan
-- that is right for an empty queue is a sequential scan, and kept it would read all of a queue that has filled since. CREATE OR REPLACE
-- FUNCTION takes such settings away, so they are given again at every installation, by configuracao.planos_fixos. What the settings
-- refuse is still planned where there is no other way, at a cost so high that the server would compile it at each call: hence jit.
DO $planos$
DECLARE
    v_fixos BOOLEAN := (SELECT planos_fixos FROM sql_semana_12.configuracao);
    v_funcao TEXT;
BEGIN
    FOREACH v_funcao IN ARRAY ARRAY[
        'reservar', 'renovar', 'registrar_etapa', 'concluir', 'concluir_lote', 'falhar', 'conciliar', 'recuperar',
        'renovar_lote', 'devolver', 'concluir_e_reservar'
    ] LOOP
        EXECUTE format(
            CASE
                WHEN v_fixos
                    THEN 'ALTER FUNCTION sql_semana_12.%I SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off'
                ELSE 'ALTER FUNCTION sql_semana_12.%I RESET plan_cache_mode RESET enable_seqscan RESET jit'
            END,
            v_funcao
        );
    END LOOP;
    -- These two take the first of many in the order of an index. Sorting would read them all; concluir_lote has to sort its few.
    FOREACH v_funcao IN ARRAY ARRAY['reservar', 'recuperar'] LOOP
        EXECUTE format(
            CASE
                WHEN v_fixos THEN 'ALTER FUNCTION sql_semana_12.%I SET enable_sort = off'
                ELSE 'ALTER FUNCTION sql_semana_12.%I RESET enable_sort'
            END,
            v_funcao
        );
    END LOOP;
END
$planos$;
