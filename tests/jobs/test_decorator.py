from __future__ import annotations

import inspect

import pytest

from rota.errors import JobError, UnknownJob
from rota.jobs.context import Context
from tests.jobs.conftest import Setting


async def test_with_and_without_parentheses(setting: Setting) -> None:
    @setting.job
    def bare(n: int) -> int:
        """Says n."""
        return n

    @setting.job()
    def empty() -> None: ...

    @setting.job(name="named", queue="mail")
    async def full(ctx: Context, n: int) -> int:
        return n

    assert setting.registry.names() == ["bare", "empty", "named"]
    assert full.definition.queue == "mail"
    assert [job.name for job in setting.registry] == setting.registry.names()


async def test_a_job_is_still_its_function(setting: Setting) -> None:
    @setting.job(max_attempts=2)
    async def double(n: int) -> int:
        """Twice n."""
        return 2 * n

    assert await double(4) == 8
    assert (double.__name__, double.__doc__) == ("double", "Twice n.")
    assert double.__module__ == __name__
    assert list(inspect.signature(double).parameters) == ["n"]
    assert repr(double) == "<Job double>"


async def test_options_make_another_and_leave_the_job_alone(setting: Setting) -> None:
    @setting.job
    def job(n: int) -> None: ...

    bound = job.options(queue="a").options(priority=1)
    call = bound.call(5)
    assert (call.options.queue, call.options.priority) == ("a", 1)
    assert job.call(n=5).options.is_default
    assert (call.job, call.payload, call.validated_by) == (
        "job",
        '{"n":5}',
        job.definition.schema.hash,
    )


async def test_two_functions_under_one_name_are_refused_with_both_places(setting: Setting) -> None:
    @setting.job(name="same")
    def first() -> None: ...

    with pytest.raises(JobError, match=r"test_decorator.*first.*test_decorator.*second"):

        @setting.job(name="same")
        def second() -> None: ...

    assert setting.registry.get("same").function is first.definition.function


async def test_a_module_that_is_imported_again_takes_over(setting: Setting) -> None:
    def declare() -> None:
        @setting.job
        def again() -> None: ...

    declare()
    before = setting.registry.get("again")
    declare()
    assert setting.registry.get("again") is not before
    assert len(setting.registry) == 1


async def test_an_unknown_name_suggests_the_near_one(setting: Setting) -> None:
    @setting.job
    def welcome() -> None: ...

    assert "welcome" in setting.registry
    with pytest.raises(UnknownJob, match='"wellcome"') as caught:
        setting.registry.get("wellcome")
    assert caught.value.hint == "did you mean welcome?"


async def test_declaring_touches_no_database(setting: Setting) -> None:
    @setting.job
    def job(n: int) -> None: ...

    job.options(delay=5).call(1)
    assert setting.rows("SELECT * FROM rota.jobs WHERE NOT is_system") == []
