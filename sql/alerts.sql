-- alerts: five questions to ask again and again. Zero rows: none of the five is so.
-- @pt Cinco perguntas para repetir sempre. Zero linhas: nenhum dos cinco casos.
--
-- Needs  sql/10_operators.sql
-- Run    psql -X -f sql/alerts.sql          (again whenever you like: it only looks)
-- See    nothing, as long as workers come and go as they should. The limits are examples: set your own.
-- @pt Precisa de sql/10_operators.sql. Pode rodar de novo quando quiser: ele só olha.
-- @pt Veja nada, enquanto os workers vão e vêm como devem. Os limites são exemplos: escolha os seus.

\set ON_ERROR_STOP on
\setenv PSQL_PAGER ''
SET client_min_messages = warning;
SET "lab.de" = '10';
SET "lab.para" = '99';
\ir require_state.sql

-- Leases end, and no recovery takes their documents: is anything calling recuperar?
SELECT orfaos, maior_atraso
FROM sql_semana_12.situacao
WHERE orfaos > 0 AND coalesce(maior_atraso > INTERVAL '2 minutes', TRUE);

-- What is due waits, and no worker claims it: too few workers, or none?
SELECT maior_espera
FROM sql_semana_12.situacao
WHERE maior_espera > INTERVAL '10 minutes';

-- People are needed: what became of these calls is unknown.
SELECT
    count(*) AS em_conciliacao,
    min(documento_id) AS documento_id
FROM sql_semana_12.para_pessoas
WHERE status = 'conciliacao'
HAVING count(*) > 0;

-- Others may create in the queue's schema: the protocol's functions call nothing of theirs, but a caller's own statement may.
SELECT coalesce(pg_roles.rolname, 'PUBLIC') AS pode_criar
FROM pg_namespace
CROSS JOIN LATERAL aclexplode(pg_namespace.nspacl) AS acl
LEFT JOIN pg_roles ON acl.grantee = pg_roles.oid
WHERE
    pg_namespace.oid = to_regnamespace('sql_semana_12')
    AND acl.privilege_type = 'CREATE'
    AND acl.grantee <> pg_namespace.nspowner;

-- Something old keeps dead rows from being removed, so that claims read more and more: who?
SELECT onde, quem, pid, desde, transacoes
FROM (
    SELECT
        'pg_stat_activity' AS onde,
        application_name AS quem,
        pid,
        xact_start AS desde,
        greatest(age(backend_xmin), age(backend_xid)) AS transacoes,
        xact_start < clock_timestamp() - INTERVAL '10 minutes' AS antigo
    FROM pg_stat_activity
    WHERE
        datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
        AND coalesce(backend_xmin, backend_xid) IS NOT NULL
    UNION ALL
    SELECT
        'pg_prepared_xacts' AS onde,
        gid AS quem,
        NULL AS pid,
        prepared AS desde,
        age(transaction) AS transacoes,
        prepared < clock_timestamp() - INTERVAL '10 minutes' AS antigo
    FROM pg_prepared_xacts
    WHERE database = current_database()
    UNION ALL
    -- A logical slot holds back the catalog (catalog_xmin), not the queue.
    SELECT
        'pg_replication_slots' AS onde,
        slot_name AS quem,
        active_pid AS pid,
        NULL AS desde,
        age(xmin) AS transacoes,
        NOT active AS antigo
    FROM pg_replication_slots
    WHERE xmin IS NOT NULL
    UNION ALL
    -- A standby without a slot lets go when it goes away.
    SELECT
        'pg_stat_replication' AS onde,
        application_name AS quem,
        pid,
        NULL AS desde,
        age(backend_xmin) AS transacoes,
        FALSE AS antigo
    FROM pg_stat_replication
    WHERE backend_xmin IS NOT NULL
) AS retem
WHERE antigo
ORDER BY transacoes DESC, quem ASC;
