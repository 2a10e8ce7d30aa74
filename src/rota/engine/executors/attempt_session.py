"""The statements sent before and after users' code in a session."""

from __future__ import annotations

from rota.model.run import Claim
from rota.postgres.sessions import handlers
from rota.postgres.statements import Statement as Statement
from rota.postgres.statements import Statements


class AttemptSession:
    """Statements for the session of one attempt."""

    def __init__(
        self, statements: Statements, claim: Claim, worker: int, lease_seconds: float
    ) -> None:
        self._statements = statements
        # The rescue of a lost worker ends the backends with this name.
        self.name = f"rota run {claim.id} worker {worker}"
        # If it may not, the server itself ends transactions that a stopped process left open.
        self.idle = f"{int(lease_seconds * 10)}s"

    def open(self) -> Statement:
        """Begin a transaction as well. Its last column identifies the transaction."""
        return self.begin(opens=True)

    def begin(
        self, *, is_local: bool = True, level: str | None = None, opens: bool = False
    ) -> Statement:
        """Local to the transaction if there is one, so that it works through a pooler."""
        given = {"name": self.name, "idle": self.idle}
        return handlers.lend(self._statements, **given, level=level, is_local=is_local, opens=opens)

    def end(self, *, is_settled: bool = False, clears: bool = False) -> Statement:
        """Several statements in one: for a cursor that fills in parameters by itself. Deferred
        constraints are checked first, with the settings of the handler: otherwise they would fail
        in COMMIT, after an end that looked written. `clears` removes what is left in the session,
        temporary tables above all. Returns the transaction's identity, and sets the savepoint
        behind which the end of the run is written."""
        reset, parameters = self.reset()
        steps = [reset, handlers.mark(self._statements)[0]]
        if clears:
            steps.insert(0, handlers.clear(self._statements)[0])
        if not is_settled:
            steps.insert(0, handlers.settle(self._statements)[0])
        return ";\n".join(steps), parameters

    def reset(self) -> Statement:
        """The same without checking deferred constraints, and without a savepoint."""
        return handlers.take_back(self._statements, idle=self.idle)
