"""What running a SQL job needs beside the executor: the call of an attempt, and what becomes of
the run by the function's answer."""

from __future__ import annotations

from dataclasses import replace

from rota.errors import RotaError
from rota.executors.sql_answer import Answer, BadAnswer
from rota.executors.sql_function import SqlFunctionCall
from rota.model.outcome import Ended, Failure, Outcome, Policy, decide
from rota.model.run import Claim
from rota.runtime.attempts.attempt import RunningAttempt, Services
from rota.telemetry.lines import LEVELS


def make_call(attempt: RunningAttempt, services: Services) -> SqlFunctionCall:
    """The call, which is told when the attempt is to stop."""
    call = SqlFunctionCall(
        attempt.claim,
        attempt.worker,
        url=services.database.session_url,
        schema=services.database.schema,
        started=attempt.started,
        timeout=attempt.timeout,
        lease_seconds=services.lease_seconds,
        is_debug=attempt.stored_level <= LEVELS["debug"],
        write_log=attempt.write_log,
        has_session=services.database.has_sessions,
    )
    attempt.tell_instead(call.stop)
    return call


def outcome_of(answer: Answer, claim: Claim, policy: Policy, most_bytes: int) -> Outcome:
    """`success: false` is a failure like any other, except that the writes stay."""
    if len((answer.text or "").encode()) > most_bytes:
        raise BadAnswer.of(f"the answer is over {most_bytes} bytes", answer.text)
    message, details = answer.message, answer.details
    if answer.success:
        return Ended("succeeded", "succeeded", message=message, result=answer.text, details=details)
    failure = Failure("ReportedFailure", message or "")
    error = RotaError(failure.error)
    outcome = decide(error, failure, policy, claim.attempts_used, claim.max_attempts)
    return replace(outcome, message=message, details=details)
