"""For maintainers: recording, generating, every server version."""
