"""The store that each URL names, and the refusals of other texts, with the right spelling."""

from __future__ import annotations

import os
from enum import Enum

import pytest

from dutiful.errors import InvalidArgumentError
from dutiful.stores.memory import MemoryStore
from dutiful.stores.url import sqlite_path, store_for

FORMS = 'write "sqlite:FILE", "postgresql://USER@HOST/DATABASE" or "memory:"'


class Place(str, Enum):  # noqa: UP042 - the kind that formats as its own name
    FILE = "sqlite:state.db"
    NAMESPACE = "reports"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:state.db", "state.db"),
        ("sqlite:./a/state.db", "./a/state.db"),
        ("sqlite:/var/lib/state.db", "/var/lib/state.db"),
        ("sqlite:///state.db", "state.db"),
        ("sqlite:///a/state.db", "a/state.db"),
        ("sqlite:////var/lib/state.db", "/var/lib/state.db"),
        ("sqlite:a:b?c#d%20", "a:b?c#d%20"),
        (Place.FILE, "state.db"),
    ],
)
def test_a_path_is_taken_as_written_and_slashes_are_read_as_sqlalchemy_reads_them(url, path):
    assert sqlite_path(url) == path
    assert store_for(url, Place.NAMESPACE)._path == os.path.realpath(path)


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("sqlite::memory:", 'write "memory:" for a store that forgets all'),
        ("sqlite://state.db", 'write "sqlite:state.db"; what follows two slashes would be a host'),
        ("sqlite://", 'write "sqlite:FILE"; what follows two slashes would be a host'),
        ("sqlite:a\0b", "a path cannot hold the character NUL"),
        ("x.db", 'write "sqlite:x.db"'),
        ("/var/lib/state.sqlite3", 'write "sqlite:/var/lib/state.sqlite3"'),
        *((url, FORMS) for url in ("sqlite:", "sqlite:///", "", "x.txt", "memory:x", None, 5)),
    ],
    ids=repr,
)
def test_a_url_of_no_store_is_refused_with_the_right_spelling(url, advice):
    with pytest.raises(InvalidArgumentError) as caught:
        store_for(url, "default")
    assert caught.value.details == {"argument": "store", "value": url, "reason": advice}


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://me:s3cret@host/db",
        "POSTGRESQL://me:s3cret@host/db",
        "redis://:s3cret@host",
        "mysql:me:s3cret@host/db",
        "sqlite://me:s3cret@x.db",
        "jdbc:postgresql://host/db?user=me&Password=s3cret",
        "postgresql://host:99999/db?password=s3cret",
        "postgresql://me:s3cret@[host/db",
    ],
)
def test_the_refusal_of_a_url_does_not_show_its_password(url):
    with pytest.raises(InvalidArgumentError) as caught:
        store_for(url, "default")
    assert "s3cret" not in f"{caught.value} {caught.value.details} {caught.value.__cause__!r}"


@pytest.mark.parametrize("url", ["memory:", "sqlite:state.db", "postgresql://localhost/x"])
@pytest.mark.parametrize("namespace", [None, 5, "", "../up", "a/b", "a\0b", "-a", "x" * 65, "ä"], ids=repr)
def test_a_bad_namespace_is_refused_for_every_store(url, namespace):
    with pytest.raises(InvalidArgumentError, match="Invalid namespace"):
        store_for(url, namespace)


def test_the_memory_store_needs_no_file():
    assert isinstance(store_for("memory:", "default"), MemoryStore)


@pytest.mark.parametrize(
    ("url", "dsn", "schema", "shown"),
    [
        (
            "postgresql://ada:secret@db:5433/jobs",
            "postgresql://ada:secret@db:5433/jobs",
            "dutiful",
            "postgresql://db:5433/jobs",
        ),
        (
            "postgres://db/jobs?schema=mine&sslmode=require",
            "postgresql://db/jobs?sslmode=require",
            "mine",
            "postgresql://db/jobs?schema=mine",
        ),
        (
            "postgresql://db/jobs?options=-c%20search_path%3Dmine",
            "postgresql://db/jobs?options=-c+search_path%3Dmine",
            None,
            "postgresql://db/jobs",
        ),
    ],
)
def test_a_postgresql_url_names_a_database_and_a_schema_and_is_shown_without_secrets(url, dsn, schema, shown):
    assert store_for(url, "default")._address == (dsn, schema, shown)


@pytest.mark.parametrize("url", ["postgresql://ada:secret@db:port/x", "postgresql://ada:secret@db/x?schema="])
def test_a_postgresql_url_that_is_refused_does_not_show_its_password(url):
    with pytest.raises(InvalidArgumentError) as caught:
        store_for(url, "default")
    assert "secret" not in str(caught.value)
