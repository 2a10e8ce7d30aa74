from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvloop

from rota.engine.executors.child_attempt import ChildAttempt, ChildSessions
from rota.engine.executors.child_pool import ChildCall, ChildPool, Wear
from rota.engine.executors.location import Location, locate
from rota.engine.executors.remote import ChildDied, RemoteError, traceback_of
from rota.engine.executors.wire import Work
from rota.errors import Cancel, JobError, ResultError, Retry, RotaError, Snooze
from rota.jobs.context import Attempt, Context
from rota.model.run import Claim
from tests.engine.executors import handlers

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Heard:
    """What a handler said, in order, and a way to wait for it."""

    def __init__(self) -> None:
        self.output: list[tuple[Any, ...]] = []
        self._news = asyncio.Event()

    def on_log(self, level: str, message: str, fields: dict[str, Any]) -> None:
        self._add(("log", level, message, fields))

    def on_progress(self, fraction: float, message: str | None) -> None:
        self._add(("progress", fraction, message))

    def _add(self, what: tuple[Any, ...]) -> None:
        self.output.append(what)
        self._news.set()

    async def pid(self) -> int:
        """The process that the first log line names."""
        await self._news.wait()
        pid = self.output[0][3]["pid"]
        assert isinstance(pid, int)
        return pid


def make_call(
    function: Callable[..., Any] | Location,
    payload: dict[str, Any] | None = None,
    heard: Heard | None = None,
    *,
    context: str | None = None,
    result_bytes: int = 1 << 20,
    **options: Any,
) -> ChildCall:
    raw = json.dumps(payload or {}).encode()
    claim = Claim(
        id=7,
        seq=1,
        attempt=2,
        attempts_used=1,
        max_attempts=5,
        priority=5,
        queue="q",
        job="j",
        payload=raw,
        validated_by=None,
        timeout_seconds=30.0,
        is_expired=None,
        is_suspect=False,
        enqueued_at=AT,
        claimed_at=AT,
        extras=None,
        tenant="t",
    )
    location = function if isinstance(function, Location) else locate(function)
    work = Work(location, claim, 9, AT, 30.0, "", "rota", 60.0, result_bytes, context, **options)
    heard = heard or Heard()
    return ChildCall(work, heard.on_log, heard.on_progress)


@pytest.fixture
async def executor() -> AsyncIterator[ChildPool]:
    executor = ChildPool(size=2, app_ref=None)
    yield executor
    await executor.close(5)


async def pid_of_child(executor: ChildPool) -> int:
    pid = await executor.call(make_call(handlers.who))
    assert isinstance(pid, bytes)
    return int(pid)


async def gone(pid: int) -> None:
    """Returns when the process has ended; a hang here is the failure."""
    with contextlib.suppress(psutil.NoSuchProcess):
        await asyncio.to_thread(psutil.Process(pid).wait)


async def test_result(executor: ChildPool) -> None:
    assert await executor.call(make_call(handlers.add, {"a": 2, "b": 3})) == b"5"
    assert await executor.call(make_call(handlers.nothing)) is None
    assert await executor.call(make_call(handlers.Holder.nested)) == b'"nested"'


async def test_coroutine(executor: ChildPool) -> None:
    for _ in range(2):
        assert await executor.call(make_call(handlers.add_later, {"a": 2, "b": 3})) == b'{"sum":5}'


async def test_decorated_job_decodes_with_its_own_schema(executor: ChildPool) -> None:
    location = Location(handlers.__name__, "stamp", handlers.__file__)
    result = await executor.call(make_call(location, {}, is_validated=True))
    assert result == b'[7,"{}",true]'


async def test_context_delivers_logs_and_progress_in_order(executor: ChildPool) -> None:
    heard = Heard()
    result = await executor.call(make_call(handlers.talk, {"count": 3}, heard, context="ctx"))
    expected: list[tuple[Any, ...]] = []
    for number in range(3):
        expected.append(("log", "info", "line", {"number": number}))
        expected.append(("progress", number / 3, f"step {number}"))
    assert heard.output[:-1] == expected
    kind, level, message, fields = heard.output[-1]
    assert (kind, level, message) == ("log", "error", "odd")
    assert fields["user"] == "7"
    assert fields["big"] == str(1 << 80)
    assert isinstance(result, bytes)
    assert json.loads(result) == {
        "job": "j",
        "run": 7,
        "attempt": 2,
        "tenant": "t",
        "queued_at": "2026-01-02T03:04:05+00:00",
        "deadline": "2026-01-02T03:04:35+00:00",
        "is_cancelled": False,
    }


def test_attempt_of_a_child_is_one_of_the_two_kinds() -> None:
    work = make_call(handlers.nothing).work
    attempt: Attempt = ChildAttempt(1, work, lambda message: None, ChildSessions())
    assert Context(attempt).run_id == 7


async def test_failing_callback_does_not_fail_the_attempt(executor: ChildPool) -> None:
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    request = make_call(handlers.say_pid, context="ctx")

    def fail(*_: object) -> None:
        raise ValueError("callback")

    request = ChildCall(request.work, fail, fail)
    assert await executor.call(request) is None
    assert [str(problem["exception"]) for problem in problems] == ["callback"]


@pytest.mark.parametrize("function", [handlers.fail, handlers.fail_later])
async def test_exceptions_keep_their_type(
    executor: ChildPool, function: Callable[..., Any]
) -> None:
    with pytest.raises(ValueError, match="wrong value") as plain:
        await executor.call(make_call(function, {"kind": "value"}))
    trace = traceback_of(plain.value)
    assert trace is not None
    assert trace.splitlines()[1].strip().startswith(f'File "{handlers.__file__}"')
    assert trace.endswith("ValueError: wrong value\n")

    with pytest.raises(handlers.Refused) as refused:
        await executor.call(make_call(function, {"kind": "refused"}))
    assert refused.value.code == 42


@pytest.mark.parametrize("function", [handlers.fail, handlers.fail_later])
async def test_control_exceptions_arrive_as_themselves(
    executor: ChildPool, function: Callable[..., Any]
) -> None:
    with pytest.raises(Retry) as retry:
        await executor.call(make_call(function, {"kind": "retry"}))
    assert (retry.value.delay, retry.value.message) == (5, "busy")
    with pytest.raises(Snooze) as snooze:
        await executor.call(make_call(function, {"kind": "snooze"}))
    assert snooze.value.delay == 30
    with pytest.raises(Cancel, match="no longer wanted"):
        await executor.call(make_call(function, {"kind": "cancel"}))


@pytest.mark.parametrize(
    ("kind", "type_name"),
    [
        ("unpicklable", "tests.engine.executors.handlers.Unpicklable"),
        ("stubborn", "tests.engine.executors.handlers.Stubborn"),
        ("exit", "SystemExit"),
        ("interrupt", "KeyboardInterrupt"),
        ("cancelled", "asyncio.exceptions.CancelledError"),
    ],
)
@pytest.mark.parametrize("function", [handlers.fail, handlers.fail_later])
async def test_what_cannot_be_raised_here_is_told_in_words(
    executor: ChildPool, function: Callable[..., Any], kind: str, type_name: str
) -> None:
    pid = await pid_of_child(executor)
    with pytest.raises(RemoteError) as remote:
        await executor.call(make_call(function, {"kind": kind}))
    assert remote.value.type_name == type_name
    assert "handlers.py" in (traceback_of(remote.value) or "")
    assert await pid_of_child(executor) == pid, "the child survives"
    assert await executor.call(make_call(handlers.add_later, {"a": 1, "b": 1})) == b'{"sum":2}'


async def test_exit_from_a_coroutine_beside_the_handler(executor: ChildPool) -> None:
    with pytest.raises(RemoteError, match="SystemExit"):
        await executor.call(make_call(handlers.exit_beside))
    assert await executor.call(make_call(handlers.add_later, {"a": 1, "b": 1})) == b'{"sum":2}'


async def test_odd_failures(executor: ChildPool) -> None:
    with pytest.raises(RecursionError):
        await executor.call(make_call(handlers.recurse))
    with pytest.raises(ValueError, match="\ud800"):
        await executor.call(make_call(handlers.fail, {"kind": "surrogate"}))
    with pytest.raises(ResultError, match="cannot be stored as JSON"):
        await executor.call(make_call(handlers.unstorable))
    with pytest.raises(ResultError, match="12 bytes; the limit is 10"):
        await executor.call(make_call(handlers.echo, {"text": "x" * 10}, result_bytes=10))
    with pytest.raises(TypeError, match="unexpected keyword"):
        await executor.call(make_call(handlers.add, {"a": 1, "b": 2, "c": 3}))
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        await executor.call(make_call(Location("no_such_module", "f")))


async def test_large_payload_and_result(executor: ChildPool) -> None:
    text = "x" * 8_000_000
    result = await executor.call(make_call(handlers.echo, {"text": text}, result_bytes=1 << 24))
    assert result == json.dumps(text).encode()


@pytest.mark.parametrize(
    ("function", "payload", "how"),
    [
        (handlers.die, {"code": 3}, "it exited with status 3"),
        (handlers.die, {"code": 0}, "it exited with status 0"),
        (handlers.kill, {"number": signal.SIGKILL}, "killed by SIGKILL"),
        (handlers.kill, {"number": signal.SIGSEGV}, "killed by SIGSEGV"),
        pytest.param(handlers.close_everything, {}, "killed by SIGKILL", marks=pytest.mark.slow),
    ],
)
async def test_death_ends_its_own_attempt_only(
    executor: ChildPool, tmp_path: Path, function: Any, payload: dict[str, Any], how: str
) -> None:
    heard = Heard()
    other = asyncio.create_task(
        executor.call(make_call(handlers.wait_for_flag, {}, heard, context="ctx"))
    )
    await heard.pid()
    with pytest.raises(ChildDied, match=how):
        await executor.call(make_call(function, payload))
    assert await executor.call(make_call(handlers.add, {"a": 2, "b": 3})) == b"5"
    assert not other.done()
    other.cancel()
    await asyncio.wait({other})


async def test_last_words_of_a_dead_child_are_heard(executor: ChildPool) -> None:
    heard = Heard()
    with pytest.raises(ChildDied):
        await executor.call(make_call(handlers.speak_and_die, {}, heard, context="ctx"))
    assert heard.output == [("log", "info", "last words", {})]


async def test_death_is_seen_though_a_fork_keeps_the_channel_open(
    executor: ChildPool,
) -> None:
    heard = Heard()
    with pytest.raises(ChildDied, match="SIGKILL"):
        await executor.call(make_call(handlers.fork_and_die, {}, heard, context="ctx"))
    os.kill(await heard.pid(), signal.SIGKILL)


async def test_idle_child_that_was_killed_is_replaced(executor: ChildPool) -> None:
    pid = await pid_of_child(executor)
    os.kill(pid, signal.SIGKILL)
    (child,) = executor._children
    await asyncio.wait({child.gone})
    assert await pid_of_child(executor) != pid


async def cancelled(
    executor: ChildPool, function: Callable[..., Any], payload: dict[str, Any]
) -> int:
    """Runs the function until it has named a process, cancels it, and returns that process."""
    heard = Heard()
    task = asyncio.create_task(executor.call(make_call(function, payload, heard, context="ctx")))
    pid = await heard.pid()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return pid


async def test_cancelled_handler_may_stop_by_itself(executor: ChildPool) -> None:
    executor._cancel_seconds = 60
    pid = await cancelled(executor, handlers.wait_for_flag, {})
    assert await pid_of_child(executor) == pid, "its child stays"


async def test_cancelled_coroutine_is_cancelled(executor: ChildPool, tmp_path: Path) -> None:
    executor._cancel_seconds = 60
    note = tmp_path / "note"
    await cancelled(executor, handlers.sleep_later, {"path": str(note)})
    assert note.read_text() == "cancelled"


async def test_cancel_ends_the_child_after_its_cleanup(executor: ChildPool, tmp_path: Path) -> None:
    executor._term_seconds = 60
    note = tmp_path / "note"
    pid = await cancelled(executor, handlers.sleep, {"path": str(note)})
    assert not psutil.pid_exists(pid)
    assert note.read_text() == "cleaned up"
    assert await executor.call(make_call(handlers.add, {"a": 2, "b": 3})) == b"5"


async def test_cancel_kills_a_handler_that_does_not_stop(executor: ChildPool) -> None:
    executor._cancel_seconds = executor._term_seconds = 0.1
    pid = await cancelled(executor, handlers.refuse_to_stop, {})
    assert not psutil.pid_exists(pid)


async def test_second_cancel_does_not_wait(executor: ChildPool) -> None:
    executor._cancel_seconds = executor._term_seconds = 600
    heard = Heard()
    task = asyncio.create_task(
        executor.call(make_call(handlers.refuse_to_stop, {}, heard, context="ctx"))
    )
    pid = await heard.pid()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone(pid)


async def test_cancel_while_waiting_for_a_child(executor: ChildPool) -> None:
    heard = [Heard(), Heard()]
    busy = [
        asyncio.create_task(executor.call(make_call(handlers.sleep, {}, each, context="ctx")))
        for each in heard
    ]
    for each in heard:
        await each.pid()
    waiting = asyncio.create_task(executor.call(make_call(handlers.who)))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    for task in busy:
        task.cancel()
    await asyncio.wait(busy)
    assert await executor.call(make_call(handlers.add, {"a": 2, "b": 3})) == b"5"


async def test_cancel_ends_what_the_handler_started(executor: ChildPool) -> None:
    await gone(await cancelled(executor, handlers.start_grandchild, {}))


async def test_signals_to_a_whole_group_do_not_end_a_child(executor: ChildPool) -> None:
    pid = await pid_of_child(executor)
    os.kill(pid, signal.SIGINT)
    os.kill(pid, signal.SIGTERM)
    assert await pid_of_child(executor) == pid


async def test_attempts_run_at_once_up_to_the_size(executor: ChildPool, tmp_path: Path) -> None:
    payload = {"directory": str(tmp_path), "count": 2}
    request = make_call(handlers.meet, payload, context="ctx")
    pids = set(await asyncio.gather(*(executor.call(request) for _ in range(6))))
    assert len(pids) == 2


async def test_children_start_on_demand_and_stay(executor: ChildPool) -> None:
    assert not executor._children
    pids = {await executor.call(make_call(handlers.who)) for _ in range(5)}
    assert len(pids) == 1


async def test_a_child_is_replaced_after_its_attempts() -> None:
    executor = ChildPool(size=1, app_ref=None, wear=Wear(runs=2))
    pids = [await pid_of_child(executor) for _ in range(5)]
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]
    for pid in pids[:4]:
        await gone(pid)
    await executor.close(60)
    assert not psutil.pid_exists(pids[4])


@pytest.mark.skipif(not psutil.LINUX, reason="memory of children is known on Linux only")
async def test_a_child_that_has_grown_too_large_is_replaced() -> None:
    executor = ChildPool(size=1, app_ref=None, wear=Wear(memory_bytes=300 * 2**20))
    first = await executor.call(make_call(handlers.leak, {"megabytes": 1}))
    assert await executor.call(make_call(handlers.leak, {"megabytes": 400})) == first
    assert await executor.call(make_call(handlers.leak, {"megabytes": 1})) != first
    await executor.close(60)


async def test_output_goes_where_the_worker_writes(
    executor: ChildPool, capfd: pytest.CaptureFixture[str]
) -> None:
    await executor.call(make_call(handlers.shout, {"text": "hello"}))
    assert capfd.readouterr() == ("hello\n", "hello\n")


async def test_close_ends_children_and_is_harmless_twice() -> None:
    executor = ChildPool(size=1, app_ref=None)
    pid = await pid_of_child(executor)
    await executor.close(60)
    assert not psutil.pid_exists(pid)
    await executor.close(60)
    with pytest.raises(RotaError, match="closed"):
        await executor.call(make_call(handlers.who))


async def test_close_kills_after_its_grace() -> None:
    executor = ChildPool(size=1, app_ref=None)
    heard = Heard()
    task = asyncio.create_task(
        executor.call(make_call(handlers.refuse_to_stop, {}, heard, context="ctx"))
    )
    pid = await heard.pid()
    await executor.close(0)
    assert not psutil.pid_exists(pid)
    with pytest.raises(ChildDied):
        await task


async def test_job_in_a_file_loaded_by_path(executor: ChildPool, tmp_path: Path) -> None:
    script = tmp_path / "jobs_of_a_script.py"
    script.write_text("class Own(Exception): ...\ndef work(n): return n * 2\ndef fail(): raise Own")
    spec = importlib.util.spec_from_file_location("jobs_of_a_script", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["jobs_of_a_script"] = module
    try:
        spec.loader.exec_module(module)
        assert await executor.call(make_call(module.work, {"n": 21})) == b"42"
        with pytest.raises(module.Own):
            await executor.call(make_call(module.fail))
    finally:
        del sys.modules["jobs_of_a_script"]


PROGRAM = """
import asyncio, sys
from rota.engine.executors.child_pool import ChildPool
from tests.engine.executors.test_child_pool import Heard, make_call

class Own(Exception):
    pass

def work(n):
    if n < 0:
        raise Own
    return [n * 2, __name__]

def sleep(ctx):
    import time
    ctx.log.info("started", pid=__import__("os").getpid())
    time.sleep(600)

async def main():
    executor = ChildPool(size=1, app_ref=None)
    print(await executor.call(make_call(work, {"n": 21})), flush=True)
    try:
        await executor.call(make_call(work, {"n": -1}))
    except Own:
        print("Own", flush=True)
    if "hang" in sys.argv:
        heard = Heard()
        task = asyncio.create_task(executor.call(make_call(sleep, {}, heard, context="ctx")))
        print(await heard.pid(), flush=True)
        await task
    await executor.close(5)

GUARD
    asyncio.run(main())
"""
GUARDED = PROGRAM.replace("GUARD", 'if __name__ == "__main__":')


def run_program(*command: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    return subprocess.Popen(
        [sys.executable, "-W", "error", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_job_in_a_program_run_by_path(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(GUARDED)
    out, err = run_program(str(program)).communicate()
    assert (out, err) == ("b'[42,\"__rota_main__\"]'\nOwn\n", "")


def test_job_in_a_module_run_by_name(tmp_path: Path) -> None:
    (tmp_path / "program_by_name.py").write_text(GUARDED)
    start = f"import runpy, sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['x']; "
    run = "runpy.run_module('program_by_name', run_name='__main__', alter_sys=True)"
    out, err = run_program("-c", start + run).communicate()
    assert (out, err) == ("b'[42,\"program_by_name\"]'\nOwn\n", "")


def test_program_without_a_guard_is_told_so(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("GUARD", "if True:"))
    out, err = run_program(str(program)).communicate()
    assert out == ""
    assert "start the worker under `if __name__ == '__main__':`" in err


async def test_child_ends_with_its_parent(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(GUARDED)
    with run_program(str(program), "hang") as parent:
        assert parent.stdout is not None
        pid = int([await asyncio.to_thread(parent.stdout.readline) for _ in range(3)][-1])
        parent.kill()
    await gone(pid)


def test_functions_that_a_child_cannot_find_are_refused() -> None:
    with pytest.raises(JobError, match="it is nested"):
        locate(lambda: None)


async def test_application_is_imported_first(tmp_path: Path) -> None:
    note = tmp_path / "note"
    application = tmp_path / "application.py"
    application.write_text(f"open({str(note)!r}, 'w').write('imported')\napp = 1")
    executor = ChildPool(size=1, app_ref=f"{application}:app")
    assert await executor.call(make_call(handlers.add, {"a": 2, "b": 3})) == b"5"
    assert note.read_text() == "imported"
    await executor.close(5)


def run_on_both_loops(body: Callable[[], Coroutine[Any, Any, None]], loop: str) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if loop == "uvloop" else None) as runner:
        runner.run(body())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_works_on_both_loops_and_what_a_warm_child_costs(loop: str) -> None:
    async def body() -> None:
        executor = ChildPool(size=2, app_ref=None)
        request = make_call(handlers.add, {"a": 2, "b": 3})
        started = time.perf_counter()
        assert await executor.call(request) == b"5"
        cold = time.perf_counter() - started
        times = []
        for _ in range(500):
            started = time.perf_counter()
            await executor.call(request)
            times.append(time.perf_counter() - started)
        with pytest.raises(ChildDied, match="SIGKILL"):
            await executor.call(make_call(handlers.kill, {"number": signal.SIGKILL}))
        await cancelled(executor, handlers.sleep, {})
        await executor.close(5)
        cuts = statistics.quantiles(times, n=100)
        print(
            f"{loop}: cold {cold * 1e3:.0f} ms, warm median {cuts[49] * 1e6:.0f} µs,"
            f" p99 {cuts[98] * 1e6:.0f} µs"
        )

    run_on_both_loops(body, loop)
