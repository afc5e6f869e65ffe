"""Write requirements.lock from pyproject.toml: every library with its version and hashes, in the parts that ./lab installs.

Run it as python scripts/lock.py, with --check (write nothing, fail if it is out of step) or --upgrade (newest versions
of what pyproject.toml does not pin itself).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ROOT / "pyproject.toml"
LOCK = ROOT / "requirements.lock"
# Each part with those that it is complete with. What two parts need beside them stands in both.
PARTS: dict[str, tuple[str, ...]] = {
    "core": (),
    "server": ("core",),
    "notebook": ("core",),
    "jupyter": ("core", "notebook"),
    "peers": ("core",),
    "test": ("core", "notebook"),
    "house": ("core", "notebook", "test"),
}
# The lock says neither where it was made nor from where the libraries come: pip's own configuration knows that.
SILENT = ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
# One lock for every Python from the oldest on, whichever runs this.
UNIVERSAL = ["--universal", "--python-version", "3.11", "--generate-hashes"]
# As pip does: behind a company's proxy only the machine itself knows whom to trust.
TRUST = ["--system-certs"]


def main() -> None:
    """Write the lock file, or check it; exits with a sentence if the check fails or the libraries do not fit together."""
    made = lock(upgrade="--upgrade" in sys.argv)
    if "--check" not in sys.argv:
        LOCK.write_text(made, encoding="utf-8")
    elif versions(made) != versions(LOCK.read_text(encoding="utf-8")):
        sys.exit("requirements.lock is not what pyproject.toml asks for. Run: make lock")


def versions(text: str) -> list[str]:
    """The lock's text without the hashes: an author may add a file to a version that is long out."""
    return [line.removesuffix(" \\") for line in text.splitlines() if not line.startswith(" ")]


def lock(*, upgrade: bool) -> str:
    """The text of the lock file; versions that it has already are kept unless they are to be upgraded."""
    kept = LOCK.read_text(encoding="utf-8") if LOCK.exists() and not upgrade else ""
    entries = resolve(tuple(PARTS), kept)
    whole = "".join(entries.values())
    text = []
    for part, below in PARTS.items():
        # Which libraries a part needs is asked of the part, their text is taken from the whole, whose markers serve all parts.
        needed = resolve((*below, part), whole).keys() - (resolve(below, whole).keys() if below else set())
        text += [f"# --- part: {part}\n", *(entries[name] for name in sorted(needed))]
    return "".join(text)


def resolve(parts: tuple[str, ...], kept: str) -> dict[str, str]:
    """What pyproject.toml needs for these parts: the lock's text by name of library, hashes included."""
    extras = [word for part in parts if part != "core" for word in ("--extra", part)]
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "lock.txt"
        output.write_text(kept, encoding="utf-8")  # uv keeps the versions that it finds there
        command = [sys.executable, "-m", "uv", "pip", "compile", str(PROJECT), "--output-file", str(output), "--quiet"]
        done = subprocess.run([*command, *extras, *UNIVERSAL, *SILENT, *TRUST], check=False)
        if done.returncode:
            sys.exit("The libraries in pyproject.toml could not be resolved (see above).")
        blocks = re.split(r"^(?=\w)", output.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found: dict[str, str] = {}
    for block in filter(None, blocks):
        name = block.split("==")[0]
        found[name] = found.get(name, "") + block  # one library may have two versions, each for some machines
    return found


if __name__ == "__main__":
    main()
