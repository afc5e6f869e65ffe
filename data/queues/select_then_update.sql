-- Select a pending row, then mark it by its id: two statements, each its own transaction.
-- @schema
CREATE TABLE jobs (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payload TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending',
    worker TEXT
);
INSERT INTO jobs (payload) VALUES ('one'), ('two'), ('three'), ('four');
-- @claim autocommit
SELECT id FROM jobs WHERE status = 'pending' ORDER BY id LIMIT 1;
UPDATE jobs SET status = 'running', worker = :worker WHERE id = :id;
