-- Included by every script but 01: the lab's queue must be here, in a state from lab.de to lab.para, which the script has set.
-- @pt Incluído por todos os scripts, menos o 01: a fila do laboratório precisa estar aqui, num estado de lab.de a lab.para.
--
-- A refusal is told in Portuguese if the session asks for it: SET lab.lang = 'pt', or PGOPTIONS='-c lab.lang=pt' around psql.
-- @pt Recusas saem em português se a sessão pedir: SET lab.lang = 'pt', ou PGOPTIONS='-c lab.lang=pt' antes do psql.

DO $guard$
DECLARE
    v_pt BOOLEAN := coalesce(current_setting('lab.lang', TRUE), '') ILIKE 'pt%';
    v_marca TEXT := obj_description(to_regnamespace('sql_semana_12'), 'pg_namespace');
    v_estado TEXT := right(v_marca, 2);
    v_de TEXT := current_setting('lab.de');
    v_para TEXT := current_setting('lab.para');
BEGIN
    IF v_marca IS NULL OR v_marca NOT LIKE 'queue lab, state %' THEN
        RAISE EXCEPTION USING
            MESSAGE = format(
                CASE WHEN v_pt THEN 'a fila do laboratório não está no banco %s' ELSE 'the lab''s queue is not in database %s' END,
                current_database()
            ),
            HINT = CASE WHEN v_pt THEN 'Crie a fila primeiro' ELSE 'Build it first' END || ': psql -X -f sql/01_queue.sql';
    END IF;
    IF v_estado > v_para THEN
        RAISE EXCEPTION USING
            MESSAGE = format(
                CASE
                    WHEN v_pt THEN 'a fila já está no estado %s; este script é dos estados %s a %s'
                    ELSE 'the queue has grown to state %s; this script belongs to states %s to %s'
                END,
                v_estado, v_de, v_para
            ),
            HINT = CASE
                WHEN v_pt THEN 'Crie a fila de novo: psql -X -f sql/01_queue.sql, depois os scripts a partir do 05, em ordem'
                ELSE 'Build the queue again: psql -X -f sql/01_queue.sql, then the scripts from 05 on, in order'
            END;
    END IF;
    IF v_estado < v_de THEN
        RAISE EXCEPTION USING
            MESSAGE = format(
                CASE
                    WHEN v_pt THEN 'a fila está no estado %s; este script precisa antes do estado %s'
                    ELSE 'the queue is in state %s; this script needs state %s first'
                END,
                v_estado, v_de
            ),
            HINT = CASE
                WHEN v_pt THEN 'Rode os scripts a partir do 05 na ordem dos números'
                ELSE 'Run the scripts from 05 on in the order of their numbers'
            END;
    END IF;
END
$guard$;
