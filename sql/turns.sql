-- turns: where each terminal of a scenario stands, so that its script knows whose turn it is.
-- @pt Onde está cada terminal de um cenário, para o roteiro saber de quem é a vez.
--
-- Needs  the right to create a schema in this database.
-- Run    by itself never: the scripts in walk/ include it.
-- See    SELECT * FROM sql_semana_12_turns.terminal;
-- @pt Precisa do direito de criar um esquema neste banco. Não roda sozinho: os roteiros de walk/ o incluem.

SET client_min_messages = warning;

-- A script calls these functions over a second, short connection. Within the reader's own transaction a ROLLBACK would undo what was
-- written, a failed transaction would answer nothing, and under REPEATABLE READ the look itself would take the snapshot.
-- The schema is the lab's own and lies beside the queue's, so that a rebuild keeps it; sql/teardown.sql removes it.
--
-- A play is known by the queue it is played on, that is by the OID of its schema: every rebuild makes another one.

BEGIN;

-- Several terminals begin at once.
SELECT pg_advisory_xact_lock(hashtext('sql_semana_12_turns')) \gset

-- It is made anew unless some terminal is open: so none of an older lab stays, and nothing of plays that are over.
DO $guard$
DECLARE
    v_open BOOLEAN;
BEGIN
    IF to_regnamespace('sql_semana_12_turns') IS NOT NULL THEN
        IF obj_description(to_regnamespace('sql_semana_12_turns'), 'pg_namespace') IS DISTINCT FROM 'queue lab, turns' THEN
            RAISE EXCEPTION 'a schema sql_semana_12_turns that this lab did not make is here; it was left untouched'
                USING HINT = 'ALTER SCHEMA sql_semana_12_turns RENAME TO sql_semana_12_turns_mine;';
        END IF;
        SELECT count(*) > 0 INTO v_open
        FROM sql_semana_12_turns.terminal
        INNER JOIN pg_stat_activity ON terminal.pid = pg_stat_activity.pid AND terminal.opened = pg_stat_activity.backend_start;
        IF v_open THEN
            RETURN;
        END IF;
        DROP SCHEMA sql_semana_12_turns CASCADE;
    END IF;
    CREATE SCHEMA sql_semana_12_turns;
    COMMENT ON SCHEMA sql_semana_12_turns IS 'queue lab, turns';
END
$guard$;

-- who: the session, such as A. play: the queue on which it has played a step, NULL before; for the first terminal, the one it built.
-- through: it is needed no more, so it may be closed. why: why it may not go on; is_over: because its play is over.
CREATE TABLE IF NOT EXISTS sql_semana_12_turns.terminal (
    terminal_id INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pid INTEGER NOT NULL,
    opened TIMESTAMPTZ NOT NULL,
    scenario TEXT NOT NULL,
    who TEXT NOT NULL,
    play OID,
    begun INTEGER NOT NULL DEFAULT 0,
    ended INTEGER NOT NULL DEFAULT 0,
    through BOOLEAN NOT NULL DEFAULT FALSE,
    why TEXT,
    is_over BOOLEAN NOT NULL DEFAULT FALSE
);

-- What a step came to; milliseconds are the server's, from the statement's start to its end.
CREATE TABLE IF NOT EXISTS sql_semana_12_turns.outcome (
    play OID NOT NULL,
    step INTEGER NOT NULL,
    who TEXT NOT NULL,
    shown TEXT,
    sqlstate TEXT,
    milliseconds NUMERIC,
    by_value BOOLEAN,
    PRIMARY KEY (play, step)
);

CREATE OR REPLACE FUNCTION sql_semana_12_turns.queue()
RETURNS OID
LANGUAGE sql
STABLE
AS $$
    SELECT to_regnamespace('sql_semana_12')::OID
$$;

-- Whether that terminal's connection is still the same one; a pid alone is given out again.
CREATE OR REPLACE FUNCTION sql_semana_12_turns.alive(p_pid INTEGER, p_opened TIMESTAMPTZ)
RETURNS BOOLEAN
LANGUAGE sql
VOLATILE
AS $$
    SELECT EXISTS (SELECT 1 FROM pg_stat_get_activity(p_pid) WHERE backend_start = p_opened)
$$;

-- The sentence in the reader's language, with its %1$s.
CREATE OR REPLACE FUNCTION sql_semana_12_turns.say(p_pt BOOLEAN, p_en_text TEXT, p_pt_text TEXT, VARIADIC p_with TEXT[] DEFAULT '{}')
RETURNS TEXT
LANGUAGE sql
IMMUTABLE
AS $$
    SELECT format(CASE WHEN p_pt THEN p_pt_text ELSE p_en_text END, VARIADIC p_with)
$$;

-- Keep why the terminal may not go on, for told.psql; nothing to keep is a yes. The answer is what \if reads.
CREATE OR REPLACE FUNCTION sql_semana_12_turns.answer(p_terminal INTEGER, p_why TEXT, p_is_over BOOLEAN DEFAULT FALSE)
RETURNS TEXT
LANGUAGE sql
AS $$
    UPDATE sql_semana_12_turns.terminal SET why = p_why, is_over = p_is_over WHERE terminal_id = p_terminal AND p_why IS NOT NULL;
    SELECT CASE WHEN p_why IS NULL THEN 'on' ELSE 'off' END
$$;

-- A terminal begins, at step 0 of no play. Returns the number under which it is kept.
CREATE OR REPLACE FUNCTION sql_semana_12_turns.open(p_pid INTEGER, p_scenario TEXT, p_session TEXT)
RETURNS INTEGER
LANGUAGE sql
AS $$
    -- What a play of an older queue left is of no use; a terminal of this one that was closed spoils the play, so it stays.
    DELETE FROM sql_semana_12_turns.terminal
    WHERE NOT sql_semana_12_turns.alive(pid, opened) AND play IS DISTINCT FROM sql_semana_12_turns.queue();
    DELETE FROM sql_semana_12_turns.outcome WHERE play IS DISTINCT FROM sql_semana_12_turns.queue();
    INSERT INTO sql_semana_12_turns.terminal (pid, opened, scenario, who)
    SELECT p_pid, backend_start, p_scenario, p_session FROM pg_stat_get_activity(p_pid)
    RETURNING terminal_id
$$;

-- May the first terminal build the queue, or does another session hold a lock on it?
CREATE OR REPLACE FUNCTION sql_semana_12_turns.free(p_terminal INTEGER, p_pt BOOLEAN)
RETURNS TEXT
LANGUAGE sql
AS $$
    SELECT sql_semana_12_turns.answer(p_terminal, sql_semana_12_turns.say(
        p_pt,
        'Another session holds a lock on the queue: %s. COMMIT or ROLLBACK there (^C in a terminal of a scenario), then come back here.',
        'Outra sessão está segurando a fila: %s. Faça COMMIT ou ROLLBACK lá (^C em um terminal de cenário) e volte aqui.',
        string_agg(DISTINCT format('%s (pid %s)', holder.application_name, holder.pid), ', ')
    ))
    FROM pg_locks AS held
    INNER JOIN pg_stat_activity AS holder ON held.pid = holder.pid
    INNER JOIN pg_class AS relation ON held.relation = relation.oid
    WHERE
        relation.relnamespace = sql_semana_12_turns.queue() AND holder.datname = current_database()
        AND held.granted AND held.pid <> pg_backend_pid()
        AND held.pid <> (SELECT pid FROM sql_semana_12_turns.terminal WHERE terminal_id = p_terminal)
    HAVING count(*) > 0
    UNION ALL
    SELECT 'on'
    LIMIT 1
$$;

-- The first terminal has built the queue: a play begins.
CREATE OR REPLACE FUNCTION sql_semana_12_turns.built(p_terminal INTEGER)
RETURNS TEXT
LANGUAGE sql
AS $$
    UPDATE sql_semana_12_turns.terminal SET play = sql_semana_12_turns.queue() WHERE terminal_id = p_terminal
    RETURNING 'on'
$$;

-- May this terminal play that step now? p_for: 'look' only asks, 'begin' marks the step as begun, 'leave' is for after the last one.
-- p_after says where the others have to be, as 'A ended 2, C waits 5'; p_first is the terminal that builds the queue.
CREATE OR REPLACE FUNCTION sql_semana_12_turns.enter(
    p_terminal INTEGER, p_step INTEGER, p_after TEXT, p_first TEXT, p_for TEXT, p_pt BOOLEAN
)
RETURNS TEXT
LANGUAGE plpgsql
AS $$
DECLARE
    v_self sql_semana_12_turns.terminal;
    v_other sql_semana_12_turns.terminal;
    v_is_open BOOLEAN;
    v_until TIMESTAMPTZ := clock_timestamp() + INTERVAL '1 second';
    v_asked RECORD;
BEGIN
    SELECT * INTO v_self FROM sql_semana_12_turns.terminal WHERE terminal_id = p_terminal;
    IF v_self.play IS NOT NULL AND v_self.play IS DISTINCT FROM sql_semana_12_turns.queue() THEN
        RETURN sql_semana_12_turns.answer(p_terminal, sql_semana_12_turns.say(
            p_pt,
            'The queue has been rebuilt since: this play is over.',
            'A fila foi recriada depois disso: esta execução acabou.'
        ), p_is_over => TRUE);
    END IF;

    -- Was a terminal closed in the middle, and its transaction with it?
    SELECT * INTO v_other
    FROM sql_semana_12_turns.terminal
    WHERE play = sql_semana_12_turns.queue() AND begun > 0 AND NOT through AND NOT sql_semana_12_turns.alive(pid, opened)
    LIMIT 1;
    IF found THEN
        RETURN sql_semana_12_turns.answer(p_terminal, sql_semana_12_turns.say(
            p_pt,
            'Terminal %1$s was closed at step %2$s: this play is over. To begin again, terminal %3$s rebuilds the queue.',
            'O terminal %1$s foi fechado no passo %2$s: esta execução acabou. Para recomeçar, o terminal %3$s recria a fila.',
            v_other.who, v_other.begun::TEXT, p_first
        ), p_is_over => v_self.play IS NOT NULL);
    END IF;

    SELECT * INTO v_other
    FROM sql_semana_12_turns.terminal
    WHERE play = sql_semana_12_turns.queue() AND who = v_self.who AND begun > 0 AND terminal_id <> p_terminal;
    IF found THEN
        RETURN sql_semana_12_turns.answer(p_terminal, sql_semana_12_turns.say(
            p_pt,
            '%1$s is at step %2$s already, in another terminal: leave this one, or rebuild the queue in terminal %3$s.',
            '%1$s já está no passo %2$s, em outro terminal: feche este ou recrie a fila no terminal %3$s.',
            v_self.who, v_other.begun::TEXT, p_first
        ));
    END IF;

    -- The first terminal must have built this very queue.
    IF NOT EXISTS (
        SELECT 1 FROM sql_semana_12_turns.terminal
        WHERE
            scenario = v_self.scenario AND who = p_first AND play = sql_semana_12_turns.queue()
            AND (through OR sql_semana_12_turns.alive(pid, opened))
    ) THEN
        SELECT count(*) > 0 INTO v_is_open
        FROM sql_semana_12_turns.terminal
        WHERE scenario = v_self.scenario AND who = p_first AND sql_semana_12_turns.alive(pid, opened);
        IF v_is_open THEN
            RETURN sql_semana_12_turns.answer(p_terminal, sql_semana_12_turns.say(
                p_pt,
                'Terminal %s has not built the queue yet: press Enter there first.',
                'O terminal %s ainda não criou a fila: aperte Enter lá primeiro.',
                p_first
            ));
        END IF;
        RETURN sql_semana_12_turns.answer(p_terminal, sql_semana_12_turns.say(
            p_pt,
            'Terminal %1$s is not open yet: ./lab walk %2$s says how to open it.',
            'O terminal %1$s ainda não está aberto: ./lab walk %2$s diz como abrir.',
            p_first, v_self.scenario
        ));
    END IF;

    FOR v_asked IN
        SELECT words[1] AS who, words[2] AS state, words[3]::INTEGER AS step
        FROM regexp_split_to_table(nullif(p_after, ''), ', ') AS each, regexp_split_to_array(each, ' ') AS words
        ORDER BY step
    LOOP
        LOOP
            SELECT * INTO v_other
            FROM sql_semana_12_turns.terminal
            WHERE who = v_asked.who AND play = sql_semana_12_turns.queue() AND begun > 0;
            EXIT WHEN v_asked.state = 'ended' AND v_other.ended >= v_asked.step;
            EXIT WHEN v_asked.state = 'waits' AND v_other.begun = v_asked.step AND v_other.ended < v_asked.step
                AND cardinality(pg_blocking_pids(v_other.pid)) > 0;
            IF coalesce(v_other.begun, 0) < v_asked.step THEN
                SELECT count(*) > 0 INTO v_is_open
                FROM sql_semana_12_turns.terminal
                WHERE
                    scenario = v_self.scenario AND who = v_asked.who
                    AND (through OR sql_semana_12_turns.alive(pid, opened));
                RETURN sql_semana_12_turns.answer(p_terminal, CASE WHEN v_is_open AND p_for = 'leave' THEN sql_semana_12_turns.say(
                    p_pt,
                    '%1$s is at step %2$s of %3$s: go on there.',
                    '%1$s está no passo %2$s de %3$s: continue lá.',
                    v_asked.who, coalesce(v_other.begun, 0)::TEXT, (p_step - 1)::TEXT
                ) WHEN v_is_open THEN sql_semana_12_turns.say(
                    p_pt,
                    '%1$s is still at step %2$s; do step %3$s there first.',
                    '%1$s ainda está no passo %2$s; faça o passo %3$s lá primeiro.',
                    v_asked.who, coalesce(v_other.begun, 0)::TEXT, v_asked.step::TEXT
                ) ELSE sql_semana_12_turns.say(
                    p_pt,
                    'Terminal %1$s is not open yet: ./lab walk %2$s says how to open it. Do step %3$s there first.',
                    'O terminal %1$s ainda não está aberto: ./lab walk %2$s diz como abrir. Faça o passo %3$s lá primeiro.',
                    v_asked.who, v_self.scenario, v_asked.step::TEXT
                ) END);
            END IF;
            -- It has begun: a statement that runs ends, or comes to wait, in a moment.
            IF clock_timestamp() > v_until THEN
                RETURN sql_semana_12_turns.answer(p_terminal, CASE WHEN v_asked.state = 'ended' THEN sql_semana_12_turns.say(
                    p_pt,
                    'Step %2$s in %1$s has not ended yet.',
                    'O passo %2$s de %1$s ainda não terminou.',
                    v_asked.who, v_asked.step::TEXT
                ) ELSE sql_semana_12_turns.say(
                    p_pt,
                    '%1$s should be waiting in step %2$s, and is not: look at terminal %1$s.',
                    '%1$s deveria estar esperando no passo %2$s, e não está: veja o terminal %1$s.',
                    v_asked.who, v_asked.step::TEXT
                ) END);
            END IF;
            PERFORM pg_sleep(0.02);
        END LOOP;
    END LOOP;

    UPDATE sql_semana_12_turns.terminal
    SET play = sql_semana_12_turns.queue(), begun = CASE p_for WHEN 'begin' THEN p_step ELSE begun END, through = p_for = 'leave'
    WHERE terminal_id = p_terminal AND p_for <> 'look';
    RETURN 'on';
END
$$;

-- What the step showed on the screen, for `ended` to compare.
CREATE OR REPLACE FUNCTION sql_semana_12_turns.shown(p_terminal INTEGER, p_step INTEGER, p_text TEXT)
RETURNS VOID
LANGUAGE sql
AS $$
    INSERT INTO sql_semana_12_turns.outcome (play, step, who, shown)
    SELECT play, p_step, who, p_text FROM sql_semana_12_turns.terminal WHERE terminal_id = p_terminal
    ON CONFLICT (play, step) DO UPDATE SET shown = excluded.shown
$$;

-- A table as psql prints it, without what differs from play to play: the room between columns, and moments of the clock.
CREATE OR REPLACE FUNCTION sql_semana_12_turns.values(p_text TEXT)
RETURNS TEXT
LANGUAGE sql
IMMUTABLE
AS $$
    SELECT string_agg(
        regexp_replace(
            regexp_replace(trim(line), ' *\| *', '|', 'g'),
            '\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,6}\+00', '<clock>', 'g'
        ), E'\n' ORDER BY number
    )
    FROM regexp_split_to_table(p_text, E'\n') WITH ORDINALITY AS lines (line, number)
    WHERE
        trim(line) <> '' AND line !~ '^[-+]+$' AND line !~ '^\(\d+ [[:alpha:]]+\)$'
        AND line !~ '^(INSERT 0|UPDATE|DELETE|MERGE) \d+$'
$$;

-- Did the step come to what the recorded play came to?
-- p_values: the md5 of the values that it showed, empty where they are not compared; p_rows_announced: how many rows, or NULL;
-- p_until: which step of which terminal had to end its wait, as 'A 6', empty for none; p_leaves: 'done' if this is the terminal's
-- last step, 'killed' if another one ends its session later on, else empty.
CREATE OR REPLACE FUNCTION sql_semana_12_turns.ended(
    p_terminal INTEGER, p_step INTEGER, p_sqlstate TEXT, p_announced TEXT,
    p_rows INTEGER, p_rows_announced INTEGER, p_values TEXT, p_until TEXT, p_leaves TEXT, p_pt BOOLEAN
)
RETURNS TEXT
LANGUAGE plpgsql
AS $$
DECLARE
    v_self sql_semana_12_turns.terminal;
    v_activity RECORD;
    v_shown TEXT;
    v_instead TEXT;
BEGIN
    SELECT * INTO v_self FROM sql_semana_12_turns.terminal WHERE terminal_id = p_terminal;
    IF v_self.play IS DISTINCT FROM sql_semana_12_turns.queue() THEN
        RETURN sql_semana_12_turns.answer(p_terminal, sql_semana_12_turns.say(
            p_pt,
            'The queue has been rebuilt since: this play is over.',
            'A fila foi recriada depois disso: esta execução acabou.'
        ), p_is_over => TRUE);
    END IF;
    SELECT state, round(extract(EPOCH FROM state_change - query_start)::NUMERIC * 1000) AS milliseconds
    INTO v_activity
    FROM pg_stat_activity
    WHERE pid = v_self.pid;
    INSERT INTO sql_semana_12_turns.outcome AS kept (play, step, who, sqlstate, by_value, milliseconds)
    VALUES (v_self.play, p_step, v_self.who, p_sqlstate, p_values <> '', v_activity.milliseconds)
    ON CONFLICT (play, step) DO UPDATE
    SET sqlstate = excluded.sqlstate, by_value = excluded.by_value, milliseconds = excluded.milliseconds
    RETURNING kept.shown INTO v_shown;

    IF p_sqlstate <> p_announced THEN
        v_instead := CASE
            WHEN p_sqlstate = '00000' THEN sql_semana_12_turns.say(
                p_pt,
                'This step was to fail with %1$s, and it did not.',
                'Este passo deveria falhar com %1$s, e não falhou.',
                p_announced
            )
            WHEN p_announced = '00000' THEN sql_semana_12_turns.say(
                p_pt,
                'This step was not to fail, and it failed with %1$s.',
                'Este passo não deveria falhar, e falhou com %1$s.',
                p_sqlstate
            )
            ELSE sql_semana_12_turns.say(
                p_pt,
                'This step was to fail with %1$s, and it failed with %2$s.',
                'Este passo deveria falhar com %1$s, e falhou com %2$s.',
                p_announced, p_sqlstate
            )
        END;
    ELSIF p_until <> '' AND NOT EXISTS (
        SELECT 1 FROM sql_semana_12_turns.terminal
        WHERE play = v_self.play AND who = split_part(p_until, ' ', 1) AND begun >= split_part(p_until, ' ', 2)::INTEGER
    ) THEN
        v_instead := sql_semana_12_turns.say(
            p_pt,
            'This step was to wait until step %2$s in %1$s, and it ended before.',
            'Este passo deveria esperar até o passo %2$s de %1$s, e terminou antes.',
            split_part(p_until, ' ', 1), split_part(p_until, ' ', 2)
        );
    ELSIF p_rows <> p_rows_announced THEN
        v_instead := sql_semana_12_turns.say(
            p_pt,
            'Rows here: %1$s; in the recorded play: %2$s.',
            'Linhas aqui: %1$s; na execução gravada: %2$s.',
            p_rows::TEXT, p_rows_announced::TEXT
        );
    ELSIF p_values <> '' AND md5(sql_semana_12_turns.values(v_shown)) IS DISTINCT FROM p_values THEN
        v_instead := sql_semana_12_turns.say(
            p_pt,
            'The values above are not those of the recorded play.',
            'Os valores acima não são os da execução gravada.'
        );
    END IF;
    IF v_instead IS NOT NULL THEN
        RETURN sql_semana_12_turns.answer(p_terminal, v_instead || sql_semana_12_turns.say(
            p_pt,
            ' What would be said next would not be true: this play is over.',
            ' O que se diria a seguir não valeria: esta execução acabou.'
        ), p_is_over => TRUE);
    END IF;
    UPDATE sql_semana_12_turns.terminal
    SET ended = p_step, through = p_leaves = 'killed' OR (p_leaves = 'done' AND v_activity.state = 'idle')
    WHERE terminal_id = p_terminal;
    RETURN 'on';
END
$$;

-- How long the step took, as a sentence.
CREATE OR REPLACE FUNCTION sql_semana_12_turns.took(p_step INTEGER, p_pt BOOLEAN)
RETURNS TEXT
LANGUAGE sql
STABLE
AS $$
    SELECT sql_semana_12_turns.say(p_pt, '(it took %s ms)', '(levou %s ms)', milliseconds::TEXT)
    FROM sql_semana_12_turns.outcome
    WHERE play = sql_semana_12_turns.queue() AND step = p_step
$$;

-- What all terminals saw, against the recorded play: whether the claim holds here. p_waits are the steps that had to wait.
CREATE OR REPLACE FUNCTION sql_semana_12_turns.verdict(p_steps INTEGER, p_waits INTEGER[], p_pt BOOLEAN)
RETURNS TEXT
LANGUAGE sql
STABLE
AS $$
    SELECT concat_ws(
        E'\n',
        sql_semana_12_turns.say(
            p_pt,
            CASE WHEN count(*) = p_steps THEN 'Holds: yes. ' ELSE 'Holds: NO. ' END
            || '%1$s of %2$s steps came out as in the recorded play, %3$s of them compared value by value.',
            CASE WHEN count(*) = p_steps THEN 'Confere: sim. ' ELSE 'Confere: NÃO. ' END
            || '%1$s de %2$s passos saíram como na execução gravada, %3$s deles comparados valor por valor.',
            count(*)::TEXT, p_steps::TEXT, (count(*) FILTER (WHERE by_value))::TEXT
        ),
        string_agg(
            sql_semana_12_turns.say(
                p_pt,
                '  step %1$s, %2$s: %3$s',
                '  passo %1$s, %2$s: %3$s',
                step::TEXT, who, concat_ws(
                    ', ',
                    CASE WHEN step = ANY(p_waits) THEN sql_semana_12_turns.say(p_pt, 'waited %s ms', 'esperou %s ms', milliseconds::TEXT) END,
                    CASE WHEN sqlstate <> '00000' THEN sql_semana_12_turns.say(p_pt, 'error %s', 'erro %s', sqlstate) END
                )
            ), E'\n' ORDER BY step
        ) FILTER (WHERE step = ANY(p_waits) OR sqlstate <> '00000')
    )
    FROM sql_semana_12_turns.outcome
    WHERE play = sql_semana_12_turns.queue() AND sqlstate IS NOT NULL
$$;

-- In the same transaction: one that came in between would find no terminal open, and make it all anew.
SELECT sql_semana_12_turns.open(pg_backend_pid(), :'scenario', :'session') AS terminal \gset

COMMIT;
