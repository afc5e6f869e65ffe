"""Scenarios of several sessions: read, played, compared, referred, drawn."""
