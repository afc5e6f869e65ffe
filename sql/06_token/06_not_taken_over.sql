-- After its lease has ended, a document that no other worker has taken may still be renewed and finished: the same token still stands.
-- @pt Uma reserva vencida que ninguém assumiu ainda pode ser renovada, e o documento, concluído: o mesmo token continua valendo.
-- @step a_claims A
SELECT documento_id, token_reserva
FROM reservar('worker-a');
-- @step c_waits C
-- A minute goes by on the lab's clock: twice the lease.
-- @pt Passa um minuto no relógio do laboratório: o dobro do prazo da reserva.
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '1 minute'
RETURNING adiantado;
-- @step c_looks C
-- The lease has ended, but nothing has happened to the row.
-- @pt A reserva venceu, mas nada aconteceu com a linha.
SELECT status, token_reserva, reservado_ate < relogio() AS vencida
FROM fila_documentos
WHERE documento_id = 1;
-- @step a_renews A
-- A comes back, late, and renews. How many rows change?
-- @pt O worker A volta, atrasado, e renova. Quantas linhas mudam?
SELECT documento_id, reservado_ate > relogio() AS vale
FROM renovar(1, 1);
-- @step c_recovers C
-- The recovery comes a moment later. What does it find?
-- @pt A recuperação chega um instante depois. O que ela encontra?
SELECT documento_id, status
FROM recuperar('vigia');
-- @step c_waits_again C
UPDATE relogio_do_laboratorio
SET adiantado = INTERVAL '2 minutes'
RETURNING adiantado;
-- @step a_finishes A
-- The renewed lease has ended, too. Does A's finish get through?
-- @pt A reserva renovada também venceu. A conclusão de A passa?
SELECT documento_id, status
FROM concluir(1, 1);
-- @step c_recovers_again C
-- No other worker has had the document, so there is nothing that A could have destroyed.
-- @pt Ninguém mais pegou o documento, portanto não havia nada que A pudesse destruir.
SELECT documento_id, status
FROM recuperar('vigia');
-- @step c_reads C
SELECT de, para, token_reserva, quem
FROM auditoria
WHERE documento_id = 1
ORDER BY versao;
-- @invariant concluido_fica_concluido
-- A document that was finished once stays finished.
-- @pt Um documento concluído uma vez continua concluído.
SELECT documento_id, status
FROM fila_documentos
WHERE
    status <> 'concluido'
    AND documento_id IN (SELECT auditoria.documento_id FROM auditoria WHERE auditoria.para = 'concluido');
