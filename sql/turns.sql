-- turns: where each terminal of a scenario stands, so that its script knows whose turn it is.
--
-- Needs  the right to create a schema in this database.
-- Run    by itself never: the scripts in walk/ include it.
-- See    SELECT * FROM sql_semana_12_turns.terminal;
--
-- A script calls these functions over a second, short connection. Within the reader's own transaction a ROLLBACK would undo what was
-- written, a failed transaction would answer nothing, and under REPEATABLE READ the look itself would take the snapshot.
-- The schema is the lab's own and lies beside the queue's, so that a rebuild keeps it; sql/teardown.sql removes it.
--
-- A play is known by the queue it is played on, that is by the OID of its schema: every rebuild makes another one.

SET client_min_messages = warning;

BEGIN;

-- Several terminals begin at once.
SELECT pg_advisory_xact_lock(hashtext('sql_semana_12_turns')) \g /dev/null

DO $guard$
BEGIN
    IF to_regnamespace('sql_semana_12_turns') IS NULL THEN
        CREATE SCHEMA sql_semana_12_turns;
        COMMENT ON SCHEMA sql_semana_12_turns IS 'queue lab, turns';
    ELSIF obj_description(to_regnamespace('sql_semana_12_turns'), 'pg_namespace') IS DISTINCT FROM 'queue lab, turns' THEN
        RAISE EXCEPTION 'a schema sql_semana_12_turns that this lab did not make is here; it was left untouched'
            USING HINT = 'ALTER SCHEMA sql_semana_12_turns RENAME TO sql_semana_12_turns_mine;';
    END IF;
END
$guard$;

-- play: the queue on which the terminal has played a step, NULL before; for the first terminal, the queue that it built.
-- through: whether it is needed no more, so that it may be closed.
CREATE TABLE IF NOT EXISTS sql_semana_12_turns.terminal (
    terminal_id INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pid INTEGER NOT NULL,
    opened TIMESTAMPTZ NOT NULL,
    scenario TEXT NOT NULL,
    session TEXT NOT NULL,
    play OID,
    begun INTEGER NOT NULL DEFAULT 0,
    ended INTEGER NOT NULL DEFAULT 0,
    through BOOLEAN NOT NULL DEFAULT FALSE
);

-- What a step came to; milliseconds are the server's, from the statement's start to its end.
CREATE TABLE IF NOT EXISTS sql_semana_12_turns.outcome (
    play OID NOT NULL,
    step INTEGER NOT NULL,
    session TEXT NOT NULL,
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

-- A terminal begins, at step 0 of no play. Returns 'go' and the number under which it is kept.
CREATE OR REPLACE FUNCTION sql_semana_12_turns.open(p_pid INTEGER, p_scenario TEXT, p_session TEXT)
RETURNS TEXT
LANGUAGE plpgsql
AS $$
DECLARE
    v_terminal INTEGER;
BEGIN
    -- What a play of an older queue left is of no use; a closed terminal of this one spoils the play, so it stays.
    DELETE FROM sql_semana_12_turns.terminal
    WHERE NOT sql_semana_12_turns.alive(pid, opened) AND (play IS NULL OR play IS DISTINCT FROM sql_semana_12_turns.queue());
    DELETE FROM sql_semana_12_turns.outcome WHERE play IS DISTINCT FROM sql_semana_12_turns.queue();
    INSERT INTO sql_semana_12_turns.terminal (pid, opened, scenario, session)
    SELECT p_pid, backend_start, p_scenario, p_session FROM pg_stat_get_activity(p_pid)
    RETURNING terminal_id INTO v_terminal;
    RETURN 'go ' || v_terminal;
END
$$;

-- May the first terminal build the queue? 'go', or 'ask' and which session holds a lock on it.
CREATE OR REPLACE FUNCTION sql_semana_12_turns.free(p_terminal INTEGER, p_pt BOOLEAN)
RETURNS TEXT
LANGUAGE sql
VOLATILE
AS $$
    SELECT 'ask ' || format(
        CASE WHEN p_pt
            THEN 'Outra sessão está segurando a fila: %s. Encerre a transação lá (COMMIT ou ROLLBACK; ^C no terminal de um cenário) e volte aqui.'
            ELSE 'Another session holds a lock on the queue: %s. End its transaction there (COMMIT or ROLLBACK; ^C in a scenario''s terminal), then come back here.' END,
        string_agg(DISTINCT format('%s (pid %s)', activity.application_name, activity.pid), ', ')
    )
    FROM pg_locks AS held
    INNER JOIN pg_stat_activity AS activity ON held.pid = activity.pid
    INNER JOIN pg_class AS relation ON held.relation = relation.oid
    WHERE held.granted AND held.pid <> pg_backend_pid()
        AND held.pid <> (SELECT pid FROM sql_semana_12_turns.terminal WHERE terminal_id = p_terminal) AND activity.datname = current_database()
        AND relation.relnamespace = sql_semana_12_turns.queue()
    HAVING count(*) > 0
    UNION ALL
    SELECT 'go'
    LIMIT 1
$$;

-- The first terminal has built the queue: a play begins.
CREATE OR REPLACE FUNCTION sql_semana_12_turns.built(p_terminal INTEGER)
RETURNS TEXT
LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM sql_semana_12_turns.outcome WHERE play = sql_semana_12_turns.queue();
    UPDATE sql_semana_12_turns.terminal SET play = sql_semana_12_turns.queue()
    WHERE terminal_id = p_terminal;
    RETURN 'go';
END
$$;

-- May this terminal play that step now? 'go' marks it as begun; else 'ask' or 'again', and then why.
-- p_after says where the others have to be, as 'A ended 2, C waits 5'; p_first is the terminal that builds the queue.
CREATE OR REPLACE FUNCTION sql_semana_12_turns.enter(
    p_terminal INTEGER, p_step INTEGER, p_after TEXT, p_first TEXT, p_last BOOLEAN, p_pt BOOLEAN
)
RETURNS TEXT
LANGUAGE plpgsql
AS $$
DECLARE
    v_self sql_semana_12_turns.terminal;
    v_other sql_semana_12_turns.terminal;
    v_until TIMESTAMPTZ := clock_timestamp() + INTERVAL '1 second';
    v_asked TEXT[];
BEGIN
    SELECT * INTO v_self FROM sql_semana_12_turns.terminal WHERE terminal_id = p_terminal;
    IF v_self.play IS NOT NULL AND v_self.play IS DISTINCT FROM sql_semana_12_turns.queue() THEN
        RETURN 'again ' || CASE WHEN p_pt
            THEN 'A fila foi recriada depois disso: esta execução acabou.'
            ELSE 'The queue has been rebuilt since: this play is over.' END;
    END IF;

    -- Has a terminal left in the middle, and its transaction with it? (One without a transaction may, after its last step.)
    SELECT * INTO v_other
    FROM sql_semana_12_turns.terminal
    WHERE play = sql_semana_12_turns.queue() AND begun > 0 AND NOT through AND NOT sql_semana_12_turns.alive(pid, opened)
    LIMIT 1;
    IF found THEN
        RETURN CASE WHEN v_self.play IS NULL THEN 'ask ' ELSE 'again ' END || format(
            CASE WHEN p_pt
                THEN 'O terminal %1$s foi fechado no passo %2$s: esta execução acabou. Para recomeçar, o terminal %3$s recria a fila.'
                ELSE 'Terminal %1$s was closed at step %2$s: this play is over. To begin again, terminal %3$s rebuilds the queue.' END,
            v_other.session, v_other.begun, p_first
        );
    END IF;

    SELECT * INTO v_other
    FROM sql_semana_12_turns.terminal
    WHERE play = sql_semana_12_turns.queue() AND session = v_self.session AND begun > 0 AND terminal_id <> v_self.terminal_id;
    IF found THEN
        RETURN 'ask ' || format(
            CASE WHEN p_pt
                THEN '%1$s já está no passo %2$s, em outro terminal: feche este, ou recrie a fila no terminal %3$s.'
                ELSE '%1$s is at step %2$s already, in another terminal: leave this one, or rebuild the queue in terminal %3$s.' END,
            v_self.session, v_other.begun, p_first
        );
    END IF;

    -- The first terminal must have built this very queue, for this scenario.
    IF NOT EXISTS (
        SELECT 1 FROM sql_semana_12_turns.terminal
        WHERE scenario = v_self.scenario AND session = p_first AND play = sql_semana_12_turns.queue()
            AND (through OR sql_semana_12_turns.alive(pid, opened))
    ) THEN
        RETURN 'ask ' || CASE
            WHEN EXISTS (
                SELECT 1 FROM sql_semana_12_turns.terminal
                WHERE scenario = v_self.scenario AND session = p_first AND sql_semana_12_turns.alive(pid, opened)
            )
                THEN format(
                    CASE WHEN p_pt
                        THEN 'O terminal %s ainda não criou a fila: aperte Enter lá primeiro.'
                        ELSE 'Terminal %s has not built the queue yet: press Enter there first.' END,
                    p_first
                )
            ELSE format(
                CASE WHEN p_pt
                    THEN 'O terminal %1$s ainda não está aberto: ./lab walk %2$s diz como abrir.'
                    ELSE 'Terminal %1$s is not open yet: ./lab walk %2$s says how to open it.' END,
                p_first, v_self.scenario
            ) END;
    END IF;

    FOR v_asked IN
        SELECT regexp_split_to_array(trim(each), ' ') AS asked
        FROM unnest(string_to_array(nullif(p_after, ''), ',')) AS each
        ORDER BY (regexp_split_to_array(trim(each), ' '))[3]::INTEGER
    LOOP
        LOOP
            SELECT * INTO v_other
            FROM sql_semana_12_turns.terminal
            WHERE session = v_asked[1] AND play = sql_semana_12_turns.queue() AND begun > 0;
            EXIT WHEN v_other.ended >= v_asked[3]::INTEGER AND v_asked[2] = 'ended';
            EXIT WHEN v_other.begun = v_asked[3]::INTEGER AND v_other.ended < v_other.begun AND v_asked[2] = 'waits'
                AND cardinality(pg_blocking_pids(v_other.pid)) > 0;
            -- Begun and not there yet: a statement that runs ends in a moment.
            IF coalesce(v_other.begun, 0) < v_asked[3]::INTEGER OR clock_timestamp() > v_until THEN
                IF v_other.session IS NULL AND NOT EXISTS (
                    SELECT 1 FROM sql_semana_12_turns.terminal
                    WHERE scenario = v_self.scenario AND session = v_asked[1] AND sql_semana_12_turns.alive(pid, opened)
                ) THEN
                    RETURN 'ask ' || format(
                        CASE WHEN p_pt
                            THEN 'O terminal %1$s ainda não está aberto: ./lab walk %2$s diz como abrir. Faça o passo %3$s lá primeiro.'
                            ELSE 'Terminal %1$s is not open yet: ./lab walk %2$s says how to open it. Do step %3$s there first.' END,
                        v_asked[1], v_self.scenario, v_asked[3]
                    );
                ELSIF coalesce(v_other.begun, 0) < v_asked[3]::INTEGER THEN
                    RETURN 'ask ' || format(
                        CASE WHEN p_pt
                            THEN '%1$s ainda está no passo %2$s; faça o passo %3$s lá primeiro.'
                            ELSE '%1$s is still at step %2$s; do step %3$s there first.' END,
                        v_asked[1], coalesce(v_other.begun, 0), v_asked[3]
                    );
                ELSIF v_asked[2] = 'ended' THEN
                    RETURN 'ask ' || format(
                        CASE WHEN p_pt
                            THEN 'O passo %2$s de %1$s ainda não terminou.'
                            ELSE 'Step %2$s in %1$s has not ended yet.' END,
                        v_asked[1], v_other.begun
                    );
                ELSE
                    RETURN 'ask ' || format(
                        CASE WHEN p_pt
                            THEN '%1$s deveria estar esperando no passo %2$s, e não está. Veja o terminal %1$s.'
                            ELSE '%1$s should be waiting in step %2$s, and is not. Look at terminal %1$s.' END,
                        v_asked[1], v_asked[3]
                    );
                END IF;
            END IF;
            PERFORM pg_sleep(0.02);
        END LOOP;
    END LOOP;

    UPDATE sql_semana_12_turns.terminal
    SET play = sql_semana_12_turns.queue(), begun = CASE WHEN p_last THEN begun ELSE p_step END, through = p_last
    WHERE terminal_id = v_self.terminal_id;
    RETURN 'go';
END
$$;

-- What the step showed on the screen, for `ended` to compare.
CREATE OR REPLACE FUNCTION sql_semana_12_turns.shown(p_terminal INTEGER, p_step INTEGER, p_text TEXT)
RETURNS TEXT
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO sql_semana_12_turns.outcome (play, step, session, shown)
    SELECT play, p_step, session, p_text
    FROM sql_semana_12_turns.terminal
    WHERE terminal_id = p_terminal
    ON CONFLICT (play, step) DO UPDATE SET shown = excluded.shown;
    RETURN 'go';
END
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
    FROM unnest(string_to_array(p_text, E'\n')) WITH ORDINALITY AS lines (line, number)
    WHERE trim(line) <> '' AND line !~ '^[-+]+$' AND line !~ '^\(\d+ [[:alpha:]]+\)$'
        AND line !~ '^(INSERT 0|UPDATE|DELETE|MERGE) \d+$'
$$;

-- Did the step come to what the recorded play came to? 'go', or 'again' and what came instead.
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
    v_seen TEXT;
    v_instead TEXT;
BEGIN
    SELECT * INTO v_self FROM sql_semana_12_turns.terminal WHERE terminal_id = p_terminal;
    IF v_self.play IS DISTINCT FROM sql_semana_12_turns.queue() THEN
        RETURN 'again ' || CASE WHEN p_pt
            THEN 'A fila foi recriada depois disso: esta execução acabou.'
            ELSE 'The queue has been rebuilt since: this play is over.' END;
    END IF;
    UPDATE sql_semana_12_turns.outcome
    SET sqlstate = p_sqlstate, by_value = p_values <> '', milliseconds = (
        SELECT round(extract(EPOCH FROM state_change - query_start)::NUMERIC * 1000)
        FROM pg_stat_activity
        WHERE pid = v_self.pid
    )
    WHERE play = v_self.play AND step = p_step
    RETURNING shown INTO v_seen;

    IF p_sqlstate <> p_announced THEN
        v_instead := CASE
            WHEN p_sqlstate = '00000' THEN format(
                CASE WHEN p_pt
                    THEN 'Este passo deveria falhar com %s, e não falhou.'
                    ELSE 'This step was to fail with %s, and it did not.' END, p_announced)
            WHEN p_announced = '00000' THEN format(
                CASE WHEN p_pt
                    THEN 'Este passo não deveria falhar, e falhou com %s.'
                    ELSE 'This step was not to fail, and it failed with %s.' END, p_sqlstate)
            ELSE format(
                CASE WHEN p_pt
                    THEN 'Este passo deveria falhar com %s, e falhou com %s.'
                    ELSE 'This step was to fail with %s, and it failed with %s.' END, p_announced, p_sqlstate) END;
    ELSIF p_until <> '' AND NOT EXISTS (
        SELECT 1 FROM sql_semana_12_turns.terminal
        WHERE play = v_self.play AND session = split_part(p_until, ' ', 1) AND begun >= split_part(p_until, ' ', 2)::INTEGER
    ) THEN
        v_instead := format(
            CASE WHEN p_pt
                THEN 'Este passo deveria esperar até o passo %2$s de %1$s, e terminou antes.'
                ELSE 'This step was to wait until step %2$s in %1$s, and it ended before.' END,
            split_part(p_until, ' ', 1), split_part(p_until, ' ', 2));
    ELSIF p_rows <> p_rows_announced THEN
        v_instead := format(
            CASE WHEN p_pt
                THEN 'Aqui vieram %s linha(s); na execução gravada, %s.'
                ELSE 'Here %s row(s) came; in the recorded play, %s.' END, p_rows, p_rows_announced);
    ELSIF p_values <> '' AND md5(sql_semana_12_turns.values(v_seen)) IS DISTINCT FROM p_values THEN
        v_instead := CASE WHEN p_pt
            THEN 'Os valores acima não são os da execução gravada.'
            ELSE 'The values above are not those of the recorded play.' END;
    END IF;
    IF v_instead IS NOT NULL THEN
        RETURN 'again ' || v_instead || CASE WHEN p_pt
            THEN ' O que se diria a seguir não valeria: esta execução acabou.'
            ELSE ' What would be said next would not be true: this play is over.' END;
    END IF;
    UPDATE sql_semana_12_turns.terminal
    SET ended = p_step, through = p_leaves = 'killed' OR (
        p_leaves = 'done' AND EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = v_self.pid AND state = 'idle')
    )
    WHERE terminal_id = v_self.terminal_id;
    RETURN 'go';
END
$$;

-- How long the step took, as a sentence.
CREATE OR REPLACE FUNCTION sql_semana_12_turns.took(p_step INTEGER, p_pt BOOLEAN)
RETURNS TEXT
LANGUAGE sql
STABLE
AS $$
    SELECT format(CASE WHEN p_pt THEN '(levou %s ms)' ELSE '(it took %s ms)' END, milliseconds)
    FROM sql_semana_12_turns.outcome
    WHERE play = sql_semana_12_turns.queue() AND step = p_step
$$;

-- What all terminals saw, against the recorded play: whether the claim holds here.
CREATE OR REPLACE FUNCTION sql_semana_12_turns.verdict(p_steps INTEGER, p_waits INTEGER[], p_pt BOOLEAN)
RETURNS TEXT
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    v_kept INTEGER;
    v_by_value INTEGER;
    v_text TEXT;
BEGIN
    SELECT count(*) FILTER (WHERE sqlstate IS NOT NULL), count(*) FILTER (WHERE by_value) INTO v_kept, v_by_value
    FROM sql_semana_12_turns.outcome
    WHERE play = sql_semana_12_turns.queue() AND step <= p_steps;
    v_text := CASE WHEN v_kept = p_steps THEN CASE WHEN p_pt THEN 'Confere: sim. ' ELSE 'Holds: yes. ' END
        ELSE CASE WHEN p_pt THEN 'Confere: NÃO. ' ELSE 'Holds: NO. ' END END
        || format(
            CASE WHEN p_pt
                THEN '%s de %s passos saíram como na execução gravada, %s deles comparados pelos valores mostrados.'
                ELSE '%s of %s steps came out as in the recorded play, %s of them compared by the values shown.' END,
            v_kept, p_steps, v_by_value);
    SELECT v_text || coalesce(string_agg(
        format(E'\n  %s %s, %s: %s', CASE WHEN p_pt THEN 'passo' ELSE 'step' END, step, session, concat_ws(', ',
            CASE WHEN sqlstate <> '00000' THEN CASE WHEN p_pt THEN 'erro ' ELSE 'error ' END || sqlstate END,
            CASE WHEN step = ANY (p_waits) THEN
                format(CASE WHEN p_pt THEN 'esperou %s ms' ELSE 'waited %s ms' END, milliseconds) END
        )), '' ORDER BY step), '')
    INTO v_text
    FROM sql_semana_12_turns.outcome
    WHERE play = sql_semana_12_turns.queue() AND (step = ANY (p_waits) OR sqlstate <> '00000');
    RETURN v_text;
END
$$;

COMMIT;
