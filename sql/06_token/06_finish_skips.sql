-- A finish written with SKIP LOCKED loses the result: a stranger's short lock on the row, and the owner is told zero rows.
-- @pt Uma conclusão escrita com SKIP LOCKED perde o resultado: basta alguém bloquear a linha por um instante, e o dono recebe zero linhas.
-- @step a_claims A
SELECT documento_id, token_reserva
FROM reservar('worker-a');
-- @step m_begin M
BEGIN;
-- @step m_locks M
-- A monitor looks at document 1 and, so that nothing moves meanwhile, locks it.
-- @pt Um monitor olha o documento 1 e, para que nada mude enquanto isso, bloqueia a linha.
SELECT documento_id, status
FROM fila_documentos
WHERE documento_id = 1
FOR SHARE;
-- @step a_skips A
-- A owns document 1, and its token stands. How many rows does this finish change?
-- @pt O documento 1 é de A, e o token dele vale. Quantas linhas esta conclusão altera?
UPDATE fila_documentos
SET status = 'concluido', concluido_em = relogio()
WHERE
    documento_id = (
        SELECT documento_id
        FROM fila_documentos
        WHERE documento_id = 1 AND status = 'processando' AND token_reserva = 1
        FOR UPDATE SKIP LOCKED
    )
RETURNING documento_id, status;
-- @step c_reads C
-- A's finish changed no row: M holds it, and SKIP LOCKED passes over it. To A, zero rows mean "not yours any more", so A would throw its
-- result away. Yet whose is the document?
-- @pt A conclusão de A não alterou nenhuma linha: M segura a linha, e o SKIP LOCKED a pula. Zero linhas quer dizer "não é mais seu", e A
-- @pt jogaria o resultado fora. No entanto, de quem é o documento?
SELECT status, worker_id, token_reserva, reservado_ate > relogio() AS vale
FROM fila_documentos
WHERE documento_id = 1;
-- @step a_finishes A blocks M
-- SKIP LOCKED passed over the row that M holds: hence zero rows. concluir waits for the lock, and then decides.
-- @pt O SKIP LOCKED pulou a linha que M segura: daí as zero linhas. concluir espera pelo bloqueio e só então decide.
SELECT documento_id, status
FROM concluir(1, 1);
-- @step m_ends M
COMMIT;
-- @ends a_finishes
