"""Drills: real workers killed and stopped, and what became of the documents."""
