from __future__ import annotations

import inspect
import pickle
import re
import traceback
from datetime import timedelta
from types import SimpleNamespace

import pytest

from rota import errors
from rota.postgres.errors import as_rota_error

CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, Exception)
}
EXAMPLES: list[Exception] = [
    errors.RotaError("broken", hint="mend it"),
    errors.DatabaseError("gone", sqlstate="08006", hint="is the server up?"),
    errors.AttemptTimeout(30),
    errors.RunFailed(7, "failed", "attempts used up", "ValueError: no"),
    errors.RunFailed(7, "cancelled"),
    errors.WaitTimeout("run 7 had not ended after 10 s"),
    errors.Retry(5, "busy"),
    errors.Retry(),
    errors.Snooze(timedelta(minutes=1)),
    errors.Cancel("gone"),
]


def drawn_tree() -> dict[str, str | None]:
    """Each class drawn in the module's docstring, with the parent that the drawing gives it."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for indent, name in re.findall(r"^( *)\* (\w+)", errors.__doc__ or "", flags=re.MULTILINE):
        depth = len(indent) // 2
        path[depth:] = [name]
        parents[name] = path[depth - 1] if depth else None
    return parents


def test_the_drawing_shows_every_class_under_its_parent() -> None:
    actual = {
        name: None if cls.__base__ is Exception else cls.__bases__[0].__name__
        for name, cls in CLASSES.items()
    }
    assert drawn_tree() == actual


def test_every_class_is_exported_and_says_when_it_happens() -> None:
    assert set(CLASSES) <= set(errors.__all__)
    assert [name for name, cls in CLASSES.items() if not cls.__dict__.get("__doc__")] == []


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_errors_cross_to_another_process_unchanged(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_a_hint_is_shown_with_the_traceback_but_not_in_the_message() -> None:
    error = errors.ConfigError("bad value", hint="use another")
    assert str(error) == "bad value"
    assert error.hint == "use another"
    assert "hint: use another" in "".join(traceback.format_exception(error))


def test_control_flow_is_not_an_error_of_rota() -> None:
    for control in (errors.Retry(), errors.Snooze(1), errors.Cancel()):
        assert isinstance(control, errors.Control)
        assert not isinstance(control, errors.RotaError)


@pytest.mark.parametrize(
    ("delay", "seconds"), [(5, 5.0), (timedelta(minutes=2), 120.0), (-3, 0.0), (0, 0.0)]
)
def test_delays_are_seconds_or_timedelta_and_never_negative(
    delay: float | timedelta, seconds: float
) -> None:
    assert errors.Retry(delay).delay == seconds
    assert errors.Snooze(delay).delay == seconds


@pytest.mark.parametrize("delay", [float("nan"), float("inf")])
def test_a_delay_without_end_is_refused(delay: float) -> None:
    with pytest.raises(ValueError, match="finite number of seconds"):
        errors.Snooze(delay)


def test_retry_without_a_delay_leaves_it_to_the_backoff() -> None:
    assert errors.Retry().delay is None


def test_timeouts_are_timeout_errors() -> None:
    assert isinstance(errors.AttemptTimeout(30), TimeoutError)
    assert isinstance(errors.WaitTimeout(), TimeoutError)
    assert str(errors.AttemptTimeout(30)) == "attempt exceeded its timeout of 30 s"


def test_run_failed_tells_run_state_and_reasons() -> None:
    error = errors.RunFailed(7, "failed", "attempts used up", "ValueError: no")
    assert str(error) == "run 7 ended as failed: attempts used up: ValueError: no"
    assert str(errors.RunFailed(8, "cancelled")) == "run 8 ended as cancelled"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("RO001", errors.UnknownJob),
        ("RO002", errors.InputError),
        ("RO018", errors.PayloadError),
        ("RO003", errors.DuplicateKey),
        ("RO004", errors.RunNotFound),
        ("RO007", errors.ScheduleNotFound),
        ("RO005", errors.WrongState),
        ("RO010", errors.WorkerNotFound),
        ("RO006", errors.LeaseLost),
        ("23505", errors.DatabaseError),
        (None, errors.DatabaseError),
    ],
)
def test_an_error_of_the_database_becomes_ours(
    code: str | None, expected: type[errors.RotaError]
) -> None:
    detail = '{"run": 7}' if expected is not errors.DatabaseError else "because"
    raised = SimpleNamespace(sqlstate=code, message="no", detail=detail, hint="do this")
    error = as_rota_error(raised)
    assert type(error) is expected
    # The functions of the schema say all in the message; their detail is for programs.
    is_other = expected is errors.DatabaseError
    assert str(error) == ("no: because" if is_other else "no")
    assert error.values == ({} if is_other else {"run": 7})
    assert error.hint is not None
    if isinstance(error, errors.DatabaseError):
        assert error.sqlstate == code
