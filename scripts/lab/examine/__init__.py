"""The reader's own queue under the lessons' races: read, tried on a scratch database, judged."""
