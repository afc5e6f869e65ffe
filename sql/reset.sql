-- reset: every document back to pendente, as the episode restores its initial state.
-- @pt Todos os documentos de volta a pendente, como o episódio restaura o estado inicial.
--
-- Needs  sql/01_queue.sql
-- Run    psql -X -f sql/reset.sql          (again whenever you like)
-- See    the four documents pending, with no attempt, worker or error.
-- @pt Precisa de sql/01_queue.sql. Pode rodar de novo quando quiser.
-- @pt Veja os quatro documentos pendentes, sem tentativa, worker nem erro.
--
-- It takes documents away from the workers that have them. That is fine between two runs of the episode, and forbidden from lesson 05 on:
-- lesson 10 counts the harm.
-- @pt Ele tira documentos dos workers que os têm. Entre duas execuções do episódio, tudo bem; da lição 05 em diante é proibido:
-- @pt a lição 10 conta o estrago.

\set ON_ERROR_STOP on
\setenv PSQL_PAGER ''
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
