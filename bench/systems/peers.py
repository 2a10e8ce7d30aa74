"""Peers come from their registries into throw-away directories, at the versions named here.

Nothing of them is in Rota's own environment. A peer that cannot be had (no Node, no network) is
named and left out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.systems.base import ROOT, Missing, System

_INSTALL_SECONDS = 600
_NODE = (22, 12)


class Peer(System):
    """`packages` holds the exact versions that were measured."""

    packages: Sequence[str]

    @property
    def place(self) -> Path:
        return self.peers_dir / self.name

    def version(self) -> str:
        return " ".join(self.packages)

    def _is_installed(self) -> bool:
        mark = self.place / "installed"
        return mark.exists() and mark.read_text() == self.version()

    def install(self) -> None:
        if self._is_installed():
            return
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        self._download()
        (self.place / "installed").write_text(self.version())

    def _download(self) -> None:
        raise NotImplementedError


class PythonPeer(Peer):
    """In a virtual environment of its own."""

    program: str

    @property
    def command(self) -> Sequence[str]:
        return [str(self.place / "bin" / "python"), "-m", self.program]

    def _download(self) -> None:
        _call([sys.executable, "-m", "venv", str(self.place)])
        pip = [str(self.place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        _call([*pip, "install", "--quiet", *self.packages])


class NodePeer(Peer):
    """In a directory of its own, run by a Node that all of them share."""

    program: str

    @property
    def command(self) -> Sequence[str]:
        return [_node(self.peers_dir), str(ROOT / "bench" / "programs" / self.program)]

    def environment(self, options: Mapping[str, str]) -> dict[str, str]:
        modules = {"NODE_PATH": str(self.place / "node_modules")}
        return super().environment({**options, **modules})

    def _download(self) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise Missing("npm is not on the path")
        quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
        if not _is_new_enough(shutil.which("node")):
            _call([npm, "install", "--prefix", str(self.peers_dir / "node"), *quiet, "node@22"])
        _call([npm, "install", "--prefix", str(self.place), *quiet, *self.packages])


def _node(peers_dir: Path) -> str:
    own = shutil.which("node")
    if own is not None and _is_new_enough(own):
        return own
    return str(peers_dir / "node" / "node_modules" / ".bin" / "node")


def _is_new_enough(node: str | None) -> bool:
    if node is None:
        return False
    told = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    numbers = [int(part) for part in re.findall(r"\d+", told)]
    return tuple(numbers[:2]) >= _NODE


def _call(argv: Sequence[str]) -> None:
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_INSTALL_SECONDS, env=env
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"{argv[0]} took too long to install it") from None
    if done.returncode != 0:
        raise Missing(f"it could not be installed: {done.stderr.strip()[-400:]}")
