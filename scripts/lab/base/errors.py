"""What can go wrong, said so that the reader knows what to do next."""

from __future__ import annotations


class LabError(Exception):
    """A failure that the reader can act on.

    The text is one or two sentences: what happened, and what to do next. The command prints it without a traceback and
    ends with status 1.
    """


class ScenarioError(LabError):
    """A scenario file is malformed; the text names the file and the line."""


class QueueError(LabError):
    """A queue under examination cannot be read or run as it is written; the text names the file and the line."""


class PlayError(LabError):
    """A play did not go as its scenario announces; the text names the step and says why."""


class CannotRunHere(LabError):
    """An observation cannot be made on this server, whatever the claim; the text says why. That is no failure."""


class ServerError(LabError):
    """A server cannot be found, started, reached or used."""


class NotRunning(ServerError):
    """The lab's own server is not running, which a command that needs it would mend."""
