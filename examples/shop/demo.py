"""Prepares the shop and runs it with `rota dev`, which gets the arguments: `./script/demo`.

A deployment would do one after the other. To show the first page sooner, the demo imports
`rota dev` while prepare.py creates the database and its history.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from secrets import token_urlsafe

HERE = Path(__file__).parent


def start_to_prepare() -> tuple[subprocess.Popen[bytes], int]:
    """Returns the process, and the reading end of a pipe that it writes to when it is ready."""
    reading, writing = os.pipe()
    command = [sys.executable, HERE / "prepare.py", "--ready", str(writing)]
    # One token for both, so that the link can be shown at once.
    os.environ.setdefault("ROTA_DEV_TOKEN", token_urlsafe(24))
    process = subprocess.Popen(command, pass_fds=[writing])
    os.close(writing)
    return process, reading


def main() -> None:
    preparing, ready = start_to_prepare()
    # These imports take about as long as the preparation.
    for name in ("rota.api.serve", "rota.web", "rota.cli.workers.worker"):
        import_module(name)
    from rota.cli.main import main as command_line

    try:
        if not os.read(ready, 1):
            sys.exit(preparing.wait())
        command_line(["dev", "--no-reload", "--app", str(HERE / "app.py"), *sys.argv[1:]])
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        preparing.wait()


if __name__ == "__main__":
    main()
