"""The worker: claim, stage, work, outcome, with a heartbeat beside it."""
