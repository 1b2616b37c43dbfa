"""The settings of the service: defaults, what is read, and everything that is wrong at once."""

from __future__ import annotations

import json
from dataclasses import asdict, fields

import pytest

from dutiful.core.policy import CatchUp, Overlap
from dutiful.outbound import Allowed
from dutiful.outbound.secret import Secret
from dutiful.service.environment import VARIABLES
from dutiful.service.settings import (
    Effective,
    SettingProblem,
    Settings,
    SettingsError,
    effective,
    settings_from,
)

AUTH = {"DUTIFUL_JWT_KEYS": "keys.json", "DUTIFUL_JWT_ISSUER": "https://i", "DUTIFUL_JWT_AUDIENCE": "dutiful"}


def problems(**environ: str) -> list[tuple[str, str | None, str]]:
    with pytest.raises(SettingsError) as caught:
        settings_from(environ)
    return [tuple(problem) for problem in caught.value.problems]


def test_without_variables_the_defaults_are_in_force():
    assert asdict(settings_from({"HOME": "/x", "PATH": "/bin"})) == {
        "tick_ms": 1000,
        "lookahead_ms": 60_000,
        "max_catchup_per_tick": 100,
        "default_overlap_policy": Overlap.SKIP,
        "default_catchup_policy": CatchUp.NONE,
        "default_jitter_ms": 0,
        "store": "sqlite:dutiful.db",
        "namespace": "service",
        "shards": 16,
        "node": None,
        "lease_s": 5.0,
        "retention_days": 30,
        "retention_rows": 1000,
        "drain_s": 30.0,
        "host": "127.0.0.1",
        "port": 8787,
        "executor": None,
        "executor_mode": "report",
        "executor_secret": None,
        "executor_allow": Allowed(setting="DUTIFUL_EXECUTOR_ALLOW"),
        "executor_timeout_s": None,
        "output_dir": None,
        "launches_max": None,
        "launch_retries": 3,
        "jwt_keys": None,
        "jwt_issuer": None,
        "jwt_audience": None,
        "jwt_revoked": None,
        "tls_cert": None,
        "tls_key": None,
        "tls_client_ca": None,
        "tls_clients": None,
        "public_url": None,
        "session_key": None,
        "rate_per_s": 50,
        "rate_burst": 100,
        "connections_per_peer": 256,
        "audit_log": None,
        "log_level": "info",
        "config": None,
    }


def test_every_variable_is_a_field_and_every_field_a_variable():
    assert [field.name for field in fields(Settings)] == [variable.field for variable in VARIABLES]


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("TICK_MS", "10", "tick_ms", 10),
        ("LOOKAHEAD_MS", "0", "lookahead_ms", 0),
        ("MAX_CATCHUP_PER_TICK", "10000", "max_catchup_per_tick", 10_000),
        ("DEFAULT_OVERLAP_POLICY", "queue", "default_overlap_policy", Overlap.QUEUE),
        ("DEFAULT_CATCHUP_POLICY", "fire_immediately", "default_catchup_policy", CatchUp.FIRE_IMMEDIATELY),
        ("DEFAULT_JITTER_MS", "250", "default_jitter_ms", 250),
        ("DUTIFUL_STORE", "memory:", "store", "memory:"),
        ("DUTIFUL_HOST", "[::1]", "host", "::1"),
        ("DUTIFUL_HOST", "localhost", "host", "localhost"),
        ("DUTIFUL_PORT", "0", "port", 0),
        ("DUTIFUL_LEASE_S", "2.5", "lease_s", 2.5),
        ("DUTIFUL_RETENTION_DAYS", "36600", "retention_days", 36_600),
        ("DUTIFUL_RETENTION_ROWS", "1", "retention_rows", 1),
        ("DUTIFUL_EXECUTOR", "command:./run", "executor", "command:./run"),
        ("DUTIFUL_EXECUTOR_MODE", "webhook", "executor_mode", "webhook"),
        ("DUTIFUL_EXECUTOR_SECRET", "s" * 16, "executor_secret", Secret("s" * 16)),
        (
            "DUTIFUL_EXECUTOR_ALLOW",
            "10.0.0.0/8, Run.internal,",
            "executor_allow",
            Allowed.parse(["10.0.0.0/8", "run.internal"])._replace(setting="DUTIFUL_EXECUTOR_ALLOW"),
        ),
        ("DUTIFUL_EXECUTOR_TIMEOUT_S", "0.5", "executor_timeout_s", 0.5),
        ("DUTIFUL_LAUNCHES_MAX", "9", "launches_max", 9),
        ("DUTIFUL_LAUNCH_RETRIES", "8", "launch_retries", 8),
        ("DUTIFUL_NAMESPACE", "prod-1", "namespace", "prod-1"),
        ("DUTIFUL_RATE_PER_S", "7", "rate_per_s", 7),
    ],
)
def test_a_variable_is_read(name, text, field, value):
    assert getattr(settings_from({name: text}), field) == value


def test_an_empty_variable_is_not_set():
    assert settings_from(dict.fromkeys((variable.name for variable in VARIABLES), "")) == settings_from({})


WHOLE = "write a whole number from {} to {}"


@pytest.mark.parametrize(
    ("name", "texts", "fix"),
    [
        ("TICK_MS", ["9", "60001", "abc", "1e3", "-5", "1.5", " 1000"], WHOLE.format(10, 60000)),
        ("TICK_MS", ["1_000", "٣٣٣", "9" * 40], WHOLE.format(10, 60000)),
        ("LOOKAHEAD_MS", ["3600001", "-1"], WHOLE.format(0, 3_600_000)),
        ("MAX_CATCHUP_PER_TICK", ["0", "10001"], WHOLE.format(1, 10_000)),
        ("DEFAULT_JITTER_MS", ["86400001"], WHOLE.format(0, 86_400_000)),
        (
            "DEFAULT_OVERLAP_POLICY",
            ["SKIP", "never", "Overlap.SKIP"],
            "write one of allow, skip, queue, buffer_one, cancel_other",
        ),
        ("DEFAULT_CATCHUP_POLICY", ["all"], "write one of none, latest, fire_immediately, spread"),
        ("DUTIFUL_PORT", ["65536", "http"], WHOLE.format(0, 65_535)),
        (
            "DUTIFUL_PORT",
            ["tcp://10.0.0.1:8787"],
            "the cluster has set this; write enableServiceLinks: false in the pod, and a number here",
        ),
        ("DUTIFUL_RETENTION_DAYS", ["0", "36601", "30d"], "write a whole number from 1 to 36600"),
        ("DUTIFUL_RETENTION_ROWS", ["0", "1000001", "all"], "write a whole number from 1 to 1000000"),
        ("DUTIFUL_LEASE_S", ["0.5", "301", "inf", "nan", "5s"], "write a number of seconds from 1 to 300"),
        (
            "DUTIFUL_HOST",
            ["127.0.0.1:80", "a b", "http://x", "x/y"],
            "write a host name or an address such as 127.0.0.1, without port",
        ),
        (
            "DUTIFUL_NAMESPACE",
            ["a/b", "x" * 129],
            "write 1 to 128 letters, digits, dots, underlines and dashes",
        ),
        ("DUTIFUL_STORE", ["sqlite:a\nb", "x" * 5000], "write one line of at most 4096 characters"),
        (
            "DUTIFUL_EXECUTOR_ALLOW",
            ["10.0.0.1/8"],
            "'10.0.0.1/8' is neither a host name nor a network; write e.g. 10.1.0.0/16,executor.internal",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_reported_with_what_to_write(name, texts, fix):
    for text in texts:
        assert problems(**{name: text}) == [(name, text, fix)]


def test_everything_wrong_is_reported_at_once():
    environ = {"TICK_MS": "abc", "DUTIFUL_PRT": "1", "DUTIFUL_HOST": "0.0.0.0", "DUTIFUL_TLS_CERT": "c.pem"}
    with pytest.raises(SettingsError) as caught:
        settings_from(environ)
    fix = "set DUTIFUL_JWT_KEYS or DUTIFUL_TLS_CLIENT_CA, or 127.0.0.1"
    assert str(caught.value).splitlines() == [
        "The service cannot start with these settings:",
        "  DUTIFUL_PRT is '***': there is no such variable; did you mean DUTIFUL_PORT?",
        "  TICK_MS is 'abc': write a whole number from 10 to 60000",
        "  DUTIFUL_TLS_KEY is not set: DUTIFUL_TLS_CERT needs it",
        f"  DUTIFUL_HOST is '0.0.0.0': others could reach it without auth; {fix}",
    ]
    assert (
        caught.value.details["problems"][1]
        == SettingProblem("TICK_MS", "abc", WHOLE.format(10, 60000))._asdict()
    )


@pytest.mark.parametrize(
    ("name", "text", "shown", "fix"),
    [
        (
            "DUTIFUL_STORE",
            "mongo://u:canary@h/x?canary",
            "mongo://***@h/x?***",
            'write "sqlite:FILE", "postgresql://USER@HOST/DATABASE" or "memory:"',
        ),
        (
            "DUTIFUL_STORE",
            "sqlite",
            "sqlite",
            'write "sqlite:FILE", "postgresql://USER@HOST/DATABASE" or "memory:"',
        ),
        ("DUTIFUL_EXECUTOR", "htps://u:canary@h/", "htps://***@h/", "did you mean https:…?"),
        ("DUTIFUL_EXECUTOR", "comand:x", "comand:x", "did you mean command:…?"),
    ],
)
def test_urls_of_nothing_are_reported_without_their_secrets(name, text, shown, fix):
    assert problems(**{name: text}) == [(name, shown, fix)]


def test_a_secret_is_in_no_error():
    ((name, value, fix),) = problems(DUTIFUL_EXECUTOR_SECRET="canary")
    assert (name, value) == ("DUTIFUL_EXECUTOR_SECRET", "***")
    assert "canary" not in fix


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("DUTIFUL_STROE", "DUTIFUL_STORE"),
        ("DUTIFUL_EXECUTER", "DUTIFUL_EXECUTOR"),
        ("DUTIFUL_JWT_KEY", "DUTIFUL_JWT_KEYS"),
        ("DUTIFUL_TICK_MS", "TICK_MS"),
    ],
)
def test_a_slip_in_a_name_is_reported_and_the_value_is_not(name, near):
    assert problems(**{name: "x"}) == [(name, "***", f"there is no such variable; did you mean {near}?")]


@pytest.mark.parametrize(
    "name",
    [
        "DUTIFUL_SCHEDULE_ID",
        "DUTIFUL_SOURCE",
        "DUTIFUL_SERVICE_HOST",
        "DUTIFUL_PORT_8787_TCP",
        "DUTIFUL_PROMPT",
    ],
)
def test_other_variables_with_the_prefix_are_left_alone(name):
    assert settings_from({name: "x"}) == settings_from({})


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.5", "scheduler.internal", "localhost.evil.example"]
)
def test_others_may_reach_it_only_with_auth(host):
    ((name, value, _),) = problems(DUTIFUL_HOST=host)
    assert (name, value) == ("DUTIFUL_HOST", host)
    assert settings_from({"DUTIFUL_HOST": host, **AUTH}).has_auth
    clients = {f"DUTIFUL_TLS_{name}": "x" for name in ("CERT", "KEY", "CLIENT_CA", "CLIENTS")}
    assert settings_from({"DUTIFUL_HOST": host, **clients}).has_auth


@pytest.mark.parametrize("host", ["127.0.0.1", "127.5.5.5", "::1", "localhost"])
def test_on_the_loopback_auth_is_a_choice(host):
    settings = settings_from({"DUTIFUL_HOST": host})
    assert (settings.is_loopback, settings.has_auth) == (True, False)


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (["JWT_KEYS"], ["JWT_ISSUER", "JWT_AUDIENCE"]),
        (["TLS_CERT"], ["TLS_KEY"]),
        (["TLS_KEY"], ["TLS_CERT"]),
        (["TLS_CLIENT_CA"], ["TLS_CERT", "TLS_KEY", "TLS_CLIENTS"]),
        (["TLS_CLIENTS", "TLS_CERT", "TLS_KEY"], ["TLS_CLIENT_CA"]),
    ],
)
def test_settings_that_need_each_other_come_together(given, missing):
    found = problems(**{f"DUTIFUL_{name}": "x" for name in given})
    assert [name for name, value, _ in found if value is None] == [f"DUTIFUL_{name}" for name in missing]


def test_the_effective_settings_say_where_they_come_from_and_hide_secrets():
    environ = {
        "TICK_MS": "500",
        "DUTIFUL_EXECUTOR": "https://ada:canary@run.example/x?token=canary",
        "DUTIFUL_EXECUTOR_SECRET": "canary-0123456789",
        "DUTIFUL_EXECUTOR_ALLOW": "10.0.0.0/8,run.internal",
    }
    found = {each.variable: each for each in effective(environ)}
    assert [*found] == [variable.name for variable in VARIABLES]
    assert found["TICK_MS"] == Effective("TICK_MS", "500", "environment")
    assert found["LOOKAHEAD_MS"] == Effective("LOOKAHEAD_MS", "60000", "default")
    assert found["DUTIFUL_LEASE_S"] == Effective("DUTIFUL_LEASE_S", "5", "default")
    assert found["DUTIFUL_JWT_KEYS"] == Effective("DUTIFUL_JWT_KEYS", None, "default")
    assert found["DUTIFUL_EXECUTOR"].value == "https://***@run.example/x?***"
    assert found["DUTIFUL_EXECUTOR_SECRET"].value == "***"
    assert found["DUTIFUL_EXECUTOR_ALLOW"].value == "run.internal,10.0.0.0/8"
    assert "canary" not in json.dumps(list(found.values()))
    assert "canary" not in repr(settings_from({**environ, "DUTIFUL_EXECUTOR": ""}))


def written(tmp_path, text: str) -> str:
    path = tmp_path / "dutiful.toml"
    path.write_text(text)
    return str(path)


def test_a_file_has_settings_that_variables_override(tmp_path):
    path = written(
        tmp_path,
        'tick_ms = 500\nlease_s = 2.5\nhost = ""\nexecutor_allow = ["10.0.0.0/8", "run.internal"]\n'
        'executor_secret = "canary-0123456789"\nport = 1\n',
    )
    environ = {"DUTIFUL_CONFIG": path, "DUTIFUL_PORT": "2", "TICK_MS": ""}
    found = {each.variable: (each.value, each.source) for each in effective(environ)}
    assert found["TICK_MS"] == ("500", "file")
    assert found["DUTIFUL_LEASE_S"] == ("2.5", "file")
    assert found["DUTIFUL_HOST"] == ("127.0.0.1", "default")
    assert found["DUTIFUL_EXECUTOR_ALLOW"] == ("run.internal,10.0.0.0/8", "file")
    assert found["DUTIFUL_EXECUTOR_SECRET"] == ("***", "file")
    assert found["DUTIFUL_PORT"] == ("2", "environment")
    assert found["DUTIFUL_CONFIG"] == (path, "environment")


def test_everything_wrong_with_a_file_is_reported_with_its_place(tmp_path):
    path = written(
        tmp_path,
        'tick_ms = "1s"\ntick = 1\nDUTIFUL_STORE = "memory:"\nx-y = 1\nport = { a = 1 }\nconfig = "other"\n'
        'executor_secret = "canary"\n',
    )
    secret_advice = "write at least 16 characters, e.g. what `openssl rand -hex 32` prints"
    assert problems(DUTIFUL_CONFIG=path) == [
        (f"{path}: tick", "***", "there is no such setting; did you mean tick_ms?"),
        (f"{path}: DUTIFUL_STORE", "***", "there is no such setting; did you mean store?"),
        (f"{path}: x-y", "***", "there is no such setting"),
        (f"{path}: port", "***", "write a text, a number, true or false, or a list of texts"),
        (f"{path}: config", "***", "there is no such setting"),
        (f"{path}: tick_ms", "1s", "write a whole number from 10 to 60000"),
        (f"{path}: executor_secret", "***", secret_advice),
    ]


@pytest.mark.parametrize(
    ("text", "fix"), [(None, "cannot be read: No such file or directory"), ("a = ", "is not TOML: ")]
)
def test_a_file_that_cannot_be_read_is_reported(tmp_path, text, fix):
    path = str(tmp_path / "missing.toml") if text is None else written(tmp_path, text)
    [(name, shown, told)] = problems(DUTIFUL_CONFIG=path)
    assert (name, shown, told[: len(fix)]) == ("DUTIFUL_CONFIG", path, fix)
