-- 02 for_update_waits: what does FOR UPDATE leave behind, that makes others wait?
-- @pt O que o FOR UPDATE deixa para trás que faz os outros esperarem?
--
-- Needs  sql/01_queue.sql
-- Run    psql -X -f sql/02_for_update_waits.sql          (again whenever you like: it rolls back)
-- See    one session takes document 1; the lock on the row is a mark in the row (xmax), the lock manager knows only the table's.
-- @pt Precisa de sql/01_queue.sql. Pode rodar de novo quando quiser: ele desfaz tudo.
-- @pt Veja uma sessão pegar o documento 1; o bloqueio da linha é uma marca na própria linha (xmax), e o gerenciador só conhece o da tabela.
--
-- The waiting itself takes two sessions: ./lab walk 02 says what to type in which terminal.
-- @pt A espera em si pede duas sessões: ./lab walk 02 diz o que digitar em cada terminal.

\set ON_ERROR_STOP on
\setenv PSQL_PAGER ''
SET client_min_messages = warning;
SET "lab.de" = '01';
SET "lab.para" = '04';
\ir require_state.sql

BEGIN;

-- The clauses stand in the order of the episode, FOR UPDATE before LIMIT; PostgreSQL takes them in either order.
SELECT documento_id, chave
FROM sql_semana_12.fila_documentos
WHERE status = 'pendente'
ORDER BY criado_em, documento_id
FOR UPDATE
LIMIT 1;

-- Which rows carry the mark of this transaction?
SELECT
    documento_id,
    xmax = pg_current_xact_id()::XID AS bloqueado_por_mim
FROM sql_semana_12.fila_documentos
ORDER BY documento_id;

-- And what does the lock manager know of the table? No entry for the row.
SELECT locktype, mode, granted
FROM pg_locks
WHERE relation = 'sql_semana_12.fila_documentos'::REGCLASS AND pid = pg_backend_pid()
ORDER BY locktype, mode;

ROLLBACK;
