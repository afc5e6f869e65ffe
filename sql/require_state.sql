-- Included by every script but 01: the lab's queue must be here, in a state from lab.de to lab.para, which the script has set.

DO $guard$
DECLARE
    v_marca TEXT := obj_description(to_regnamespace('sql_semana_12'), 'pg_namespace');
    v_estado TEXT := right(v_marca, 2);
    v_de TEXT := current_setting('lab.de');
    v_para TEXT := current_setting('lab.para');
BEGIN
    IF v_marca IS NULL OR v_marca NOT LIKE 'queue lab, state %' THEN
        RAISE EXCEPTION 'the lab''s queue is not in database %', current_database()
            USING HINT = 'Build it first: psql -X -f sql/01_queue.sql';
    END IF;
    IF v_estado > v_para THEN
        RAISE EXCEPTION 'the queue has grown to state %; this script belongs to states % to %', v_estado, v_de, v_para
            USING HINT = 'Build the queue again: psql -X -f sql/01_queue.sql, then the scripts from 05 on, in order';
    END IF;
    IF v_estado < v_de THEN
        RAISE EXCEPTION 'the queue is in state %; this script needs state % first', v_estado, v_de
            USING HINT = 'Run the scripts from 05 on in the order of their numbers';
    END IF;
END
$guard$;
