"""The protocol around its SQL: loading, taking home, permissions, watching."""
