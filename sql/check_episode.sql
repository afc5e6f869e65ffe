-- check_episode: how far is the schema that you typed along with the episode, what differs, and what comes next?
-- @pt Até onde vai o esquema que você digitou com o episódio, o que difere e o que vem depois?
--
-- Needs  a database in which you typed the episode's statements; the lab's own queue is not needed
-- Run    psql -X -f sql/check_episode.sql          (again whenever you like: it only reads; in English with -v lang=en)
-- See    what differs from the episode, its outcome table beside yours, and the next statement to type.
-- @pt Precisa de um banco em que você digitou os comandos do episódio; a fila do laboratório não é necessária.
-- @pt Pode rodar de novo quando quiser: ele só lê. Veja o que difere, a tabela de resultados e o próximo comando a digitar.

\set ON_ERROR_STOP on
\set QUIET on
\pset pager off
\pset footer off
\pset null ''
\if :{?lang}
\else
\set lang pt
\endif
SET client_min_messages = warning;
SET TimeZone = 'UTC';
BEGIN;
SET transaction_read_only = on;

SELECT
    to_regclass('sql_semana_12.fila_documentos') IS NOT NULL AS tem_tabela,
    coalesce(obj_description(to_regnamespace('sql_semana_12'), 'pg_namespace') LIKE 'queue lab, state %', FALSE) AS do_laboratorio,
    CASE
        WHEN to_regnamespace('sql_semana_12') IS NULL THEN 'esquema'
        WHEN to_regclass('sql_semana_12.fila_documentos') IS NULL THEN 'tabela'
        ELSE 'colunas'
    END AS passo,
    :'lang' = 'en' AS em_ingles
\gset

\if :do_laboratorio
\if :em_ingles
\echo 'This schema is the lab''s own, which ./lab run checks. This script is for one that you typed.'
\else
\echo 'Este esquema é o do próprio laboratório, que ./lab run confere. Este script é para o que você digitou.'
\endif
ROLLBACK;
\quit
\endif

\if :tem_tabela

-- Each column as the episode has it, beside yours; only what differs is shown.
WITH esperado (posicao, coluna, tipo, obrigatoria, padrao) AS (
    VALUES
    (1, 'documento_id', 'bigint', TRUE, 'identity always'),
    (2, 'chave', 'text', TRUE, ''),
    (3, 'nome_arquivo', 'text', TRUE, ''),
    (4, 'conteudo_xml', 'xml', TRUE, ''),
    (5, 'status', 'text', TRUE, '''pendente''::text'),
    (6, 'tentativas', 'integer', TRUE, '0'),
    (7, 'worker_id', 'text', FALSE, ''),
    (8, 'criado_em', 'timestamp with time zone', TRUE, 'clock_timestamp()'),
    (9, 'iniciado_em', 'timestamp with time zone', FALSE, ''),
    (10, 'concluido_em', 'timestamp with time zone', FALSE, ''),
    (11, 'ultimo_erro', 'text', FALSE, '')
), achado AS (
    SELECT
        atributo.attname::TEXT AS coluna,
        format_type(atributo.atttypid, atributo.atttypmod) AS tipo,
        atributo.attnotnull AS obrigatoria,
        CASE atributo.attidentity
            WHEN 'a' THEN 'identity always'
            WHEN 'd' THEN 'identity by default'
            ELSE coalesce(pg_get_expr(padrao.adbin, padrao.adrelid), '')
        END AS padrao
    FROM pg_attribute AS atributo
    LEFT JOIN pg_attrdef AS padrao ON atributo.attrelid = padrao.adrelid AND atributo.attnum = padrao.adnum
    WHERE
        atributo.attrelid = to_regclass('sql_semana_12.fila_documentos')
        AND atributo.attnum > 0
        AND NOT atributo.attisdropped
), definicoes AS (
    SELECT pg_get_constraintdef(oid) AS definicao
    FROM pg_constraint
    WHERE conrelid = to_regclass('sql_semana_12.fila_documentos')
    UNION ALL
    SELECT pg_get_indexdef(indexrelid) AS definicao
    FROM pg_index
    WHERE indisvalid AND indrelid = to_regclass('sql_semana_12.fila_documentos')
), regras (regra, escrita) AS (
    VALUES
    ('PRIMARY KEY (documento_id)', 'PRIMARY KEY (documento_id)'),
    ('UNIQUE (chave)', 'UNIQUE (chave)'),
    ('CHECK (tentativas >= 0)', 'CHECK ((tentativas >= 0))'),
    (
        'CHECK (status IN (pendente, processando, concluido, falhou))',
        'CHECK ((status = ANY (ARRAY[''pendente''::text, ''processando''::text, ''concluido''::text, ''falhou''::text])))'
    ),
    (
        'fila_documentos_pendentes_idx (criado_em, documento_id) WHERE status = ''pendente''',
        '%(criado_em, documento_id) WHERE (status = ''pendente''::text)'
    )
), diferencas AS (
    SELECT
        esperado.posicao,
        coalesce(esperado.coluna, achado.coluna) AS item,
        esperado.tipo || CASE WHEN esperado.obrigatoria THEN ' NOT NULL' ELSE '' END
        || CASE WHEN esperado.padrao <> '' THEN ' ' || esperado.padrao ELSE '' END AS no_episodio,
        achado.tipo || CASE WHEN achado.obrigatoria THEN ' NOT NULL' ELSE '' END
        || CASE WHEN achado.padrao <> '' THEN ' ' || achado.padrao ELSE '' END AS aqui
    FROM esperado
    FULL OUTER JOIN achado ON esperado.coluna = achado.coluna
    WHERE
        esperado.tipo IS DISTINCT FROM achado.tipo
        OR esperado.obrigatoria IS DISTINCT FROM achado.obrigatoria
        OR esperado.padrao IS DISTINCT FROM achado.padrao
    UNION ALL
    SELECT
        100 AS posicao,
        regras.regra AS item,
        CASE WHEN :'lang' = 'en' THEN 'yes' ELSE 'sim' END AS no_episodio,
        CASE WHEN :'lang' = 'en' THEN 'missing' ELSE 'falta' END AS aqui
    FROM regras
    LEFT JOIN definicoes ON definicoes.definicao LIKE regras.escrita
    WHERE definicoes.definicao IS NULL
)

SELECT
    count(*) > 0 AS ha_diferencas,
    count(*) FILTER (WHERE posicao BETWEEN 1 AND 11) > 0 AS colunas_diferem,
    count(*) FILTER (WHERE item LIKE 'fila_documentos_pendentes_idx%') > 0 AS falta_indice,
    count(*) FILTER (WHERE item LIKE 'UNIQUE%' OR item LIKE 'CHECK%' OR item LIKE 'PRIMARY%') > 0 AS falta_regra,
    coalesce(
        string_agg(
            format('    %s: %s → %s', item, coalesce(no_episodio, '-'), coalesce(aqui, '-')),
            E'\n' ORDER BY posicao, item
        ),
        ''
    ) AS lista
FROM diferencas
\gset

\if :ha_diferencas
\if :em_ingles
\echo 'What differs from the episode (in the episode → here):'
\else
\echo 'O que difere do episódio (no episódio → aqui):'
\endif
\echo :lista
\else
\if :em_ingles
\echo 'Table and index are as in the episode.'
\else
\echo 'Tabela e índice estão como no episódio.'
\endif
\endif

SELECT
    CASE
        WHEN :'colunas_diferem'::BOOLEAN THEN 'colunas'
        WHEN :'falta_regra'::BOOLEAN THEN 'regras'
        WHEN :'falta_indice'::BOOLEAN THEN 'indice'
        ELSE 'documentos'
    END AS passo,
    NOT :'colunas_diferem'::BOOLEAN AS legivel
\gset

\if :legivel

-- The four documents, and how far each of them is.
WITH esperado (documento_id, chave, nome_arquivo, valor, criado_em, status, worker_id, tentativas) AS (
    VALUES
    (1, 'NFE-0001', 'nfe-0001.xml', '101.10', TIMESTAMPTZ '2026-10-16 09:00:01-03', 'processando', 'worker-a', 1),
    (2, 'NFE-0002', 'nfe-0002.xml', '202.20', TIMESTAMPTZ '2026-10-16 09:00:02-03', 'processando', 'worker-b', 1),
    (3, 'NFE-0003', 'nfe-0003.xml', '303.30', TIMESTAMPTZ '2026-10-16 09:00:03-03', 'pendente', NULL, 0),
    (4, 'NFE-0004', 'nfe-0004.xml', '404.40', TIMESTAMPTZ '2026-10-16 09:00:04-03', 'pendente', NULL, 0)
), comparado AS (
    SELECT
        esperado.*,
        fila.documento_id AS aqui_id,
        fila.status AS aqui_status,
        fila.worker_id AS aqui_worker,
        fila.tentativas AS aqui_tentativas,
        fila.ultimo_erro AS aqui_erro,
        fila.nome_arquivo = esperado.nome_arquivo
        AND (xpath('/nfe/valor/text()', fila.conteudo_xml))[1]::TEXT = esperado.valor
        AND fila.criado_em = esperado.criado_em AS igual
    FROM esperado
    LEFT JOIN sql_semana_12.fila_documentos AS fila ON esperado.chave = fila.chave
)

SELECT
    coalesce(string_agg(chave, ', ' ORDER BY chave) FILTER (WHERE aqui_id IS NULL), '') AS faltam,
    coalesce(string_agg(chave, ', ' ORDER BY chave) FILTER (WHERE aqui_id IS NOT NULL AND igual IS NOT TRUE), '') AS diferem,
    count(*) FILTER (WHERE aqui_id IS NULL) > 0 AS ha_faltantes,
    count(*) FILTER (WHERE aqui_id IS NOT NULL AND igual IS NOT TRUE) > 0 AS ha_diferentes,
    count(*) FILTER (WHERE aqui_status = 'pendente' AND aqui_tentativas = 0) = 4 AS todos_pendentes,
    count(*) FILTER (
        WHERE (status, tentativas) = (aqui_status, aqui_tentativas) AND worker_id IS NOT DISTINCT FROM aqui_worker
    ) = 4 AS reservados_por_dois,
    count(*) FILTER (WHERE aqui_status = 'processando') AS em_processamento,
    count(*) FILTER (WHERE aqui_status = 'concluido') AS concluidos,
    count(*) FILTER (WHERE aqui_status = 'falhou') AS falharam
FROM comparado
\gset

\if :em_ingles
\echo
\echo 'The outcome of the two sessions in the episode, and here:'
\else
\echo
\echo 'O resultado das duas sessões no episódio, e aqui:'
\endif
SELECT
    esperado.documento_id AS documento,
    esperado.chave,
    esperado.status AS episodio,
    fila.status AS aqui,
    esperado.worker_id AS worker_episodio,
    fila.worker_id AS worker_aqui,
    esperado.tentativas AS tentativas_episodio,
    fila.tentativas AS tentativas_aqui
FROM (
    VALUES
    (1, 'NFE-0001', 'processando', 'worker-a', 1),
    (2, 'NFE-0002', 'processando', 'worker-b', 1),
    (3, 'NFE-0003', 'pendente', NULL, 0),
    (4, 'NFE-0004', 'pendente', NULL, 0)
) AS esperado (documento_id, chave, status, worker_id, tentativas)
LEFT JOIN sql_semana_12.fila_documentos AS fila ON esperado.chave = fila.chave
ORDER BY esperado.documento_id;

\if :ha_faltantes
\if :em_ingles
\echo 'Documents missing:' :faltam
\else
\echo 'Documentos que faltam:' :faltam
\endif
\endif
\if :ha_diferentes
\if :em_ingles
\echo 'Documents whose file, value or time differs from the episode:' :diferem
\else
\echo 'Documentos com arquivo, valor ou horário diferente do episódio:' :diferem
\endif
\endif

SELECT
    CASE
        WHEN :'passo' <> 'documentos' THEN :'passo'
        WHEN :'ha_faltantes'::BOOLEAN THEN 'documentos'
        WHEN :concluidos = 1 AND :falharam = 1 THEN 'fim'
        WHEN :concluidos = 1 OR :falharam = 1 THEN 'resultado'
        WHEN :'reservados_por_dois'::BOOLEAN THEN 'concluir'
        WHEN :em_processamento > 0 THEN 'sessao_b'
        WHEN :'todos_pendentes'::BOOLEAN THEN 'sessao_a'
        ELSE 'restaurar'
    END AS passo
\gset

\endif
\endif

-- A transaction that another terminal left open hides what it wrote.
SELECT
    count(*) > 0 AS ha_outras,
    coalesce(string_agg(format('pid %s', outra.pid), ', '), '') AS outras
FROM pg_stat_activity AS outra
WHERE
    outra.pid <> pg_backend_pid()
    AND outra.state LIKE 'idle in transaction%'
    AND EXISTS (
        SELECT FROM pg_locks
        WHERE pg_locks.pid = outra.pid AND pg_locks.relation = to_regclass('sql_semana_12.fila_documentos')
    )
\gset
\if :ha_outras
\if :em_ingles
\echo 'Another terminal has a transaction open, whose changes are not seen here until its COMMIT:' :outras
\else
\echo 'Outro terminal está com uma transação aberta; o que ela alterou só aparece aqui depois do COMMIT:' :outras
\endif
\endif

SELECT CASE :'lang' WHEN 'en' THEN ingles ELSE portugues END AS proximo
FROM (
    VALUES
    ('esquema', 'CREATE SCHEMA sql_semana_12;', 'CREATE SCHEMA sql_semana_12;'),
    (
        'tabela',
        'CREATE TABLE sql_semana_12.fila_documentos ( … ), com as onze colunas do episódio.',
        'CREATE TABLE sql_semana_12.fila_documentos ( … ), with the eleven columns of the episode.'
    ),
    (
        'colunas',
        'corrija as colunas acima com ALTER TABLE, ou DROP TABLE sql_semana_12.fila_documentos; e o CREATE TABLE de novo.',
        'correct the columns above by ALTER TABLE, or DROP TABLE sql_semana_12.fila_documentos; and its CREATE TABLE again.'
    ),
    (
        'regras',
        'ALTER TABLE sql_semana_12.fila_documentos ADD … para cada regra que falta acima.',
        'ALTER TABLE sql_semana_12.fila_documentos ADD … for each rule that is missing above.'
    ),
    (
        'indice',
        'CREATE INDEX fila_documentos_pendentes_idx ON sql_semana_12.fila_documentos (…) WHERE status = ''pendente'';',
        'CREATE INDEX fila_documentos_pendentes_idx ON sql_semana_12.fila_documentos (…) WHERE status = ''pendente'';'
    ),
    (
        'documentos',
        'INSERT INTO sql_semana_12.fila_documentos … com os documentos que faltam.',
        'INSERT INTO sql_semana_12.fila_documentos … with the documents that are missing.'
    ),
    (
        'sessao_a',
        'no terminal A: BEGIN; e a reserva com WITH proximo, sem COMMIT.',
        'in terminal A: BEGIN; and the claim with WITH proximo, without COMMIT.'
    ),
    (
        'sessao_b',
        'no terminal B: a mesma reserva com worker-b; depois COMMIT nos dois. Para recomeçar: o UPDATE que restaura a fila.',
        'in terminal B: the same claim with worker-b; then COMMIT in both. To start again: the UPDATE that restores the queue.'
    ),
    (
        'concluir',
        'o UPDATE que conclui o documento 1 (worker-a) e o que registra a falha do 2 (worker-b).',
        'the UPDATE that finishes document 1 (worker-a), and the one that records the failure of 2 (worker-b).'
    ),
    (
        'resultado',
        'o outro dos dois UPDATEs: concluir o documento 1 (worker-a), registrar a falha do 2 (worker-b).',
        'the other one of the two UPDATEs: finish document 1 (worker-a), record the failure of 2 (worker-b).'
    ),
    (
        'restaurar',
        'o UPDATE que restaura a fila: todos de volta a pendente, com zero tentativas.',
        'the UPDATE that restores the queue: all back to pendente, with no attempts.'
    ),
    (
        'fim',
        'o episódio está completo. O que ele deixa em aberto começa na lição 05: ./lab run 05',
        'the episode is complete. What it leaves open begins in lesson 05: ./lab run 05'
    )
) AS passos (passo, portugues, ingles)
WHERE passo = :'passo'
\gset
\if :em_ingles
\echo 'Next:' :proximo
\else
\echo 'A seguir:' :proximo
\endif
ROLLBACK;
