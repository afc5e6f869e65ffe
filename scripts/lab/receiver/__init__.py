"""The world outside: an HTTP receiver with a ledger of its own."""
