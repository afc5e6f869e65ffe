-- reset: every document back to pendente, as the episode restores its initial state.
--
-- Needs  sql/01_queue.sql
-- Run    psql -X -f sql/reset.sql          (again whenever you like)
-- See    the four documents pending, with no attempt, worker or error.
--
-- It takes documents away from the workers that have them. That is fine between two runs of the episode, and forbidden from lesson 05 on:
-- lesson 10 counts the harm.

\set ON_ERROR_STOP on
SET client_min_messages = warning;
SET "lab.de" = '01';
SET "lab.para" = '04';
SET "lab.muda" = 'sim';
\ir require_state.sql

UPDATE sql_semana_12.fila_documentos
SET
    status = 'pendente',
    tentativas = 0,
    worker_id = NULL,
    iniciado_em = NULL,
    concluido_em = NULL,
    ultimo_erro = NULL;

SELECT documento_id, chave, status, tentativas
FROM sql_semana_12.fila_documentos
ORDER BY criado_em, documento_id;
