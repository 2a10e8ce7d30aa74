"""What is measured, one file each.

A phase is a list of cases; a case measures one system and answers figures by metric. All rows
take turns inside each case, all cases inside each round.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.phases import bulk, drain, one
from bench.phases.base import Phase

PHASES: Mapping[str, Phase] = {phase.name: phase for phase in (one.PHASE, bulk.PHASE, drain.PHASE)}
