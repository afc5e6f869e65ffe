"""Jupyter, as `./lab notebook` starts it: on the reader's copies, with the lab's own kernel, and without a word but its address."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from traitlets.config import Config

from lab.base import config, paths

# Jupyter would write to the reader's home; what the lab makes lies in its own folder.
FOLDERS = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR")
ANSWERED_BY_JUPYTER = {"-h", "--help", "--help-all", "--version", "--show-config", "--generate-config"}
# Settings of the lab's, by the folder's variable and the file: the box that asks whether to fetch news counts as answered, and
# a kernel does not warn that it listens on this machine.
SETTINGS = {
    ("JUPYTER_CONFIG_DIR", "lab/user-settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"): {
        "fetchNews": "false"
    },
    ("IPYTHONDIR", "profile_default/ipython_kernel_config.json"): {"IPKernelApp": {"log_level": "ERROR"}},
}


def serve(page: Path, options: Sequence[str]) -> None:
    """Serve the folder of this page, print the address of the page, open it in a browser, and return when ^C ends it.

    `options` are Jupyter's own, as `--no-browser` or `--port=9000`; for one such as `--version` nothing is served.
    """
    for name in FOLDERS:
        config.default(name, str(paths.home() / "jupyter" / name.lower()))
    config.drop("JUPYTER_PATH")  # other installations' kernels and extensions
    from jupyterlab.labapp import LabApp  # it looks for its folders when it is loaded

    if ANSWERED_BY_JUPYTER & set(options):
        LabApp.launch_instance(list(options))
        return
    _keep_settings()
    server = LabApp.initialize_server(list(options), config=_settings(page))
    address = server.local_url
    server.io_loop.add_callback(lambda: print(address, flush=True))  # when it answers there
    server.identity_provider.token_generated = False  # the address was told: Jupyter need not tell it again
    # At once: nothing is lost, the copies are saved by themselves.
    signal.signal(signal.SIGINT, lambda *_: server.stop(from_signal=True))
    server.start()


def _settings(page: Path) -> Config:
    return Config(
        {
            "ServerApp": {
                "root_dir": str(page.parent),
                "allow_root": os.geteuid() == 0,
                "log_level": "ERROR",
            },
            "LabApp": {"default_url": f"/lab/tree/{page.name}", "log_level": "ERROR"},
            # No folders of kernels: then the only one is this Python, whatever else is installed as python3.
            "KernelSpecManager": {"kernel_dirs": []},
        }
    )


def _keep_settings() -> None:
    """Write the lab's settings where there are none yet."""
    for (folder, name), settings in SETTINGS.items():
        file = Path(config.value(folder) or paths.home()) / name
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(settings), encoding="utf-8")
