"""The child's side of the process executor: executes one attempt after another for its worker.

The main thread runs handlers. A second thread reads from the worker, so that a cancellation is seen
while a handler runs, and so that the child ends with its worker whatever the handler does.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import io
import os
import queue
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property
from typing import Any

import msgspec

from rota.engine.executors import wire
from rota.engine.executors.background_context import entering
from rota.engine.executors.child_attempt import ChildAttempt, ChildSessions
from rota.engine.executors.child_logs import begin_capture, end_capture, print_safely
from rota.engine.executors.frameworks import inside_frameworks
from rota.engine.executors.lifespans import Lifespans
from rota.engine.executors.location import resolve, resolve_reference
from rota.engine.executors.remote import pack
from rota.model.hook import Hook
from rota.model.inside import await_inside, call_inside
from rota.telemetry import otel, parent

# By name: this layer must not import `rota.jobs`, and a child needs both.
_CONTEXT = "rota.jobs.context:Context"
_ENCODE = "rota.jobs.encoding:encode_result"
# How often a child checks whether its parent has changed. The end of the channel shows that at
# once, unless a fork of the worker keeps its side open.
_LOOK_MS = 5000
_Body = tuple[Callable[..., Any], dict[str, Any]]


class Terminated(SystemExit):
    """Raised in the handler by SIGTERM, so that its `finally` blocks run before the process
    ends."""


class Channel:
    """The socket to the worker, and the current attempt."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sending = threading.Lock()
        self._parent = os.getppid()
        self.inbox: queue.SimpleQueue[wire.Hello | wire.Begin | wire.Quit] = queue.SimpleQueue()
        self.attempt: ChildAttempt | None = None
        self.sessions = ChildSessions()

    def send(self, message: wire.FromChild) -> None:
        data = wire.frame(message)
        with self._sending:
            self._sock.sendall(data)

    def next(self) -> wire.Hello | wire.Begin | wire.Quit:
        """Return the next message of the worker; meanwhile end a session that has been idle for
        long enough."""
        while True:
            try:
                return self.inbox.get(timeout=self.sessions.rest_seconds)
            except queue.Empty:
                self.sessions.trim()

    def listen(self) -> None:
        threading.Thread(target=self._read, name="rota-channel", daemon=True).start()

    def _read(self) -> None:
        frames = wire.Frames()
        try:
            while data := self._receive():
                for body in frames.feed(data):
                    self._take(wire.decode_to_child(body))
        except OSError:
            pass
        except BaseException:
            traceback.print_exc()
        self._leave()

    def _receive(self) -> bytes:
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        while not poll.poll(_LOOK_MS):
            if os.getppid() != self._parent:
                return b""
        return self._sock.recv(1 << 18)

    def _take(self, message: wire.ToChild) -> None:
        match message:
            case wire.Begin():
                # Created here, so that a cancellation right behind it finds the attempt.
                self.attempt = ChildAttempt(message.call, message.work, self.send, self.sessions)
                self.inbox.put(message)
            case wire.Interrupt(call):
                if self.attempt is not None and self.attempt.call == call:
                    self.attempt.cancel()
            case _:
                self.inbox.put(message)

    def _leave(self) -> None:
        """The worker is gone, and so is its lease: stop at once, with all started processes."""
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpid(), signal.SIGKILL)
        os._exit(1)


class Child:
    """Executes handlers, one at a time, all coroutines on one event loop."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._app_ref: str | None = None
        self._app: Any = None
        self._lifespans: dict[int, Lifespans] = {}

    @cached_property
    def _runner(self) -> asyncio.Runner:
        return asyncio.Runner()

    def run(self) -> None:
        try:
            self._serve()
        finally:
            self._leave_lifespans()

    def _serve(self) -> None:
        while True:
            match self._channel.next():
                case wire.Hello(path, argv, app_ref):
                    sys.path[:], sys.argv[:], self._app_ref = path, argv, app_ref
                case wire.Begin(call, work):
                    self._channel.send(self._answer(call, work))
                case wire.Quit():
                    return

    def _answer(self, call: int, work: wire.Work) -> wire.Return | wire.Raise:
        attempt = self._channel.attempt
        assert attempt is not None
        try:
            return contextvars.copy_context().run(self._attempt, work, attempt)
        except Terminated:
            raise
        except BaseException as error:
            return pack(call, error)

    def _attempt(self, work: wire.Work, attempt: ChildAttempt) -> wire.Return:
        otel.attach(work.trace)
        parent.begin(work.claim.id)
        body, hooks = self._bind(work, attempt)
        print_safely()
        if hooks is not None:
            attempt.state = self._enter_lifespans(hooks)
        if work.captured_level is not None:
            begin_capture(attempt.store_record, attempt.store_event, work.captured_level)
        try:
            value = self._call(body, attempt, () if hooks is None else hooks.around_attempt)
            if inspect.iscoroutine(value):
                return self._run(_await(value, work, attempt))
            result = _encode(value, work)
            return wire.Return(attempt.call, result, attempt.finish_sync(result))
        finally:
            end_capture()
            attempt.close_sync()

    def _run(self, body: Coroutine[Any, Any, wire.Return]) -> wire.Return:
        try:
            return self._runner.run(body, context=contextvars.copy_context())
        except (SystemExit, KeyboardInterrupt):
            # These exceptions leave the loop from any coroutine; others may hang in it.
            self._leave_lifespans()
            self._runner.close()
            del self._runner
            raise

    def _call(self, body: _Body, attempt: ChildAttempt, around: tuple[Hook, ...]) -> Any:
        """Return the result of the handler, called inside its hooks, or a coroutine that does
        so."""
        function, arguments = body
        is_async = inspect.iscoroutinefunction(function)
        around = inside_frameworks(around, is_async=is_async)
        if not around:
            return function(**arguments)
        context = _context(attempt)
        if is_async:
            return await_inside(around, context, function, arguments)
        return call_inside(around, context, function, arguments, entering(self._runner.run))

    def _enter_lifespans(self, hooks: Any) -> Mapping[str, Any]:
        """Enter the lifespans of the handler's application, at its first attempt in this
        process."""
        found = self._lifespans.get(id(hooks))
        if found is None:
            made = Lifespans(lambda: hooks.lifespans, hooks.app)
            if not hooks.lifespans:
                return made.state
            self._runner.run(made.enter(lambda _: self._forget(id(hooks))))
            found = self._lifespans[id(hooks)] = made
        return found.state

    def _forget(self, hooks: int) -> None:
        """The lifespans have ended by themselves: the next attempt enters them again."""
        self._lifespans.pop(hooks, None)

    def _leave_lifespans(self) -> None:
        entered, self._lifespans = self._lifespans, {}
        for lifespans in entered.values():
            try:
                self._runner.run(lifespans.leave())
            except BaseException:
                traceback.print_exc()

    def _bind(self, work: wire.Work, attempt: ChildAttempt) -> tuple[_Body, Any]:
        """Return the handler with its arguments, and the hooks of its application."""
        if self._app_ref is not None:
            # Import the application first: its modules may depend on the order of imports.
            self._app = resolve_reference(self._app_ref)
            self._app_ref = None
        found: Any = resolve(work.location)
        definition = getattr(found, "definition", None)
        name = work.context_parameter
        if definition is None:
            function, arguments = found, msgspec.json.decode(work.claim.payload)
        else:
            function = definition.function
            arguments = definition.schema.decode(work.claim.payload, work.is_validated)
            name = name or definition.schema.context_parameter
        if name is not None:
            arguments = {**arguments, name: _context(attempt)}
        return (function, arguments), self._hooks(found, work, definition)

    def _hooks(self, found: Any, work: wire.Work, definition: Any) -> Any:
        """Find the hooks; a job may be declared in another place than its function."""
        registry = getattr(self._app, "registry", None)
        if definition is None and registry is not None:
            definition = registry.find(work.claim.job)
        if definition is None:
            jobs = vars(sys.modules[found.__module__]).values()
            declared = (getattr(candidate, "definition", None) for candidate in list(jobs))
            definition = next(
                (candidate for candidate in declared if _is_of(candidate, found)), None
            )
        return getattr(definition, "hooks", None)


def _is_of(definition: Any, function: object) -> bool:
    return getattr(definition, "function", None) is function


def _context(attempt: ChildAttempt) -> Any:
    context: Any = resolve_reference(_CONTEXT)
    return context(attempt)


def _encode(value: object, work: wire.Work) -> bytes | None:
    encode: Any = resolve_reference(_ENCODE)
    result: bytes | None = encode(value, work.result_bytes)
    return result


async def _await(
    body: Coroutine[Any, Any, Any], work: wire.Work, attempt: ChildAttempt
) -> wire.Return:
    task = asyncio.current_task()
    assert task is not None
    attempt.attach(task)
    before = asyncio.all_tasks()
    try:
        result = _encode(await body, work)
        return wire.Return(attempt.call, result, await attempt.finish(result))
    finally:
        attempt.detach()
        await attempt.close()
        await _end_others(before)


async def _end_others(known: set[asyncio.Task[Any]]) -> None:
    """Cancel tasks that a handler has left behind, as `asyncio.run` does, so that they do not
    affect the next attempt. Tasks of lifespans stay."""
    others = asyncio.all_tasks() - known
    for other in others:
        other.cancel()
    if others:
        await asyncio.gather(*others, return_exceptions=True)


def main(fd: int) -> None:
    channel = Channel(socket.socket(fileno=fd))
    os.set_inheritable(fd, False)
    _set_signals(channel)
    # Flush each line, so that a handler's output is complete even if its child is killed.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    channel.listen()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        Child(channel).run()


def _set_signals(channel: Channel) -> None:
    """Ignore signals to a whole service or terminal: the worker decides about them, and ends its
    children."""

    def on_term(*_: object) -> None:
        if channel.attempt is not None and channel.attempt.is_cancelled:
            raise Terminated(128 + signal.SIGTERM)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, on_term)
