from __future__ import annotations

from pathlib import Path

import pytest

from rota.cli.loading import AppReference, load_app, source_roots
from rota.cli.session import Session
from rota.cli.terminal.failure import Failure

ONE = "import rota\napp = rota.App(embedded=False)\n"


def load(text: str, base: Path) -> str:
    return load_app(AppReference(text, base)).reference


def test_a_file_or_a_module_with_one_application(here: Path) -> None:
    (here / "one_app.py").write_text(ONE)
    for text in ("one_app.py", "one_app", "one_app:app", "one_app.py:app", f"{here}/one_app.py"):
        assert load(text, here) == "one_app:app"


def test_a_file_has_the_name_that_it_has_in_its_package(here: Path) -> None:
    package = here / "src" / "shop_pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "base.py").write_text(ONE)
    (package / "jobs.py").write_text("from .base import app\n")
    assert load("src/shop_pkg/jobs.py", here) == "shop_pkg.jobs:app"
    assert source_roots(AppReference("src/shop_pkg/jobs.py", here)) == [here / "src"]


def test_the_same_application_under_two_names_is_one(here: Path) -> None:
    (here / "two_names.py").write_text(f"{ONE}application = app\n")
    assert load("two_names.py", here) == "two_names:app"


def test_an_application_inside_something(here: Path) -> None:
    (here / "nested_app.py").write_text(f"{ONE}class Box: inner = app\n")
    assert load("nested_app:Box.inner", here) == "nested_app:Box.inner"


@pytest.mark.parametrize(
    ("source", "text", "message", "hint"),
    [
        ("x = 1\n", "bad_a.py", "has no rota.App", "app = rota.App()"),
        (f"{ONE}other = rota.App(embedded=False)\n", "bad_b.py", "more than one", "bad_b.py:other"),
        (ONE, "bad_c.py:nope", "has no nope", "applications in it: app"),
        (f"{ONE}x = 1\n", "bad_d.py:x", "is a int, not a rota.App", "applications in it: app"),
        ("x = (\n", "bad_e.py", "SyntaxError: '(' was never closed", "ROTA_DEBUG"),
        ("import rota\n1 / 0\n", "bad_f.py", "bad_f.py:2)", "ROTA_DEBUG"),
        ("import nowhere_to_be_found\n", "bad_g.py", "No module named 'nowhere", "ROTA_DEBUG"),
        ("raise SystemExit(3)\n", "bad_h.py", "SystemExit: 3", "ROTA_DEBUG"),
    ],
)
def test_what_is_wrong_is_named(
    here: Path, source: str, text: str, message: str, hint: str
) -> None:
    (here / text.partition(":")[0]).write_text(source)
    with pytest.raises(Failure) as caught:
        load(text, here)
    assert message in str(caught.value)
    assert hint in (caught.value.hint or "")


def test_what_is_not_there(here: Path) -> None:
    for text in ("nobody_knows.py", "nobody_knows", "nobody.knows:app", ":app", ""):
        with pytest.raises(Failure) as caught:
            load(text, here)
        assert caught.value.code == 2


def test_a_file_with_the_name_of_another_module_is_refused(here: Path) -> None:
    (here / "queue.py").write_text(ONE)
    with pytest.raises(Failure, match="another module has the name queue"):
        load("queue.py", here)


def test_the_name_in_a_file_is_relative_to_that_file(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "rota.toml").write_text('app = "configured_app.py"\n')
    (here / "configured_app.py").write_text(ONE)
    (here / "below").mkdir()
    monkeypatch.chdir(here / "below")
    assert Session().load().reference == "configured_app:app"
    assert Session(app="../configured_app.py").load().reference == "configured_app:app"


def test_no_application_is_named(here: Path) -> None:
    with pytest.raises(Failure, match="no application specified"):
        Session().load()
    assert Session().find() is None


def test_an_application_says_where_the_database_is(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "with_url.py").write_text("import rota\napp = rota.App('postgresql://inside')\n")
    assert Session(app="with_url").config().database_url == "postgresql://inside"
    monkeypatch.setenv("ROTA_APP", "with_url")
    assert Session().config().database_url == "postgresql://inside"
    monkeypatch.setenv("ROTA_DATABASE_URL", "postgresql://outside")
    assert Session().config().database_url == "postgresql://outside"
