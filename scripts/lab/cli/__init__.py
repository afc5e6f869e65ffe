"""The `lab` command, one module a group of commands."""
