-- alerts: four questions to ask again and again. Zero rows: none of the four is so.
-- @pt Quatro perguntas para repetir sempre. Zero linhas: nenhum dos quatro casos.
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
