-- A lease that others may take over, guarded at the finish by the worker's name alone.
-- @schema
CREATE TABLE jobs (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payload TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending',
    worker TEXT,
    leased_until TIMESTAMPTZ
);
INSERT INTO jobs (payload) VALUES ('one'), ('two'), ('three'), ('four');
-- @claim
UPDATE jobs SET status = 'running', worker = :worker, leased_until = clock_timestamp() + :lease::interval
WHERE id = (
    SELECT id FROM jobs
    WHERE status = 'pending' OR (status = 'running' AND leased_until < clock_timestamp())
    ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1
)
RETURNING id, payload;
-- @finish
UPDATE jobs SET status = 'done' WHERE id = :id AND status = 'running' AND worker = :worker;
-- @expire
UPDATE jobs SET leased_until = clock_timestamp() - INTERVAL '1 minute' WHERE id = :id;
