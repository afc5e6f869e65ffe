"""Lessons: what they check, how they are run and told."""
