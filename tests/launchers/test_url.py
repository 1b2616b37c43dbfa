"""Which text names which executor."""

from __future__ import annotations

import pytest
from tests.launchers.metas import SETTINGS

from dutiful.core.errors import InvalidArgumentError
from dutiful.launchers.command import CommandExecutor
from dutiful.launchers.http import HttpExecutor
from dutiful.launchers.python import PythonExecutor
from dutiful.launchers.url import executor_for

FORMS = "write command:PROGRAM ARGS, http://HOST/PATH, https://HOST/PATH or python:MODULE:FUNCTION"


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("command:true", CommandExecutor),
        (" command: sh -c 'exit 0' ", CommandExecutor),
        ("http://127.0.0.1:9000/run", HttpExecutor),
        ("HTTPS://executor.example/run", HttpExecutor),
        ("python:tests.launchers.executor_functions:told", PythonExecutor),
    ],
)
def test_the_scheme_chooses(url, kind):
    assert type(executor_for(url, SETTINGS)) is kind


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", f"Invalid executor '': {FORMS}"),
        ("true", f"Invalid executor 'true': {FORMS}"),
        ("ftp://u:canary@h/x", f"Invalid executor 'ftp': {FORMS}"),
        ("comand:true", "Invalid executor 'comand': did you mean command:…?"),
        ("pyhton:a:b", "Invalid executor 'pyhton': did you mean python:…?"),
        ("htps://x/", "Invalid executor 'htps': did you mean https:…?"),
        ("amqp://u:canary@h", f"Invalid executor 'amqp': {FORMS}"),
        *(
            (
                f"{scheme}://u:canary@h/0",
                f"Invalid executor '{scheme}:…': there is no executor for {scheme} yet; {FORMS}",
            )
            for scheme in ("celery", "nats", "redis")
        ),
    ],
)
def test_what_names_no_executor_is_refused_with_what_to_write(url, told):
    with pytest.raises(InvalidArgumentError) as caught:
        executor_for(url, SETTINGS)
    assert str(caught.value) == told
    assert "canary" not in str(caught.value.details)
