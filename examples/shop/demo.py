"""Prepares the shop and runs it with `rota dev`, which gets the arguments: `./script/demo`.

A deployment would do one after the other. Here somebody waits for the first page, so `rota dev` is
loaded while prepare.py makes the database and its history.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent


def start_to_prepare() -> tuple[subprocess.Popen[bytes], int]:
    """And the end of a pipe from which one can read when it is time to go on."""
    reading, writing = os.pipe()
    command = [sys.executable, HERE / "prepare.py", "--ready", str(writing)]
    process = subprocess.Popen(command, pass_fds=[writing])
    os.close(writing)
    return process, reading


def main() -> None:
    preparing, ready = start_to_prepare()
    # Takes about as long as what is waited for.
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
