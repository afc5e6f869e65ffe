-- teardown: removes what the lab made: the schema of this database, and the roles of the server that no database uses any more.
--
-- Needs  nothing; what is not there is passed over.
-- Run    psql -X -f sql/teardown.sql          (once in each database that holds the lab's queue; again whenever you like)
-- See    what became of the schema and of each role.
--
-- Only what carries the lab's mark in its comment is dropped. A role is kept, and it says so, while another database still uses it.

\set ON_ERROR_STOP on
SET client_min_messages = warning;

BEGIN;

CREATE TEMPORARY TABLE desmontado (
    ordem INTEGER GENERATED ALWAYS AS IDENTITY,
    objeto TEXT NOT NULL,
    resultado TEXT NOT NULL
);

DO $teardown$
DECLARE
    v_marca TEXT := obj_description(to_regnamespace('sql_semana_12'), 'pg_namespace');
    v_resultado TEXT;
BEGIN
    IF to_regnamespace('sql_semana_12') IS NULL THEN
        v_resultado := 'not here';
    ELSIF coalesce(v_marca, '') NOT LIKE 'queue lab, state %' THEN
        v_resultado := 'left untouched: this lab did not make it';
    ELSE
        SET LOCAL lock_timeout = '900ms';
        DROP SCHEMA sql_semana_12 CASCADE;
        v_resultado := 'dropped';
    END IF;
    INSERT INTO desmontado (objeto, resultado) VALUES ('schema sql_semana_12', v_resultado);
    -- Where the terminals of a scenario kept their places: here only if one was played by hand.
    IF obj_description(to_regnamespace('sql_semana_12_turns'), 'pg_namespace') = 'queue lab, turns' THEN
        DROP SCHEMA sql_semana_12_turns CASCADE;
        INSERT INTO desmontado (objeto, resultado) VALUES ('schema sql_semana_12_turns', 'dropped');
    END IF;
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION '%', CASE WHEN coalesce(current_setting('lab.lang', TRUE), '') LIKE 'pt%'
        THEN 'outra sessão está segurando a fila'
        ELSE 'another session holds a lock on the queue' END
        USING HINT = CASE WHEN coalesce(current_setting('lab.lang', TRUE), '') LIKE 'pt%'
            THEN 'Faça COMMIT ou ROLLBACK no outro terminal, ou feche-o. Depois rode este script de novo.'
            ELSE 'COMMIT or ROLLBACK in the other terminal, or close it. Then run this script again.' END;
END
$teardown$;

-- The schema goes first, in a transaction of its own: two teardowns at once would each see the other's schema still use the roles.
COMMIT;

BEGIN;

DO $teardown$
DECLARE
    v_papel TEXT;
    v_marca TEXT;
    v_resultado TEXT;
BEGIN
    FOREACH v_papel IN ARRAY ARRAY[
        'sql_semana_12_worker', 'sql_semana_12_reader', 'sql_semana_12_operator', 'sql_semana_12_application'
    ] LOOP
        FOR v_vez IN 1..10 LOOP
            BEGIN
                SELECT shobj_description(papel.oid, 'pg_authid') INTO v_marca
                FROM pg_roles AS papel
                WHERE papel.rolname = v_papel;
                IF NOT found THEN
                    v_resultado := 'not here';
                ELSIF v_marca IS DISTINCT FROM 'queue lab' THEN
                    v_resultado := 'left untouched: this lab did not make it';
                ELSE
                    EXECUTE format('DROP ROLE %I', v_papel);
                    v_resultado := 'dropped';
                END IF;
            EXCEPTION
                WHEN dependent_objects_still_exist THEN
                    -- In this database or in others: the dependencies of shared objects are shared, too.
                    -- None left by now? The last of them let go between the two looks: try again.
                    SELECT 'kept: still used in ' || string_agg(DISTINCT coalesce(banco.datname, 'the server'), ', ')
                    INTO v_resultado
                    FROM pg_shdepend AS uso
                    LEFT JOIN pg_database AS banco ON uso.dbid = banco.oid
                    WHERE uso.refclassid = 'pg_authid'::REGCLASS AND uso.refobjid = to_regrole(v_papel);
                WHEN insufficient_privilege THEN
                    v_resultado := format('kept: role %s may not drop it', current_user);
                WHEN undefined_object OR internal_error THEN
                    v_resultado := 'dropped by another session at this moment';
            END;
            EXIT WHEN v_resultado IS NOT NULL;
        END LOOP;
        INSERT INTO desmontado (objeto, resultado) VALUES ('role ' || v_papel, coalesce(v_resultado, 'kept: still used'));
    END LOOP;
END
$teardown$;

SELECT objeto, resultado
FROM desmontado
ORDER BY ordem;

DROP TABLE desmontado;

COMMIT;
