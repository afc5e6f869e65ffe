-- Included by every script but 01: the lab's queue must be here, in a state from lab.de to lab.para, which the script has set.
-- One that changes the queue has set lab.muda too: then the schema must be its own alone, since what another role creates there could run
-- with its rights; and no other session may hold a lock on the queue, or the script would wait without a word.
-- @pt Incluído por todos os scripts, menos o 01: a fila do laboratório precisa estar aqui, num estado de lab.de a lab.para.
-- @pt Um script que muda a fila também define lab.muda: o esquema precisa ser só dele, pois o que outro papel cria ali poderia rodar com os
-- @pt direitos dele; e nenhuma outra sessão pode segurar a fila, ou ele esperaria sem dizer nada.
--
-- A refusal is told in Portuguese if the session asks for it: SET lab.lang = 'pt', or PGOPTIONS='-c lab.lang=pt' around psql.
-- @pt Recusas saem em português se a sessão pedir: SET lab.lang = 'pt', ou PGOPTIONS='-c lab.lang=pt' antes do psql.

DO $guard$
DECLARE
    v_marca TEXT := obj_description(to_regnamespace('sql_semana_12'), 'pg_namespace');
    v_estado TEXT := right(v_marca, 2);
    v_de TEXT := current_setting('lab.de');
    v_para TEXT := current_setting('lab.para');
    v_pt BOOLEAN := coalesce(current_setting('lab.lang', TRUE), '') LIKE 'pt%';
    v_tabela REGCLASS;
    v_outros TEXT;
BEGIN
    IF v_marca IS NULL OR v_marca NOT LIKE 'queue lab, state %' THEN
        RAISE EXCEPTION '%', format(
            CASE WHEN v_pt
                THEN 'a fila do laboratório não está no banco %s'
                ELSE 'the lab''s queue is not in database %s' END,
            current_database()
        ) USING HINT = CASE WHEN v_pt
            THEN 'Crie a fila antes: psql -X -f sql/01_queue.sql'
            ELSE 'Build it first: psql -X -f sql/01_queue.sql' END;
    END IF;
    IF v_estado > v_para THEN
        RAISE EXCEPTION '%', format(
            CASE WHEN v_pt
                THEN 'a fila já está no estado %s; este script é dos estados %s a %s'
                ELSE 'the queue has grown to state %s; this script belongs to states %s to %s' END,
            v_estado, v_de, v_para
        ) USING HINT = CASE WHEN v_pt
            THEN 'Crie a fila de novo: psql -X -f sql/01_queue.sql; depois, os scripts de 05 em diante, na ordem'
            ELSE 'Build the queue again: psql -X -f sql/01_queue.sql, then the scripts from 05 on, in order' END;
    END IF;
    IF v_estado < v_de THEN
        RAISE EXCEPTION '%', format(
            CASE WHEN v_pt
                THEN 'a fila está no estado %s; este script precisa antes do estado %s'
                ELSE 'the queue is in state %s; this script needs state %s first' END,
            v_estado, v_de
        ) USING HINT = CASE WHEN v_pt
            THEN 'Rode os scripts de 05 em diante, na ordem dos números'
            ELSE 'Run the scripts from 05 on in the order of their numbers' END;
    END IF;
    IF current_setting('lab.muda', TRUE) = 'sim' THEN
        IF (SELECT pg_get_userbyid(nspowner) <> current_user FROM pg_namespace WHERE nspname = 'sql_semana_12') THEN
            RAISE EXCEPTION '%', format(
                CASE WHEN v_pt
                    THEN 'o esquema sql_semana_12 do laboratório é de outro papel; %s não pode mudá-lo'
                    ELSE 'the lab''s schema sql_semana_12 belongs to another role, so %s may not change it' END,
                current_user
            ) USING HINT = CASE WHEN v_pt
                THEN 'Rode como o dono do esquema, ou em outro banco.'
                ELSE 'Run this as its owner, or in another database.' END;
        END IF;
        SELECT string_agg(DISTINCT coalesce(quote_ident(papel.rolname), 'PUBLIC'), ', ') INTO v_outros
        FROM pg_namespace AS esquema
        CROSS JOIN LATERAL aclexplode(esquema.nspacl) AS direito
        LEFT JOIN pg_roles AS papel ON direito.grantee = papel.oid
        WHERE
            esquema.nspname = 'sql_semana_12'
            AND direito.privilege_type = 'CREATE'
            AND direito.grantee <> esquema.nspowner;
        IF v_outros IS NOT NULL THEN
            RAISE EXCEPTION '%', format(
                CASE WHEN v_pt
                    THEN 'outros podem criar objetos no esquema sql_semana_12, que rodariam com os direitos do dono: %s'
                    ELSE 'others may create in schema sql_semana_12 what would run with its owner''s rights: %s' END,
                v_outros
            ) USING HINT = format('REVOKE CREATE ON SCHEMA sql_semana_12 FROM %s;', v_outros);
        END IF;
        SET LOCAL lock_timeout = '900ms';
        FOR v_tabela IN
            SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace('sql_semana_12') AND relkind = 'r'
        LOOP
            EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', v_tabela);
        END LOOP;
    END IF;
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION '%', CASE WHEN v_pt
        THEN 'outra sessão está segurando a fila'
        ELSE 'another session holds a lock on the queue' END
        USING HINT = CASE WHEN v_pt
            THEN 'Faça COMMIT ou ROLLBACK no outro terminal, ou feche-o. Depois rode este script de novo.'
            ELSE 'COMMIT or ROLLBACK in the other terminal, or close it. Then run this script again.' END;
END
$guard$;

RESET "lab.muda";
