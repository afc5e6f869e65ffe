-- The protocol's indexes, besides those of its keys.

-- Only the rows a worker may claim, in the order in which they are claimed: of any tenant, and of one.
CREATE INDEX IF NOT EXISTS fila_documentos_devidos_idx
ON sql_semana_12.fila_documentos (disponivel_em, documento_id)
WHERE status = 'pendente';

CREATE INDEX IF NOT EXISTS fila_documentos_devidos_inquilino_idx
ON sql_semana_12.fila_documentos (inquilino, disponivel_em, documento_id)
WHERE status = 'pendente';

-- For recovery. The deadline itself stays unindexed, so that a renewal can be a heap-only update.
CREATE INDEX IF NOT EXISTS fila_documentos_processando_idx
ON sql_semana_12.fila_documentos (documento_id)
WHERE status = 'processando';

-- Few rows, and what people look for.
CREATE INDEX IF NOT EXISTS fila_documentos_para_pessoas_idx
ON sql_semana_12.fila_documentos (inquilino, documento_id)
WHERE status IN ('conciliacao', 'falhou', 'pausado');

CREATE INDEX IF NOT EXISTS auditoria_falhas_idx
ON sql_semana_12.auditoria (categoria_erro)
WHERE categoria_erro IS NOT NULL;
