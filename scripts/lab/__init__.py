"""The queue lab: watch a job queue on PostgreSQL wait, pass, fail and recover."""
