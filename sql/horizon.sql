-- horizon: who keeps dead rows from being removed? A vacuum takes away only what no transaction may still see.
-- @pt Quem impede que linhas mortas sejam removidas? Um vacuum só leva o que nenhuma transação ainda pode ver.
--
-- Needs  nothing. Sessions of other accounts show only to a member of pg_read_all_stats.
-- Run    psql -X -f sql/horizon.sql          (again whenever you like: it only looks)
-- See    the oldest first. antigo: open for more than ten minutes, or a slot that no standby uses. End it with
--        pg_terminate_backend(pid), ROLLBACK PREPARED or pg_drop_replication_slot, once you know whose it is.
-- @pt Não precisa de nada. Sessões de outras contas só aparecem para quem é membro de pg_read_all_stats.
-- @pt Veja o mais velho primeiro. antigo: aberto há mais de dez minutos, ou um slot que nenhum standby usa. Encerre com
-- @pt pg_terminate_backend(pid), ROLLBACK PREPARED ou pg_drop_replication_slot, depois de saber de quem é.

\set ON_ERROR_STOP on
\setenv PSQL_PAGER ''

SELECT onde, quem, pid, desde, transacoes, antigo
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
ORDER BY transacoes DESC, quem ASC;
