"""`@app.job` and the jobs that it returns."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Protocol, Unpack, overload

from typing_extensions import ParamSpec

from rota.jobs.batch import NO_PAYLOAD, Call
from rota.jobs.context import Context
from rota.jobs.definition import JobDefinition
from rota.jobs.elsewhere import OF_JOB, refuse
from rota.jobs.enqueue import Enqueuer
from rota.jobs.handle import R, Run
from rota.jobs.job_arguments import JobKeywords
from rota.jobs.options import NO_OPTIONS, OptionKeywords, Options
from rota.jobs.registry import Registry
from rota.model.backoff import Backoff

# The arguments of an enqueue: the handler's, without the context. `Job` alone is any job.
P = ParamSpec("P", default=...)


class BoundJob(Generic[P, R]):
    """A job with options for its enqueues."""

    def __init__(self, definition: JobDefinition, enqueuer: Enqueuer, options: Options) -> None:
        self.definition = definition
        self._enqueuer = enqueuer
        self._options = options

    @property
    def name(self) -> str:
        return self.definition.name

    def options(self, **options: Unpack[OptionKeywords]) -> BoundJob[P, R]:
        """Return the same job with these options for its enqueues; it can be kept and reused."""
        own = self.definition
        default = self._default_backoff() if "backoff" in options else None
        merged = self._options.merge(options, default)
        merged.check_whole(has_key=own.key is not None, has_delay=own.delay is not None)
        return BoundJob(own, self._enqueuer, merged)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Return a validated call that is not enqueued yet, for `app.enqueue_many`."""
        definition = self.definition
        schema, options = definition.schema, self._options
        if not args and not kwargs and schema.names:
            self._check_default()
            return Call(definition.name, NO_PAYLOAD, None, options, definition.decode_result)
        payload = schema.encode(schema.bind(args, kwargs)).decode()
        return Call(definition.name, payload, schema.hash, options, definition.decode_result)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Run[R]:
        """Enqueue one run with these arguments, or without any with the default payload."""
        return await self._enqueuer.send(self.call(*args, **kwargs))

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Run[R]:
        return self._enqueuer.send_sync(self.call(*args, **kwargs))

    def _check_default(self) -> None:
        """Check that the job can run without arguments. The run then gets the job's default
        payload, as stored in the database; a job that declares none must be callable without
        arguments."""
        if self.definition.default_payload is None:
            self.definition.schema.bind((), {})

    def _default_backoff(self) -> Backoff:
        own = self.definition.backoff
        return own if isinstance(own, Backoff) else self._enqueuer.config.runs.default_backoff()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    if not TYPE_CHECKING:  # type checkers would accept any attribute

        def __getattr__(self, name: str) -> Any:
            refuse(self, name, OF_JOB, "a job")


class Job(BoundJob[P, R]):
    """A declared job. Calling it calls the function directly, for example in tests."""

    __name__: str
    __wrapped__: Callable[..., Any]

    def __init__(self, definition: JobDefinition, enqueuer: Enqueuer) -> None:
        super().__init__(definition, enqueuer, NO_OPTIONS)
        update_wrapper(self, definition.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.definition.function(*args, **kwargs)


if TYPE_CHECKING:
    # A direct call has the types of the handler. At run time all of these classes are `Job`.

    class AsyncJob(Job[P, R]):
        """A job of an `async def` without a context."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]: ...

    class AsyncContextJob(Job[P, R]):
        """A job of an `async def` that takes a context first."""

        def __call__(
            self, context: Context, /, *args: P.args, **kwargs: P.kwargs
        ) -> Coroutine[Any, Any, R]: ...

    class SyncJob(Job[P, R]):
        """A job of a `def` without a context."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    class SyncContextJob(Job[P, R]):
        """A job of a `def` that takes a context first."""

        def __call__(self, context: Context, /, *args: P.args, **kwargs: P.kwargs) -> R: ...


class Declare(Protocol):
    """The types that `@app.job` and `@app.job(…)` return. The overloads overlap: a function whose
    result is a coroutine is treated like an `async def`, which it is in all but name."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncContextJob[P, R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], R], /
    ) -> SyncContextJob[P, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncJob[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncJob[P, R]: ...


class JobDecorator:
    """`app.job`: with and without parentheses."""

    def __init__(self, registry: Registry, enqueuer: Enqueuer) -> None:
        self._registry = registry
        self._enqueuer = enqueuer

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncContextJob[P, R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], R], /
    ) -> SyncContextJob[P, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncJob[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncJob[P, R]: ...
    @overload
    def __call__(self, **arguments: Unpack[JobKeywords]) -> Declare: ...
    def __call__(self, function: Any = None, /, **arguments: Any) -> Any:  # type: ignore[misc]
        if function is not None:
            return self._declare(function, {})
        return lambda function: self._declare(function, arguments)

    def _declare(self, function: Callable[..., Any], arguments: Any) -> Job:
        if isinstance(function, Job):
            function = function.definition.function
        hooks = self._registry.hooks
        definition = JobDefinition.of(function, self._enqueuer.config, arguments, hooks)
        self._registry.add(definition)
        return Job(definition, self._enqueuer)
