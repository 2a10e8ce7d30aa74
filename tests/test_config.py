from __future__ import annotations

import os
import pickle
import re
import stat
import tomllib
import traceback
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

import rota
from rota import config
from rota.config import Config, RunSettings, edit
from rota.config.catalogue import SECTIONS
from rota.errors import ConfigError, UnknownOption
from rota.model.backoff import Backoff

# Whoever shows what the driver says of these shows the password, or a part of it.
MALFORMED_URLS = (
    "postgresql://ada:hunter2%zz@h/d",
    "postgresql://ada:hunter2%00@h/d",
    "postgresql://ada:hunter2 x@h/d",
    "postgressql://ada:hunter2@h/d",
    "ada:hunter2@h/d",
    "hunter2",
    "postgresql://ada:x@hunter2@h/d",
    "postgresql://ada:x@/hunter2@h/d",
    "postgresql://ada:x/hunter2@h/d",
    "postgresql://ada:1/hunter2@h/d",
    "postgresql://ada:x@h:hunter2/d",
    "postgresql://ada:x@h:5432,g:hunter2/d",
    "postgresql://ada:x@h/d?hunter2=1",
    "postgresql://ada:x@h/d?port=hunter2",
    "host=h password=hunter2 ada",
    "host=h hunter2=1",
    "password='hunter2",
    "host=h port=hunter2",
    "host=h password=hunter2\x00",
    "host=h password=hunter2\ud800",
)
WELL_FORMED_URLS = (
    "postgresql://",
    "postgres://ada:p%40ss%2F@h:5433/d?sslmode=require&options=-c%20a@b",
    "postgresql://ada@h1:1,h2/d?target_session_attrs=read-write",
    "postgresql://ada:x@[::1]:5432/d",
    "postgresql:///d?host=/run/postgresql&port=5432",
    "postgresql://ada:x@%2Frun%2Fpostgresql/d",
    "host=h port=1,2 password='p@ s s' dbname=a@b",
    "service=mine",
)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory whose repository ends the search for a file."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def load(
    toml_path: Path | None = None, env: dict[str, str] | None = None, **overrides: Any
) -> Config:
    """Load without the variables of whoever runs the tests."""
    return Config.load(toml_path, env or {}, **overrides)


class TestPrecedence:
    def test_defaults(self) -> None:
        loaded = load()
        assert loaded.schema == "rota"
        assert loaded.embedded is True
        assert loaded.worker.lease_seconds == 30
        assert loaded.worker.concurrency == min(1024, 4 * (os.cpu_count() or 1))
        assert loaded.runs.max_attempts == 3
        assert loaded.file is None
        assert {loaded.source(setting.key) for setting in config.describe()} == {"default"}

    def test_every_default_is_inside_its_own_range(self) -> None:
        keys = {setting.key: setting.default for setting in config.describe()}
        assert load(**keys) == load()

    def test_file_then_environment_then_arguments(self, project: Path) -> None:
        path = write(
            project / "rota.toml",
            "schema = 'a'\n[worker]\nprocesses = 2\npoll_seconds = 2\nclaim_size = 2\n",
        )
        env = {"ROTA_WORKER_POLL_SECONDS": "3", "ROTA_WORKER_CLAIM_SIZE": "3"}
        loaded = load(env=env, worker={"claim_size": 4})
        assert (loaded.schema, loaded.file) == ("a", path)
        worker = loaded.worker
        assert (worker.processes, worker.poll_seconds, worker.claim_size) == (2, 3.0, 4)
        assert loaded.source("worker.processes") == "file"
        assert loaded.source("worker.poll_seconds") == "environment"
        assert loaded.source("worker.claim_size") == "argument"
        assert loaded.source("worker.queues") == "default"

    def test_the_environment_is_that_of_the_program(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ROTA_SCHEMA", "from_env")
        assert Config.load().schema == "from_env"

    def test_an_argument_of_none_is_not_given(self) -> None:
        loaded = load(env={"ROTA_SCHEMA": "a"}, schema=None, worker=None)
        assert loaded.schema == "a"

    def test_arguments_by_section_or_by_key(self) -> None:
        assert load(worker={"queues": ["a"]}).worker.queues == ("a",)
        by_key: dict[str, Any] = {"worker.queues": ("a",)}
        assert load(**by_key).worker.queues == ("a",)


class TestFindingTheFile:
    def test_nearest_upwards(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(project / "rota.toml", "schema = 'far'")
        near = write(project / "a" / "rota.toml", "schema = 'near'")
        (project / "a" / "b").mkdir()
        monkeypatch.chdir(project / "a" / "b")
        assert load().file == near

    def test_not_above_the_repository(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(project / "rota.toml", "schema = 'outside'")
        (project / "inner" / ".git").mkdir(parents=True)
        monkeypatch.chdir(project / "inner")
        assert load().file is None

    @pytest.mark.parametrize("name", ["rota.toml", "pyproject.toml"])
    def test_a_file_of_somebody_else_is_not_read(
        self, project: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        """It names the application to import: whoever writes it runs code."""
        path = write(project / name, "[tool.rota]\nschema = 'a'\n" if "py" in name else "")
        (project / "inner").mkdir()
        monkeypatch.chdir(project / "inner")
        if os.geteuid() == 0:
            assert load().file == path
            os.chown(path, 4000, 4000)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: 4000)
        with pytest.raises(ConfigError, match="belongs to user id") as caught:
            load()
        assert str(path) in str(caught.value.hint)
        assert Config.load(path, {}).file == path  # named, and so trusted
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        assert Config.load(env={"SUDO_UID": str(path.stat().st_uid)}).file == path

    @pytest.mark.skipif(os.geteuid() != 0, reason="gives a link to another user")
    def test_a_link_of_somebody_else_is_not_followed(self, project: Path) -> None:
        write(project / "own.toml", "schema = 'a'")
        link = project / "rota.toml"
        link.symlink_to("own.toml")
        assert load().file == link
        os.lchown(link, 4000, 4000)
        with pytest.raises(ConfigError, match="belongs to user id 4000"):
            load()

    @pytest.mark.parametrize("mode", [0o666, 0o646, 0o602])
    def test_a_file_that_others_may_change_is_not_read(self, project: Path, mode: int) -> None:
        path = write(project / "rota.toml", "schema = 'a'")
        path.chmod(mode)
        with pytest.raises(ConfigError, match="can be changed by other users"):
            load()
        path.chmod(0o644)
        assert load().file == path

    def test_a_pyproject_counts_only_with_its_table(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write(project / "pyproject.toml", "[tool.rota.worker]\nprocesses = 2\n")
        write(project / "a" / "pyproject.toml", "[tool.other]\n")
        monkeypatch.chdir(project / "a")
        assert load().file == path
        assert load().worker.processes == 2

    def test_rota_toml_goes_before_pyproject(self, project: Path) -> None:
        write(project / "pyproject.toml", "[tool.rota]\nschema = 'a'\n")
        assert load().schema == "a"
        write(project / "rota.toml", "schema = 'b'")
        assert load().schema == "b"

    def test_argument_goes_before_variable_before_search(self, project: Path) -> None:
        write(project / "rota.toml", "schema = 'found'")
        named = write(project / "x" / "named.toml", "schema = 'named'")
        given = write(project / "x" / "given.toml", "schema = 'given'")
        env = {"ROTA_CONFIG": str(named)}
        assert load(env=env).schema == "named"
        assert load(given, env=env).schema == "given"

    def test_a_named_file_must_exist(self, project: Path) -> None:
        with pytest.raises(ConfigError, match=r"cannot read .*none\.toml: No such file"):
            load(env={"ROTA_CONFIG": "none.toml"})

    @pytest.mark.parametrize("content", ["[tool.other]\n", "tool = 5\n", "tool.rota = 5\n"])
    def test_a_named_pyproject_must_have_the_table(self, project: Path, content: str) -> None:
        path = write(project / "pyproject.toml", content)
        assert load().file is None
        with pytest.raises(ConfigError, match=r"has no \[tool\.rota\] table"):
            load(path)

    @pytest.mark.parametrize("content", [b"[worker\n", b"schema = '\xff'"])
    def test_a_broken_file_is_named(self, project: Path, content: bytes) -> None:
        (project / "rota.toml").write_bytes(content)
        with pytest.raises(ConfigError, match=r"rota\.toml is not valid TOML"):
            load()

    def test_paths_are_relative_to_who_wrote_them(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(project / "rota.toml", "data_dir = 'data'")
        (project / "a").mkdir()
        monkeypatch.chdir(project / "a")
        assert load().data_dir == project / "data"
        assert load(env={"ROTA_DATA_DIR": "data"}).data_dir == project / "a" / "data"
        assert load(data_dir="/data").data_dir == Path("/data")
        assert load(data_dir="~/data").data_dir == Path.home() / "data"


class TestEnvironment:
    @pytest.mark.parametrize("text", ["true", "1", "yes", "on", "TRUE", " On "])
    def test_true(self, text: str) -> None:
        assert load(env={"ROTA_EMBEDDED": text}, embedded=None).embedded is True

    @pytest.mark.parametrize("text", ["false", "0", "no", "off", "False"])
    def test_false(self, text: str) -> None:
        assert load(env={"ROTA_EMBEDDED": text}).embedded is False

    @pytest.mark.parametrize("text", ["t", "y", "2", "none", "enabled"])
    def test_anything_else_is_no_boolean(self, text: str) -> None:
        with pytest.raises(ConfigError, match="embedded must be true or false, not"):
            load(env={"ROTA_EMBEDDED": text})

    def test_lists_are_separated_by_commas(self) -> None:
        assert load(env={"ROTA_WORKER_QUEUES": "mail, reports,,"}).worker.queues == (
            "mail",
            "reports",
        )

    def test_choices_ignore_case(self) -> None:
        assert load(env={"ROTA_LOG_LEVEL": "DEBUG"}).log_level == "debug"

    def test_an_empty_variable_is_not_set(self, project: Path) -> None:
        write(project / "rota.toml", "database_url = 'postgresql://file'")
        loaded = load(env={"ROTA_DATABASE_URL": "", "ROTA_WORKER_CONCURRENCY": " "})
        assert loaded.database_url == "postgresql://file"
        assert loaded.source("worker.concurrency") == "default"

    def test_other_variables_are_left_alone(self) -> None:
        assert load(env={"ROTA_TEST_URL": "x", "ROTA_SOMETHING": "x", "WORKER_X": "x"}) == load()

    def test_a_misspelt_variable_of_a_section_is_an_error(self) -> None:
        with pytest.raises(UnknownOption, match="variable ROTA_WORKER_CONCURENCY") as raised:
            load(env={"ROTA_WORKER_CONCURENCY": "2"})
        assert raised.value.hint == "did you mean ROTA_WORKER_CONCURRENCY?"


class TestBadValues:
    @pytest.mark.parametrize(
        ("variable", "text", "message"),
        [
            ("WORKER_CONCURRENCY", "0", "worker.concurrency must be a whole number from 1 to 1024"),
            ("WORKER_CONCURRENCY", "1025", "from 1 to 1024, not '1025'"),
            ("WORKER_CONCURRENCY", "many", "from 1 to 1024, not 'many'"),
            (
                "WORKER_LEASE_SECONDS",
                "9.9",
                "worker.lease_seconds must be a number from 10 to 3600",
            ),
            ("WORKER_POLL_SECONDS", "nan", "worker.poll_seconds must be a number from 0.1 to 60"),
            ("RUNS_TIMEOUT_SECONDS", "inf", "runs.timeout_seconds must be a number from 0.1"),
            (
                "RUNS_BACKOFF",
                "cubic",
                "runs.backoff must be one of exponential, linear, fixed, not",
            ),
            ("LOG_LEVEL", "loud", "log_level must be one of debug, info"),
            ("SCHEMA", "Rota", "schema must be text: up to 40 of a-z"),
            ("SCHEMA", "1rota", "schema must be"),
            ("SCHEMA", "a" * 41, "schema must be"),
            ("SCHEMA", "rota; drop", "schema must be"),
            ("SCHEMA", "pg_rota", "schema must be"),
        ],
    )
    def test_names_key_range_value_and_variable(
        self, variable: str, text: str, message: str
    ) -> None:
        with pytest.raises(ConfigError) as raised:
            load(env={f"ROTA_{variable}": text})
        assert message in str(raised.value)
        assert f"not {text!r} (environment variable ROTA_{variable})" in str(raised.value)

    def test_names_the_file(self, project: Path) -> None:
        path = write(project / "rota.toml", "[worker]\nprocesses = 65\n")
        with pytest.raises(ConfigError) as raised:
            load()
        assert str(raised.value) == (
            f"worker.processes must be a whole number from 1 to 64, not 65 ({path})"
        )

    def test_names_the_argument(self) -> None:
        with pytest.raises(ConfigError, match=r"runs\.max_attempts must be .* not 0 \(argument\)"):
            load(runs={"max_attempts": 0})

    @pytest.mark.parametrize(
        "line",
        [
            "worker.concurrency = '4'",
            "worker.concurrency = true",
            "worker.concurrency = 4.5",
            "worker.queues = 'mail'",
            "worker.queues = ['']",
            "worker.queues = [1]",
            "embedded = 'false'",
            "embedded = 0",
            "schema = 1",
            "data_dir = 1",
            "data_dir = ''",
            "release = ''",
            "worker = 5",
            "schema = {a = 1}",
        ],
    )
    def test_a_file_has_types(self, project: Path, line: str) -> None:
        write(project / "rota.toml", line)
        with pytest.raises(ConfigError, match=re.escape(line.split(" = ")[0])):
            load()

    @pytest.mark.parametrize(
        ("text", "hint"),
        [
            ("shema = 'a'", "did you mean schema?"),
            ("[worker]\nconcurency = 1", "did you mean worker.concurrency?"),
            ("[worker]\nmax_attempts = 1", "did you mean runs.max_attempts?"),
            ("concurrency = 1", "did you mean worker.concurrency?"),
            ("[workers]\nconcurrency = 1", "did you mean worker?"),
            ("[zzz]\na = 1", f"sections: {', '.join(SECTIONS)}"),
            ("zzz = 1", "`rota config list` shows all settings"),
        ],
    )
    def test_an_unknown_key_gets_the_nearest(self, project: Path, text: str, hint: str) -> None:
        path = write(project / "rota.toml", text)
        with pytest.raises(UnknownOption, match=re.escape(str(path))) as raised:
            load()
        assert raised.value.hint == hint

    def test_an_unknown_argument_is_an_error(self) -> None:
        with pytest.raises(UnknownOption, match=r"unknown setting shema \(argument\)"):
            load(shema="a")

    def test_a_bad_secret_is_not_told(self, project: Path) -> None:
        write(project / "rota.toml", "database_url = ['postgresql://u:hunter2@h/d']")
        with pytest.raises(
            ConfigError, match=r"database_url must be text: .*, not \*\*\*"
        ) as raised:
            load()
        assert "hunter2" not in str(raised.value)

    @pytest.mark.parametrize("url", MALFORMED_URLS)
    def test_of_a_malformed_url_nothing_but_the_setting_is_told(self, url: str) -> None:
        for refused in (
            lambda: load(database_url=url),
            lambda: load(env={"ROTA_DATABASE_URL": url}),
            lambda: rota.App(url),
            lambda: load().override({"database_url": url}),
        ):
            with pytest.raises(ConfigError, match=r"database_url must be .*, not \*\*\*") as raised:
                refused()
            shown = "".join(traceback.format_exception(raised.value, limit=0))
            assert not re.search("hunter2|ada", shown)
            assert "percent" in shown

    @pytest.mark.parametrize("url", WELL_FORMED_URLS)
    def test_what_libpq_takes_is_taken(self, url: str) -> None:
        assert load(database_url=url).database_url == url

    @pytest.mark.parametrize(
        "token", ["0123456789abcdef\n", " 0123456789abcdef", "0123456789\x1babcdef"]
    )
    def test_a_token_that_no_header_can_carry_is_refused(self, token: str) -> None:
        with pytest.raises(ConfigError, match=r"server.token must be .*, not \*\*\*"):
            load(server={"token": token})


class TestConfig:
    def test_get(self) -> None:
        loaded = load(worker={"queues": ["a", "b"]})
        assert loaded.get("schema") == "rota"
        assert loaded.get("worker.queues") == ("a", "b")
        assert loaded.show("worker.queues") == "a, b"
        assert loaded.show("worker.lease_seconds") == "30"
        assert loaded.show("embedded") == "true"
        with pytest.raises(UnknownOption, match=r"unknown setting worker\.queue") as raised:
            loaded.get("worker.queue")
        assert raised.value.hint == "did you mean worker.queues?"
        with pytest.raises(UnknownOption):
            loaded.source("worker")

    def test_secrets_are_masked(self) -> None:
        loaded = load(database_url="postgresql://u:hunter2@h/d")
        assert loaded.database_url == "postgresql://u:hunter2@h/d"
        assert "hunter2" not in repr(loaded)
        assert loaded.show("database_url") == "***"
        assert load().show("database_url") == ""

    def test_frozen_hashable_and_picklable(self) -> None:
        loaded = load(schema="a")
        with pytest.raises(FrozenInstanceError):
            loaded.schema = "b"  # type: ignore[misc]
        copy = pickle.loads(pickle.dumps(loaded))
        assert copy == loaded
        assert hash(copy) == hash(loaded)
        assert copy.source("schema") == "argument"

    def test_unchecked_values_go_past_their_ranges_but_need_a_key(self) -> None:
        loaded = load(unchecked={"worker.lease_seconds": 0.5}, worker={"lease_seconds": 20})
        assert loaded.worker.lease_seconds == 0.5
        with pytest.raises(UnknownOption):
            load(unchecked={"worker.lease": 0.5})

    def test_the_backoff_settings_make_a_backoff(self) -> None:
        assert RunSettings().default_backoff() == Backoff()
        runs = load(runs={"backoff": "linear", "backoff_cap_seconds": 9}).runs
        assert runs.default_backoff() == Backoff("linear", cap=9)


class TestDescribe:
    def test_says_everything_about_a_setting(self) -> None:
        setting = next(it for it in config.describe() if it.key == "worker.concurrency")
        assert (setting.section, setting.name) == ("worker", "concurrency")
        assert (setting.type_text, setting.range_text) == ("whole number", "1 to 1024")
        assert setting.default_text == "4 × cores"
        assert setting.env == "ROTA_WORKER_CONCURRENCY"

    def test_every_setting_has_a_description_and_a_variable_of_its_own(self) -> None:
        settings = config.describe()
        assert all(setting.description.endswith(".") for setting in settings)
        assert len({setting.env for setting in settings}) == len(settings)

    def test_every_number_has_a_range(self) -> None:
        numbers = [it for it in config.describe() if it.kind in (int, float)]
        assert [it.key for it in numbers if not it.range_text] == []


class TestTemplate:
    def test_is_all_defaults(self, project: Path) -> None:
        edit.write_template(project / "rota.toml")
        assert load() == Config(file=project / "rota.toml")
        assert load().sources == {}

    def test_every_line_is_valid_once_uncommented(self, project: Path) -> None:
        text = re.sub(r"^# (?=\w+ = )", "", edit.template(), flags=re.MULTILINE)
        write(project / "rota.toml", text)
        loaded = load()
        assert {setting.key for setting in config.describe()} == set(loaded.sources)

    def test_names_key_default_range_and_variable(self) -> None:
        lines = edit.template().splitlines()
        for setting in config.describe():
            assert any(line.startswith(f"# {setting.name} = ") for line in lines)
            assert setting.env in edit.template()
        assert "# (a number from 10 to 3600; default 30; ROTA_WORKER_LEASE_SECONDS)" in lines
        assert max(map(len, lines)) <= 100

    def test_overwrites_nothing(self, project: Path) -> None:
        path = write(project / "rota.toml", "schema = 'mine'")
        with pytest.raises(ConfigError, match="already exists"):
            edit.write_template(path)
        assert path.read_text() == "schema = 'mine'"


class TestSetAndUnset:
    def test_keeps_comments_and_order(self, project: Path) -> None:
        path = write(
            project / "rota.toml",
            "# ours\nschema = 'a'  # why\n\n[worker]\n# two\nprocesses = 2  # each\n\n[runs]\n",
        )
        edit.set_value(path, "worker.processes", "3")
        edit.set_value(path, "worker.queues", "mail,reports")
        edit.set_value(path, "embedded", "no")
        assert path.read_text() == (
            "# ours\nschema = 'a'  # why\nembedded = false\n\n[worker]\n# two\n"
            'processes = 3  # each\nqueues = ["mail", "reports"]\n\n[runs]\n'
        )

    @pytest.mark.parametrize("setting", config.describe(), ids=lambda setting: setting.key)
    def test_every_setting_of_the_template(self, project: Path, setting: config.Setting) -> None:
        path = project / "rota.toml"
        edit.write_template(path)
        before = path.read_text()
        example = setting.example
        text = ",".join(example) if isinstance(example, tuple) else str(example)
        value = edit.set_value(path, setting.key, text)
        assert value == example
        assert load().get(setting.key) == (
            project / example if isinstance(example, Path) else example
        )
        assert load().source(setting.key) == "file"
        lines = path.read_text().splitlines()
        new = next(i for i, line in enumerate(lines) if line.startswith(f"{setting.name} = "))
        assert lines[new - 1] == f"# {lines[new]}"
        assert edit.unset_value(path, setting.key) is True
        assert path.read_text() == before

    def test_what_only_looks_like_the_comment_is_not_taken_for_it(self, project: Path) -> None:
        path = write(project / "rota.toml", 'release = """\n# schema = "x"\n"""\n')
        edit.set_value(path, "schema", "a")
        assert load().release == '# schema = "x"\n'
        assert load().schema == "a"

    def test_creates_file_and_section(self, project: Path) -> None:
        path = project / "rota.toml"
        edit.set_value(path, "worker.poll_seconds", "2")
        assert tomllib.loads(path.read_text()) == {"worker": {"poll_seconds": 2.0}}

    def test_in_a_pyproject(self, project: Path) -> None:
        path = write(project / "pyproject.toml", "[project]\nname = 'x'\n\n[tool.other]\na = 1\n")
        edit.set_value(path, "schema", "a")
        edit.set_value(path, "worker.processes", "2")
        assert tomllib.loads(path.read_text()) == {
            "project": {"name": "x"},
            "tool": {"other": {"a": 1}, "rota": {"schema": "a", "worker": {"processes": 2}}},
        }
        assert (load().schema, load().worker.processes) == ("a", 2)
        assert edit.unset_value(path, "worker.processes") is True
        assert load().worker.processes == 1

    @pytest.mark.parametrize(
        ("key", "text"),
        [("worker.processes", "65"), ("worker.proceses", "1"), ("embedded", "maybe")],
    )
    def test_a_bad_key_or_value_changes_nothing(self, project: Path, key: str, text: str) -> None:
        path = write(project / "rota.toml", "# empty\n")
        with pytest.raises(ConfigError):
            edit.set_value(path, key, text)
        assert path.read_text() == "# empty\n"

    def test_a_broken_file_is_left_alone(self, project: Path) -> None:
        path = write(project / "rota.toml", "[worker\n")
        with pytest.raises(ConfigError, match="is not valid TOML"):
            edit.set_value(path, "schema", "a")
        assert path.read_text() == "[worker\n"

    def test_a_section_that_is_no_table_is_an_error(self, project: Path) -> None:
        path = write(project / "rota.toml", "worker = 5\n")
        with pytest.raises(ConfigError, match=r"worker in .*rota\.toml is not a table"):
            edit.set_value(path, "worker.processes", "2")
        with pytest.raises(ConfigError, match=r"worker in .*rota\.toml is not a table"):
            edit.unset_value(path, "worker.processes")

    def test_unset_of_what_is_not_set(self, project: Path) -> None:
        path = write(project / "rota.toml", "[worker]\n")
        assert edit.unset_value(path, "worker.processes") is False
        assert edit.unset_value(path, "runs.max_attempts") is False
        with pytest.raises(UnknownOption):
            edit.unset_value(path, "worker.nothing")

    def test_keeps_the_mode_and_the_link(self, project: Path) -> None:
        real = write(project / "etc" / "rota.toml", "schema = 'a'\n")
        real.chmod(0o640)
        link = project / "rota.toml"
        link.symlink_to(real)
        edit.set_value(link, "schema", "b")
        assert link.is_symlink()
        assert real.read_text() == 'schema = "b"\n'
        assert stat.S_IMODE(real.stat().st_mode) == 0o640

    def test_a_failed_write_leaves_the_old_file_and_nothing_else(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write(project / "rota.toml", "schema = 'a'\n")

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ConfigError, match=r"cannot write .*: No space left"):
            edit.set_value(path, "schema", "b")
        assert path.read_text() == "schema = 'a'\n"
        assert sorted(it.name for it in project.iterdir()) == [".git", "rota.toml"]

    def test_windows_line_ends_stay(self, project: Path) -> None:
        path = project / "rota.toml"
        path.write_bytes(b"schema = 'a'\r\n[worker]\r\nprocesses = 2\r\n")
        edit.set_value(path, "worker.processes", "3")
        assert path.read_bytes() == b"schema = 'a'\r\n[worker]\r\nprocesses = 3\r\n"
