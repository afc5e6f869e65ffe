-- Included by 10_operators.sql, in its transaction: who may do what.
-- @pt Incluído por 10_operators.sql, na transação dele: quem pode fazer o quê.

-- Functions are executable by everyone until that is revoked; the schema's closed door was all that kept others out.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sql_semana_12 FROM public;
REVOKE ALL ON ALL TABLES IN SCHEMA sql_semana_12 FROM public;

-- Four roles for all databases of the server, marked by their comments.
DO $roles$
DECLARE
    v_pt BOOLEAN := coalesce(current_setting('lab.lang', TRUE), '') LIKE 'pt%';
    v_papel TEXT;
    v_marca TEXT;
    v_existe BOOLEAN;
    v_eu RECORD;
BEGIN
    SELECT rolsuper, rolcreaterole INTO v_eu FROM pg_roles WHERE rolname = current_user;
    FOREACH v_papel IN ARRAY ARRAY[
        'sql_semana_12_worker', 'sql_semana_12_reader', 'sql_semana_12_operator', 'sql_semana_12_application'
    ] LOOP
        FOR v_vez IN 1..10 LOOP
            BEGIN
                -- Role and mark are read by one statement: a role that goes between two looks would seem to have no mark.
                SELECT shobj_description(papel.oid, 'pg_authid') INTO v_marca
                FROM pg_roles AS papel
                WHERE papel.rolname = v_papel;
                v_existe := found;
                IF NOT v_existe AND NOT (v_eu.rolsuper OR v_eu.rolcreaterole) THEN
                    RAISE WARNING USING
                        MESSAGE = format(
                            CASE
                                WHEN v_pt THEN 'o papel %s não pode criar papéis; %s ficou de fora'
                                ELSE 'role %s may not create roles, so %s was left out'
                            END,
                            current_user, v_papel
                        ),
                        HINT = format(
                            '%s: ALTER ROLE %I CREATEROLE;', CASE WHEN v_pt THEN 'Peça' ELSE 'Ask for' END, current_user
                        );
                    EXIT;
                END IF;
                IF NOT v_existe THEN
                    EXECUTE format('CREATE ROLE %I NOLOGIN', v_papel);
                    EXECUTE format('COMMENT ON ROLE %I IS %L', v_papel, 'queue lab');
                    -- The owner may do all that the role may, and more; as its member it may also try it: SET ROLE.
                    IF NOT v_eu.rolsuper THEN
                        EXECUTE format('GRANT %I TO CURRENT_USER', v_papel);
                    END IF;
                ELSIF v_marca IS DISTINCT FROM 'queue lab' THEN
                    RAISE EXCEPTION USING
                        MESSAGE = format(
                            CASE
                                WHEN v_pt THEN 'já existe um papel %s que não é do laboratório; ele ficou intacto'
                                ELSE 'a role %s that this lab did not make is here; it was left untouched'
                            END,
                            v_papel
                        ),
                        HINT = format(
                            'ALTER ROLE %I RENAME TO %I;', v_papel, v_papel || CASE WHEN v_pt THEN '_meu' ELSE '_mine' END
                        );
                END IF;
                EXECUTE format('GRANT USAGE ON SCHEMA sql_semana_12 TO %I', v_papel);
                EXIT;
            EXCEPTION WHEN duplicate_object OR unique_violation OR undefined_object THEN
                NULL; -- in another database it was made or dropped at this very moment: look again
            END;
        END LOOP;
    END LOOP;
    IF to_regrole('sql_semana_12_worker') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION
            sql_semana_12.reservar,
            sql_semana_12.renovar,
            sql_semana_12.renovar_lote,
            sql_semana_12.devolver,
            sql_semana_12.registrar_etapa,
            sql_semana_12.concluir,
            sql_semana_12.concluir_e_reservar,
            sql_semana_12.concluir_lote,
            sql_semana_12.falhar,
            sql_semana_12.conciliar,
            sql_semana_12.recuperar
        TO sql_semana_12_worker;
    END IF;
    IF to_regrole('sql_semana_12_reader') IS NOT NULL THEN
        GRANT SELECT ON
            sql_semana_12.configuracao,
            sql_semana_12.situacao,
            sql_semana_12.falhas_por_categoria
        TO sql_semana_12_reader;
        -- Not the payload, nor a reason: resumir may have missed what one quotes of it.
        GRANT SELECT (
            documento_id,
            inquilino,
            chave,
            nome_arquivo,
            status,
            tentativas,
            max_tentativas,
            worker_id,
            criado_em,
            disponivel_em,
            iniciado_em,
            concluido_em,
            reservado_ate,
            token_reserva,
            versao,
            categoria_erro,
            chave_operacao,
            etapa,
            referencia_externa,
            chamada_basta,
            renovacoes
        ) ON sql_semana_12.fila_documentos TO sql_semana_12_reader;
        GRANT SELECT (
            inquilino, documento_id, versao, de, para, token_reserva, quem, conectado_como, quando, categoria_erro
        ) ON sql_semana_12.auditoria TO sql_semana_12_reader;
        GRANT SELECT (
            inquilino, documento_id, chave, status, versao, tentativas, etapa, chave_operacao, referencia_externa, categoria_erro
        ) ON sql_semana_12.para_pessoas TO sql_semana_12_reader;
        -- A view reads tables as its owner, but calls functions as its reader.
        GRANT EXECUTE ON FUNCTION sql_semana_12.relogio TO sql_semana_12_reader;
    END IF;
    IF to_regrole('sql_semana_12_operator') IS NOT NULL THEN
        GRANT SELECT ON
            sql_semana_12.auditoria,
            sql_semana_12.situacao,
            sql_semana_12.falhas_por_categoria,
            sql_semana_12.para_pessoas
        TO sql_semana_12_operator;
        -- To find what is theirs, and for the alerts; examinar gives the reason of one document, and none of these its payload.
        GRANT SELECT (
            documento_id,
            inquilino,
            chave,
            nome_arquivo,
            status,
            tentativas,
            max_tentativas,
            worker_id,
            criado_em,
            disponivel_em,
            iniciado_em,
            concluido_em,
            reservado_ate,
            token_reserva,
            versao,
            categoria_erro,
            chave_operacao,
            etapa,
            referencia_externa,
            chamada_basta,
            renovacoes
        ) ON sql_semana_12.fila_documentos TO sql_semana_12_operator;
        GRANT EXECUTE ON FUNCTION
            sql_semana_12.relogio,
            sql_semana_12.examinar,
            sql_semana_12.pausar,
            sql_semana_12.retomar,
            sql_semana_12.confirmar,
            sql_semana_12.reenfileirar,
            sql_semana_12.reenfileirar_falhos,
            sql_semana_12.substituir_conteudo,
            sql_semana_12.cancelar,
            sql_semana_12.recuperar
        TO sql_semana_12_operator;
    END IF;
    IF to_regrole('sql_semana_12_application') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION sql_semana_12.enfileirar, sql_semana_12.enfileirar_lote TO sql_semana_12_application;
    END IF;
END
$roles$;
