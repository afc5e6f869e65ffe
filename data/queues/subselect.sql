-- One statement, but the choice takes no lock.
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
WHERE id = (SELECT id FROM jobs WHERE status = 'pending' ORDER BY id LIMIT 1)
RETURNING id, payload;
