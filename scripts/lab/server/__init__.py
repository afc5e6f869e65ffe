"""The server: where PostgreSQL comes from, sessions on it, and the schema in its states."""
