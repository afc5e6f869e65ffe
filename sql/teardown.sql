-- teardown: removes what the lab made: the schema of this database, and the roles of the server that no database uses any more.
-- @pt Remove o que o laboratório criou: o esquema deste banco e os papéis que nenhum banco do servidor usa mais.
--
-- Needs  nothing; what is not there is passed over.
-- Run    psql -X -f sql/teardown.sql          (once in each database that holds the lab's queue; again whenever you like)
-- See    what became of the schema and of each role.
-- @pt Não precisa de nada; o que não existe é pulado. Rode uma vez em cada banco que tem a fila do laboratório.
-- @pt Veja o que foi feito do esquema e de cada papel.
--
-- Only what carries the lab's mark in its comment is dropped. A role is kept, and it says so, while another database still uses it.
-- @pt Só é removido o que tem a marca do laboratório no comentário. Um papel fica, e o script avisa, enquanto outro banco ainda o usa.

\set ON_ERROR_STOP on
\setenv PSQL_PAGER ''
SET client_min_messages = warning;

BEGIN;

CREATE TEMPORARY TABLE desmontado (
    ordem INTEGER GENERATED ALWAYS AS IDENTITY,
    objeto TEXT NOT NULL,
    resultado TEXT NOT NULL
);

\ir refuse_dependents.sql

DO $teardown$
DECLARE
    v_pt BOOLEAN := coalesce(current_setting('lab.lang', TRUE), '') LIKE 'pt%';
    v_marca TEXT := obj_description(to_regnamespace('sql_semana_12'), 'pg_namespace');
    v_resultado TEXT;
BEGIN
    IF to_regnamespace('sql_semana_12') IS NULL THEN
        v_resultado := CASE WHEN v_pt THEN 'não está aqui' ELSE 'not here' END;
    ELSIF coalesce(v_marca, '') NOT LIKE 'queue lab, state %' THEN
        v_resultado := CASE
            WHEN v_pt THEN 'ficou intacto: não é do laboratório' ELSE 'left untouched: this lab did not make it'
        END;
    ELSE
        SET LOCAL lock_timeout = '900ms';
        DROP SCHEMA sql_semana_12 CASCADE;
        v_resultado := CASE WHEN v_pt THEN 'removido' ELSE 'dropped' END;
    END IF;
    INSERT INTO desmontado (objeto, resultado) VALUES (CASE WHEN v_pt THEN 'esquema' ELSE 'schema' END || ' sql_semana_12', v_resultado);
    -- Where the terminals of a scenario kept their places: here only if one was played by hand.
    IF obj_description(to_regnamespace('sql_semana_12_turns'), 'pg_namespace') = 'queue lab, turns' THEN
        DROP SCHEMA sql_semana_12_turns CASCADE;
        INSERT INTO desmontado (objeto, resultado)
        VALUES (
            CASE WHEN v_pt THEN 'esquema' ELSE 'schema' END || ' sql_semana_12_turns',
            CASE WHEN v_pt THEN 'removido' ELSE 'dropped' END
        );
    END IF;
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION '%', CASE WHEN v_pt THEN 'outra sessão está segurando a fila' ELSE 'another session holds a lock on the queue' END
        USING HINT = CASE WHEN v_pt
            THEN 'Faça COMMIT ou ROLLBACK no outro terminal, ou feche-o. Depois rode este script de novo.'
            ELSE 'COMMIT or ROLLBACK in the other terminal, or close it. Then run this script again.' END;
END
$teardown$;

-- The schema goes first, in a transaction of its own: two teardowns at once would each see the other's schema still use the roles.
COMMIT;

BEGIN;

DO $teardown$
DECLARE
    v_pt BOOLEAN := coalesce(current_setting('lab.lang', TRUE), '') LIKE 'pt%';
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
                    v_resultado := CASE WHEN v_pt THEN 'não está aqui' ELSE 'not here' END;
                ELSIF v_marca IS DISTINCT FROM 'queue lab' THEN
                    v_resultado := CASE
                        WHEN v_pt THEN 'ficou intacto: não é do laboratório' ELSE 'left untouched: this lab did not make it'
                    END;
                ELSE
                    EXECUTE format('DROP ROLE %I', v_papel);
                    v_resultado := CASE WHEN v_pt THEN 'removido' ELSE 'dropped' END;
                END IF;
            EXCEPTION
                WHEN dependent_objects_still_exist THEN
                    -- In this database or in others: the dependencies of shared objects are shared, too.
                    -- None left by now? The last of them let go between the two looks: try again.
                    SELECT
                        CASE WHEN v_pt THEN 'mantido: ainda em uso em: ' ELSE 'kept: still used in ' END
                        || string_agg(
                            DISTINCT coalesce(banco.datname, CASE WHEN v_pt THEN 'servidor' ELSE 'the server' END), ', '
                        )
                    INTO v_resultado
                    FROM pg_shdepend AS uso
                    LEFT JOIN pg_database AS banco ON uso.dbid = banco.oid
                    WHERE uso.refclassid = 'pg_authid'::REGCLASS AND uso.refobjid = to_regrole(v_papel);
                WHEN insufficient_privilege THEN
                    v_resultado := format(
                        CASE WHEN v_pt THEN 'mantido: o papel %s não pode removê-lo' ELSE 'kept: role %s may not drop it' END,
                        current_user
                    );
                WHEN undefined_object OR internal_error THEN
                    v_resultado := CASE
                        WHEN v_pt THEN 'removido por outra sessão neste momento' ELSE 'dropped by another session at this moment'
                    END;
            END;
            EXIT WHEN v_resultado IS NOT NULL;
        END LOOP;
        INSERT INTO desmontado (objeto, resultado)
        VALUES (
            CASE WHEN v_pt THEN 'papel ' ELSE 'role ' END || v_papel,
            coalesce(v_resultado, CASE WHEN v_pt THEN 'mantido: ainda em uso' ELSE 'kept: still used' END)
        );
    END LOOP;
END
$teardown$;

SELECT objeto, resultado
FROM desmontado
ORDER BY ordem;

DROP TABLE desmontado;

COMMIT;
