-- FOR UPDATE without SKIP LOCKED: no row twice, but one worker at a time.
-- @schema
CREATE TABLE jobs (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payload TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending',
    worker TEXT
);
INSERT INTO jobs (payload) VALUES ('one'), ('two'), ('three'), ('four');
-- @claim one transaction
SELECT id FROM jobs WHERE status = 'pending' ORDER BY id FOR UPDATE LIMIT 1;
UPDATE jobs SET status = 'running', worker = :worker WHERE id = :id;
