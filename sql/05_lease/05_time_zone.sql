-- A deadline in timestamp without time zone depends on who writes it and who reads it: it expires at once, or hours late.
-- @pt Um prazo em timestamp without time zone depende de quem grava e de quem lê: vence na hora, ou com horas de atraso.
-- @setup
ALTER TABLE fila_documentos ADD COLUMN reservado_ate_local TIMESTAMP;
-- @step a_zone A
-- A's session is three hours behind UTC, as in São Paulo; C's session is in UTC.
-- @pt A sessão de A está três horas atrás de UTC, como em São Paulo; a de C está em UTC.
SET TIME ZONE '-3';
-- @step a_claims A
-- A writes one deadline, an hour from now, in both columns.
-- @pt A grava um só prazo, daqui a uma hora, nas duas colunas.
WITH hora AS MATERIALIZED (
    SELECT relogio() AS agora
)
UPDATE fila_documentos
SET
    status = 'processando',
    worker_id = 'worker-a',
    reservado_ate = hora.agora + INTERVAL '1 hour',
    reservado_ate_local = hora.agora + INTERVAL '1 hour'
FROM hora
WHERE documento_id = 1
RETURNING documento_id;
-- @step b_zone B
-- B's session is nine hours ahead, as in Tokyo. B does the same with document 2.
-- @pt A sessão de B está nove horas adiante, como em Tóquio. B faz o mesmo com o documento 2.
SET TIME ZONE '9';
-- @step b_claims B
WITH hora AS MATERIALIZED (
    SELECT relogio() AS agora
)
UPDATE fila_documentos
SET
    status = 'processando',
    worker_id = 'worker-b',
    reservado_ate = hora.agora + INTERVAL '1 hour',
    reservado_ate_local = hora.agora + INTERVAL '1 hour'
FROM hora
WHERE documento_id = 2
RETURNING documento_id;
-- @step c_looks C
-- C looks at once. Which leases hold, by the one column and by the other, and by how much do the two differ?
-- @pt C olha logo em seguida. Quais reservas valem, por uma coluna e pela outra, e de quanto é a diferença entre as duas?
SELECT
    documento_id,
    reservado_ate > relogio() AS vale_com_fuso,
    reservado_ate_local > relogio() AS vale_sem_fuso,
    reservado_ate_local - reservado_ate AS diferenca
FROM fila_documentos
WHERE status = 'processando'
ORDER BY documento_id;
-- @step c_moves C
-- Two hours pass: both leases have ended an hour ago.
-- @pt Passam duas horas: as duas reservas venceram há uma hora.
UPDATE relogio_do_laboratorio
SET adiantado = adiantado + INTERVAL '2 hours'
RETURNING adiantado;
-- @step c_looks_again C
SELECT
    documento_id,
    reservado_ate > relogio() AS vale_com_fuso,
    reservado_ate_local > relogio() AS vale_sem_fuso
FROM fila_documentos
WHERE status = 'processando'
ORDER BY documento_id;
