"""`python -m rota` is `rota`."""

from __future__ import annotations

import sys
from typing import NoReturn

from rota.errors import MissingExtra
from rota.extras import needing


def main() -> NoReturn:
    """The program. Its own packages may be missing: those who only enqueue do not need them."""
    try:
        with needing("worker", "the command line"):
            from rota.cli.main import main as run
    except MissingExtra as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)
    run()


if __name__ == "__main__":
    main()
