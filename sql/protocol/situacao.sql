CREATE OR REPLACE VIEW sql_semana_12.situacao AS
WITH hora AS MATERIALIZED (
    SELECT sql_semana_12.relogio() AS agora
)

SELECT
    (
        SELECT count(*)
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.status = 'pendente' AND fila.disponivel_em <= hora.agora
    ) AS aguardando,
    (
        SELECT count(*)
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.status = 'pendente' AND fila.disponivel_em > hora.agora
    ) AS adiados,
    (
        SELECT count(*)
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.status = 'processando' AND fila.reservado_ate >= hora.agora
    ) AS executando,
    (
        SELECT count(*)
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.status = 'processando' AND coalesce(fila.reservado_ate, '-infinity') < hora.agora
    ) AS orfaos,
    (SELECT count(*) FROM sql_semana_12.fila_documentos AS fila WHERE fila.status = 'pausado') AS pausados,
    (SELECT count(*) FROM sql_semana_12.fila_documentos AS fila WHERE fila.status = 'conciliacao') AS em_conciliacao,
    (SELECT count(*) FROM sql_semana_12.fila_documentos AS fila WHERE fila.status = 'falhou') AS falhos,
    (SELECT count(*) FROM sql_semana_12.fila_documentos AS fila WHERE fila.status = 'concluido') AS concluidos,
    (SELECT count(*) FROM sql_semana_12.fila_documentos AS fila WHERE fila.status = 'cancelado') AS cancelados,
    (
        SELECT count(*)
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.status = 'pendente' AND fila.tentativas > 0
    ) AS repetindo,
    (
        SELECT hora.agora - min(fila.disponivel_em)
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.status = 'pendente' AND fila.disponivel_em <= hora.agora
    ) AS maior_espera,
    (
        SELECT max(hora.agora - fila.reservado_ate)
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.status = 'processando' AND fila.reservado_ate < hora.agora
    ) AS maior_atraso,
    (
        SELECT
            max(
                coalesce(
                    (
                        SELECT min(etapa.quando)
                        FROM sql_semana_12.auditoria AS etapa
                        WHERE
                            etapa.inquilino = fila.inquilino
                            AND etapa.documento_id = fila.documento_id
                            AND etapa.token_reserva = fila.token_reserva
                            AND etapa.de = etapa.para
                    ),
                    hora.agora
                ) - fila.iniciado_em
            )
        FROM sql_semana_12.fila_documentos AS fila
        WHERE fila.status = 'processando' AND fila.reservado_ate >= hora.agora
    ) AS maior_demora_para_iniciar,
    (SELECT coalesce(sum(fila.renovacoes), 0) FROM sql_semana_12.fila_documentos AS fila) AS renovacoes,
    (SELECT count(*) FROM sql_semana_12.auditoria AS queda WHERE queda.categoria_erro = 'queda') AS recuperacoes
FROM hora;

COMMENT ON VIEW sql_semana_12.situacao IS
'One row: how many documents are due, put off, in work, orphaned (late), paused, for people, failed, finished, cancelled; how many of '
'those that wait had an attempt; how long the first due one waits, how late the latest orphan is, how long one in work took or has '
'been taking from its claim to its first stage; how many renewals and take-overs there were. Each is counted only where it is asked '
'for: what is live by its index, what is history (finished, cancelled, renewals) by reading the whole queue.';

-- History, newest lesson first: the lines each lesson took away (-) and brought (+). `lab generate` makes the numbered
-- scripts' older editions from it, and adds to it what a new lesson changes.
-- @lesson 10
-- @@
-- -    count(*) FILTER (WHERE fila.status = 'pendente' AND fila.disponivel_em <= hora.agora) AS aguardando,
-- -    count(*) FILTER (WHERE fila.status = 'pendente' AND fila.disponivel_em > hora.agora) AS adiados,
-- -    count(*) FILTER (WHERE fila.status = 'processando' AND fila.reservado_ate >= hora.agora) AS executando,
-- -    count(*) FILTER (
-- +    (
-- +        SELECT count(*)
-- +        FROM sql_semana_12.fila_documentos AS fila
-- +        WHERE fila.status = 'pendente' AND fila.disponivel_em <= hora.agora
-- +    ) AS aguardando,
-- +    (
-- +        SELECT count(*)
-- +        FROM sql_semana_12.fila_documentos AS fila
-- +        WHERE fila.status = 'pendente' AND fila.disponivel_em > hora.agora
-- +    ) AS adiados,
-- +    (
-- +        SELECT count(*)
-- +        FROM sql_semana_12.fila_documentos AS fila
-- +        WHERE fila.status = 'processando' AND fila.reservado_ate >= hora.agora
-- +    ) AS executando,
-- +    (
-- +        SELECT count(*)
-- +        FROM sql_semana_12.fila_documentos AS fila
-- @@
-- -    count(*) FILTER (WHERE fila.status = 'concluido') AS concluidos,
-- -    count(*) FILTER (WHERE fila.status = 'falhou') AS falhos,
-- -    count(*) FILTER (WHERE fila.status = 'conciliacao') AS em_conciliacao,
-- -    max(hora.agora - fila.disponivel_em) FILTER (
-- +    (SELECT count(*) FROM sql_semana_12.fila_documentos AS fila WHERE fila.status = 'pausado') AS pausados,
-- +    (SELECT count(*) FROM sql_semana_12.fila_documentos AS fila WHERE fila.status = 'conciliacao') AS em_conciliacao,
-- +    (SELECT count(*) FROM sql_semana_12.fila_documentos AS fila WHERE fila.status = 'falhou') AS falhos,
-- +    (SELECT count(*) FROM sql_semana_12.fila_documentos AS fila WHERE fila.status = 'concluido') AS concluidos,
-- +    (SELECT count(*) FROM sql_semana_12.fila_documentos AS fila WHERE fila.status = 'cancelado') AS cancelados,
-- +    (
-- +        SELECT count(*)
-- +        FROM sql_semana_12.fila_documentos AS fila
-- +        WHERE fila.status = 'pendente' AND fila.tentativas > 0
-- +    ) AS repetindo,
-- +    (
-- +        SELECT hora.agora - min(fila.disponivel_em)
-- +        FROM sql_semana_12.fila_documentos AS fila
-- @@
-- -    max(hora.agora - fila.reservado_ate) FILTER (
-- +    (
-- +        SELECT max(hora.agora - fila.reservado_ate)
-- +        FROM sql_semana_12.fila_documentos AS fila
-- @@
-- -    ) AS maior_atraso
-- -FROM sql_semana_12.fila_documentos AS fila
-- -CROSS JOIN hora
-- +    ) AS maior_atraso,
-- +    (
-- +        SELECT
-- +            max(
-- +                coalesce(
-- +                    (
-- +                        SELECT min(etapa.quando)
-- +                        FROM sql_semana_12.auditoria AS etapa
-- +                        WHERE
-- +                            etapa.inquilino = fila.inquilino
-- +                            AND etapa.documento_id = fila.documento_id
-- +                            AND etapa.token_reserva = fila.token_reserva
-- +                            AND etapa.de = etapa.para
-- +                    ),
-- +                    hora.agora
-- +                ) - fila.iniciado_em
-- +            )
-- +        FROM sql_semana_12.fila_documentos AS fila
-- +        WHERE fila.status = 'processando' AND fila.reservado_ate >= hora.agora
-- +    ) AS maior_demora_para_iniciar,
-- +    (SELECT coalesce(sum(fila.renovacoes), 0) FROM sql_semana_12.fila_documentos AS fila) AS renovacoes,
-- +    (SELECT count(*) FROM sql_semana_12.auditoria AS queda WHERE queda.categoria_erro = 'queda') AS recuperacoes
-- +FROM hora
-- @lesson 09
-- @@
-- -    count(*) FILTER (WHERE fila.status = 'processando' AND coalesce(fila.reservado_ate, '-infinity') < hora.agora) AS orfaos,
-- +    count(*) FILTER (
-- +        WHERE fila.status = 'processando' AND coalesce(fila.reservado_ate, '-infinity') < hora.agora
-- +    ) AS orfaos,
-- @@
-- +    count(*) FILTER (WHERE fila.status = 'conciliacao') AS em_conciliacao,
-- @lesson 08
-- @@
-- -    count(*) FILTER (WHERE fila.status = 'pendente') AS aguardando,
-- +    count(*) FILTER (WHERE fila.status = 'pendente' AND fila.disponivel_em <= hora.agora) AS aguardando,
-- +    count(*) FILTER (WHERE fila.status = 'pendente' AND fila.disponivel_em > hora.agora) AS adiados,
-- @@
-- -    count(*) FILTER (
-- -        WHERE fila.status = 'processando' AND coalesce(fila.reservado_ate, '-infinity') < hora.agora
-- -    ) AS orfaos,
-- +    count(*) FILTER (WHERE fila.status = 'processando' AND coalesce(fila.reservado_ate, '-infinity') < hora.agora) AS orfaos,
-- @@
-- +    max(hora.agora - fila.disponivel_em) FILTER (
-- +        WHERE fila.status = 'pendente' AND fila.disponivel_em <= hora.agora
-- +    ) AS maior_espera,
-- @lesson 05
