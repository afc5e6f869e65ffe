-- The usual claim of the blogs: one statement with SKIP LOCKED, no lease, no token.
-- @schema
CREATE TABLE jobs (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payload TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending',
    worker TEXT
);
INSERT INTO jobs (payload) VALUES ('one'), ('two'), ('three'), ('four');
-- @claim
UPDATE jobs SET status = 'running', worker = :worker
WHERE id = (SELECT id FROM jobs WHERE status = 'pending' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1)
RETURNING id, payload;
