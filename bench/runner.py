"""Runs the phases: rows take turns in each case, cases in each round."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from bench.figures import Figures
from bench.phases.base import Case, Phase, Sizes
from bench.quiet import Quiet
from bench.systems.base import Missing, System


class Runner:
    def __init__(
        self, systems: Sequence[System], sizes: Sizes, rounds: int, quiet: Quiet, figures: Figures
    ) -> None:
        self._systems = systems
        self._sizes = sizes
        self._rounds = rounds
        self._quiet = quiet
        self._figures = figures

    def prepare(self) -> None:
        """A system that cannot be installed here is named and left out."""
        ready = []
        for system in self._systems:
            try:
                system.warm_up_runs = self._sizes.warm_up
                if not self._sizes.is_waiting:
                    system.poll_seconds = 0
                system.install()
                system.prepare()
                ready.append(system)
            except Missing as why:
                self._note(f"{system.name} is left out: {why}")
            except RuntimeError as error:
                self._note(f"{system.name} is left out, it could not be prepared: {_end_of(error)}")
        self._systems = ready

    def run(self, phase: Phase) -> None:
        cases = self._cases(phase)
        for case in cases:
            if case.base:
                self._figures.bases[phase.name, case.name] = case.base
            for system in self._taking_part(case):
                if case.setup:
                    _say(f"{phase.name}: {case.name}: laying out, {system.name}")
                    case.setup(system)
        for number in range(1, self._rounds + 1):
            for case in cases:
                for system in self._taking_part(case):
                    self._measure(phase, case, system, number)

    def _cases(self, phase: Phase) -> Sequence[Case]:
        cases = phase.cases(self._sizes)
        bases = set() if self._sizes.has_bases else {case.base for case in cases}
        return [case for case in cases if case.name not in bases]

    def _taking_part(self, case: Case) -> list[System]:
        return [system for system in self._systems if case.rows(system)]

    def _measure(self, phase: Phase, case: Case, system: System, number: int) -> None:
        self._quiet.wait()
        started = time.monotonic()
        what = f"{phase.name}: {case.name}: {system.name}"
        try:
            values = case.measure(system)
        except (RuntimeError, TimeoutError) as error:
            self._note(f"{what} failed in round {number}: {_end_of(error)}")
            return
        self._figures.add(phase.name, case.name, system.name, values)
        shown = ", ".join(f"{value:.4g} {metric}" for metric, value in values.items())
        _say(f"{what}, round {number}, {time.monotonic() - started:.1f} s: {shown}")

    def _note(self, text: str) -> None:
        self._figures.notes.append(text)
        _say(text)


def _end_of(error: Exception) -> str:
    """The last lines: of a program's last words those say what was wrong."""
    return " ".join(str(error).strip().splitlines()[-3:])


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
