-- A long report keeps dead rows from being removed; a session that lies idle in a transaction does so once it has written.
-- @pt Um relatório longo impede a remoção de linhas mortas; uma sessão parada numa transação também, a partir do momento em que gravou.
-- @step r_begin R
-- A report that wants one state of the data from beginning to end.
-- @pt Um relatório que quer um só estado dos dados, do começo ao fim.
BEGIN;
-- @step r_level R
SET transaction_isolation = 'repeatable read';
-- @step r_reads R
SELECT count(*) AS documentos
FROM fila_documentos;
-- @step i_begin I
-- I is idle in a transaction, too, and has done nothing in it yet.
-- @pt I também está parado numa transação, e ainda não fez nada nela.
BEGIN;
-- @step a_claims A
-- A worker goes on meanwhile.
-- @pt Enquanto isso um worker continua.
SELECT documento_id
FROM reservar('worker-a');
-- @step o_asks O
-- Who keeps dead rows from being removed?
-- @pt Quem impede que linhas mortas sejam removidas?
SELECT application_name AS quem
FROM pg_stat_activity
WHERE
    datname = current_database()
    AND state = 'idle in transaction'
    AND coalesce(backend_xmin, backend_xid) IS NOT NULL
ORDER BY application_name;
-- @step i_writes I
-- Now I writes, and stays idle. Who holds them now?
-- @pt Agora I grava, e continua parado. Quem as segura agora?
UPDATE fila_documentos
SET ultimo_erro = 'visto'
WHERE documento_id = 4;
-- @step o_asks_again O
SELECT application_name AS quem
FROM pg_stat_activity
WHERE
    datname = current_database()
    AND state = 'idle in transaction'
    AND coalesce(backend_xmin, backend_xid) IS NOT NULL
ORDER BY application_name;
-- @step r_ends R
COMMIT;
-- @step i_ends I
ROLLBACK;
-- @step o_asks_at_last O
SELECT application_name AS quem
FROM pg_stat_activity
WHERE
    datname = current_database()
    AND state = 'idle in transaction'
    AND coalesce(backend_xmin, backend_xid) IS NOT NULL
ORDER BY application_name;
