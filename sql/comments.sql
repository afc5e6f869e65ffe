-- Included by 10_operators.sql, in its transaction: what each column is for, and what states, stages and classes mean.
-- @pt Incluído por 10_operators.sql, na transação dele: para que serve cada coluna e o que significam estados, etapas e classes.

COMMENT ON TABLE sql_semana_12.fila_documentos IS
'One row for each document. Only the functions change it; a worker holds it by a token, an operator by the version they have seen.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.documento_id IS
'The number of the document, drawn by the identity; with inquilino the primary key.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.inquilino IS
'The tenant: its keys are its own. Every function takes one; null is any.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.chave IS
'What the application calls the document, once in its tenant: enfileirar with a known key brings nothing new.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.nome_arquivo IS
'The file it came from.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.conteudo_xml IS
'The document itself. No role reads it but the worker, by reservar.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.conteudo_sha256 IS
'SHA-256 of the content, by which enfileirar tells another content under a known key (QL001); null where it came by COPY.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.status IS
'pendente: waits for a claim, from disponivel_em on. processando: in work under token_reserva until reservado_ate. concluido: finished. '
'falhou: ended without a result, and nothing was executed. conciliacao: whether it was executed is for people to find out. pausado: put '
'aside by an operator. cancelado: given up by one.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.tentativas IS
'Attempts so far; one is counted when it is claimed, so that a crash counts.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.max_tentativas IS
'The most attempts it may have; after the last one destino decides.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.worker_id IS
'What the worker calls itself that has it, or had it last. It proves nothing.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.criado_em IS
'When it came.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.disponivel_em IS
'From when on it may be claimed; the longest due is claimed first.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.iniciado_em IS
'When the present attempt was claimed; its maximum run time counts from here.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.concluido_em IS
'When it ended as concluido, falhou or cancelado.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.reservado_ate IS
'When the lease ends. It stops nobody: after it recuperar may take the document away, and until then the worker may renew.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.token_reserva IS
'The token of the claim in force: every write of a worker names it, and one under another token changes nothing. Random, null unless '
'processando.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.versao IS
'Grows by one with every change but a renewal, each with its row in auditoria. An operator''s command names the one they have seen.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.ultimo_erro IS
'Why the last attempt failed, in one short line (resumir).';
COMMENT ON COLUMN sql_semana_12.fila_documentos.categoria_erro IS
'Class of the last failure. conteudo: the document is at fault, and no attempt will help. sistemico: the server, the receiver or the '
'moment. conexao: a connection was lost or refused. impasse: a deadlock or serialization failure. queda: the lease ended. All but '
'conteudo are tried again.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.chave_operacao IS
'The key of the operation, the same at every attempt: the receiver executes it once, and is asked by it.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.etapa IS
'How far the call to the outside is; it outlives the attempt. nao_chamado: no attempt called, or the receiver knows nothing of it. '
'desconhecido: written before the call, so one may have been executed: ask the receiver by chave_operacao, or hand it to people '
'(conciliar), but never simply call again. obtido: the result is known (referencia_externa). confirmando: work after the call has begun.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.referencia_externa IS
'What the receiver calls the result; there is one for each document, and it is never replaced.';
COMMENT ON COLUMN sql_semana_12.fila_documentos.chamada_basta IS
'Whether the call is the whole effect, as the worker said with its stage: then a known result ends the document even after the last '
'attempt; else people decide, for work inside the database may be missing.';
COMMENT ON COLUMN sql_semana_12.auditoria.inquilino IS
'The tenant of the document.';
COMMENT ON COLUMN sql_semana_12.auditoria.documento_id IS
'The document.';
COMMENT ON COLUMN sql_semana_12.auditoria.versao IS
'The version that this change made.';
COMMENT ON COLUMN sql_semana_12.auditoria.de IS
'The state before.';
COMMENT ON COLUMN sql_semana_12.auditoria.para IS
'The state after; the same for a stage and for another content.';
COMMENT ON COLUMN sql_semana_12.auditoria.token_reserva IS
'The token under which a worker changed it, or that a recovery or a command made void.';
COMMENT ON COLUMN sql_semana_12.auditoria.por_que IS
'Why, in one short line.';
COMMENT ON COLUMN sql_semana_12.auditoria.quando IS
'When, by the protocol''s clock.';
COMMENT ON COLUMN sql_semana_12.configuracao.unica IS
'Always true, so that there is one row.';
