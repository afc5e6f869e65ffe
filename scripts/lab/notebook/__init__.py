"""What a notebook calls: `import lab.notebook as nb`."""

from lab.notebook.api import *  # noqa: F403
