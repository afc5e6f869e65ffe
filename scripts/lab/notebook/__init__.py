"""What a notebook calls: `import lab.notebook as nb`. What goes wrong there is told in a sentence, without a traceback."""

from lab.notebook import api, sentences
from lab.notebook.api import *  # noqa: F403

globals().update({name: sentences.checking_arguments(getattr(api, name)) for name in api.__all__})
sentences.instead_of_tracebacks()
