-- Included by 01_queue.sql and teardown.sql before they drop the schema: what depends on it from outside would be dropped along with it.
-- @pt Incluído por 01_queue.sql e teardown.sql antes de removerem o esquema: o que depende dele, de fora, cairia junto.

DO $guard$
DECLARE
    v_pt BOOLEAN := coalesce(current_setting('lab.lang', TRUE), '') LIKE 'pt%';
    v_estranho TEXT;
BEGIN
    -- What the schema holds, and what belongs to that: the row type of a table, the rule of a view.
    WITH RECURSIVE dentro AS (
        SELECT classid, objid
        FROM pg_depend
        WHERE refclassid = 'pg_namespace'::REGCLASS AND refobjid = to_regnamespace('sql_semana_12') AND deptype = 'n'
        UNION
        SELECT parte.classid, parte.objid
        FROM pg_depend AS parte
        INNER JOIN dentro ON parte.refclassid = dentro.classid AND parte.refobjid = dentro.objid
        WHERE parte.deptype = 'i'
    )

    SELECT pg_describe_object(fora.classid, fora.objid, fora.objsubid) INTO v_estranho
    FROM pg_depend AS fora
    INNER JOIN dentro ON fora.refclassid = dentro.classid AND fora.refobjid = dentro.objid
    CROSS JOIN LATERAL pg_identify_object(fora.classid, fora.objid, fora.objsubid) AS nome
    CROSS JOIN LATERAL pg_identify_object_as_address(fora.classid, fora.objid, fora.objsubid) AS endereco
    WHERE
        fora.deptype = 'n'
        AND (fora.classid, fora.objid) NOT IN (SELECT classid, objid FROM dentro)
        -- A rule, a default, a constraint or a trigger is in the schema of its table.
        AND coalesce(nome.schema, endereco.object_names[1]) IS DISTINCT FROM 'sql_semana_12'
    LIMIT 1;
    IF v_estranho IS NOT NULL THEN
        RAISE EXCEPTION USING
            MESSAGE = format(
                CASE
                    WHEN v_pt THEN 'algo seu depende do esquema sql_semana_12 e se perderia: %s'
                    ELSE 'something of yours depends on the schema sql_semana_12 and would be lost: %s'
                END,
                v_estranho
            ),
            HINT = CASE
                WHEN v_pt THEN 'Remova-o com DROP, ou use outro banco.'
                ELSE 'Drop it yourself, or use another database.'
            END;
    END IF;
END
$guard$;
