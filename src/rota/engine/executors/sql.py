"""The kind `sql`: a function of the database, whose effect and end commit together."""

from __future__ import annotations

from dataclasses import replace

from rota.engine.executors.base import CalledAttempt, CallOutcome, Executor
from rota.engine.executors.sql_function import SqlFunctionCall
from rota.engine.executors.sql_result import FunctionResult, InvalidResult
from rota.errors import RotaError
from rota.model.outcome import Ended, Failure, Outcome, Policy, decide
from rota.model.run import Claim
from rota.telemetry.lines import LEVELS


class SqlExecutor(Executor):
    is_dangerous = False  # the body runs in the server

    async def call(self, attempt: CalledAttempt) -> CallOutcome:
        config, database = self._means.config, self._means.database
        claim, policy = attempt.claim, attempt.policy()
        call = SqlFunctionCall(
            claim,
            attempt.worker,
            url=database.session_url,
            schema=database.schema,
            started=attempt.started,
            timeout=attempt.timeout,
            lease_seconds=config.worker.lease_seconds,
            is_debug=attempt.stored_level <= LEVELS["debug"],
            write_log=attempt.write_log,
            has_session=database.has_sessions,
        )
        attempt.tell_instead(call.stop)
        return await call.run(
            lambda answer: decide_result(answer, claim, policy, config.runs.result_bytes)
        )


def decide_result(answer: FunctionResult, claim: Claim, policy: Policy, most_bytes: int) -> Outcome:
    """`success: false` is a failure like any other, except that the writes stay."""
    if len((answer.text or "").encode()) > most_bytes:
        raise InvalidResult.of(
            f"the function's result has more than {most_bytes} bytes", answer.text
        )
    message, details = answer.message, answer.details
    if answer.success:
        return Ended("succeeded", "succeeded", message=message, result=answer.text, details=details)
    failure = Failure("ReportedFailure", message or "")
    error = RotaError(failure.error)
    outcome = decide(error, failure, policy, claim.attempts_used, claim.max_attempts)
    return replace(outcome, message=message, details=details)
