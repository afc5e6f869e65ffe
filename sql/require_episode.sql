-- Included by the scripts of the episode (02–04, reset.sql): the lab's queue must be here, and not yet grown beyond lesson 04.

DO $guard$
DECLARE
    mark TEXT := obj_description(to_regnamespace('sql_semana_12'), 'pg_namespace');
BEGIN
    IF mark IS NULL OR mark NOT LIKE 'queue lab, state %' THEN
        RAISE EXCEPTION 'the lab''s queue is not in database %', current_database()
            USING HINT = 'Build it first: psql -X -f sql/01_queue.sql';
    END IF;
    IF right(mark, 2)::INTEGER > 4 THEN
        RAISE EXCEPTION 'the queue has grown to state %; this script belongs to lessons 01 to 04', right(mark, 2)
            USING HINT = 'Build the episode again: psql -X -f sql/01_queue.sql';
    END IF;
END
$guard$;
