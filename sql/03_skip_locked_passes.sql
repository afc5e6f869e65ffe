-- 03 skip_locked_passes: how does one session take the next free document, and see what it is not given?
-- @pt Como uma sessão pega o próximo documento livre e vê o que não recebe?
--
-- Needs  sql/01_queue.sql
-- Run    psql -X -f sql/03_skip_locked_passes.sql          (again whenever you like: it rolls back)
-- See    alone, document 1; and the query that tells locked, processando and free apart.
-- @pt Precisa de sql/01_queue.sql. Pode rodar de novo quando quiser: ele desfaz tudo.
-- @pt Veja, sozinho, o documento 1; e a consulta que distingue bloqueado, processando e livre.
--
-- Run it in a second terminal while a first one holds document 1, and it passes on to document 2:
-- ./lab walk 03 says what to type in which terminal.
-- @pt Rode num segundo terminal enquanto o primeiro segura o documento 1, e ele passa para o documento 2:
-- @pt ./lab walk 03 diz o que digitar em cada terminal.

\set ON_ERROR_STOP on
\setenv PSQL_PAGER ''
SET client_min_messages = warning;
SET "lab.de" = '01';
SET "lab.para" = '04';
\ir require_state.sql

BEGIN;

SELECT documento_id, chave
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE SKIP LOCKED
LIMIT 1;

-- Zero rows above would not mean an empty queue. This tells why. Run it by itself: what is free stays locked until its transaction ends.
WITH livres AS MATERIALIZED (
    SELECT documento_id
    FROM sql_semana_12.fila_documentos
    WHERE status = 'pendente'
    FOR UPDATE SKIP LOCKED
)

SELECT
    count(*) FILTER (WHERE fila.status = 'pendente') AS pendentes,
    count(livres.documento_id) AS livres,
    count(*) FILTER (WHERE fila.status = 'pendente' AND livres.documento_id IS NULL) AS bloqueados,
    count(*) FILTER (WHERE fila.status = 'processando') AS processando
FROM sql_semana_12.fila_documentos AS fila
LEFT JOIN livres ON fila.documento_id = livres.documento_id;

ROLLBACK;
