"""The servers that the tests of the stores, launchers and receivers use."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import asyncpg
import nats
import pytest
import redis
from tests.servers import program

ROOT = Path(__file__).resolve().parents[2]


def test_nats_answers_with_jetstream(nats_url, own_name):
    async def story():
        connection = await nats.connect(nats_url)
        stream = connection.jetstream()
        await stream.add_stream(name=own_name, subjects=[own_name])
        first = await stream.publish(own_name, b"1", headers={"Nats-Msg-Id": "a"})
        second = await stream.publish(own_name, b"1", headers={"Nats-Msg-Id": "a"})
        await connection.close()
        return first.duplicate, second.duplicate

    assert asyncio.run(story()) == (None, True)


def test_valkey_answers(valkey_url, own_name):
    with redis.Redis.from_url(valkey_url) as client:
        assert client.xadd(own_name, {"a": "1"})
        assert client.xlen(own_name) == 1


def test_postgres_gives_each_test_a_schema_of_its_own(postgres_url, own_name):
    async def story():
        connection = await asyncpg.connect(postgres_url)
        try:
            await connection.execute("CREATE TABLE here (n int)")
            return await connection.fetchval("SELECT current_schema()")
        finally:
            await connection.close()

    assert asyncio.run(story()) == own_name


def test_a_server_keeps_its_port_and_its_data_over_a_kill(tmp_path):
    server = program.valkey(tmp_path)
    try:
        server.start()
        with redis.Redis(port=server.port) as client:
            client.set("k", "v")
        server.kill()
        server.start()
        with redis.Redis(port=server.port) as client:
            assert client.get("k") == b"v"
    finally:
        server.close()


USERS = """
import os, sys
from tests.servers.shared import shared_server
with shared_server("valkey") as port:
    print(port, flush=True)
    sys.stdin.readline()
"""


def _user(run: str) -> subprocess.Popen:
    environ = {**os.environ, "PYTEST_XDIST_TESTRUNUID": run}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", USERS], env=environ, cwd=ROOT, stdin=pipe, stdout=pipe)


def _listens(port: int) -> bool:
    try:
        with redis.Redis(port=port) as client:
            return bool(client.ping())
    except redis.ConnectionError:
        return False


def test_workers_share_one_server_which_ends_with_the_last_of_them_even_a_killed_one(own_name):
    users = [_user(own_name) for _ in range(3)]
    ports = {int(user.stdout.readline()) for user in users}
    (port,) = ports
    users[0].communicate(b"\n", timeout=30)
    assert _listens(port)
    for user in users[1:]:
        user.kill()
        user.communicate()
    deadline = time.monotonic() + 30
    while _listens(port):
        assert time.monotonic() < deadline, "the server outlived its users"
        time.sleep(0.02)


@pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)
def test_one_version_of_postgres_can_be_asked_for(postgres_port):
    async def story():
        connection = await asyncpg.connect(f"postgresql://postgres@127.0.0.1:{postgres_port}/postgres")
        try:
            return await connection.fetchval("SHOW server_version_num")
        finally:
            await connection.close()

    assert int(asyncio.run(story())) // 10_000 == max(program.postgres_versions())


AS_ORDINARY_USER = """
import os, sys
from pathlib import Path
from tests.servers import program

program.postgres_versions()
# Python loads this codec when an address is first used, and may lie where an ordinary user cannot read.
"localhost".encode("idna")
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(program.NOBODY)
    os.setuid(program.NOBODY)
server = program.postgres(Path(sys.argv[1]), sys.argv[2])
server.start()
print(os.geteuid())
server.close()
"""


@pytest.fixture
def home():
    """A folder of an ordinary user; the temporary folder of a test belongs to the user who runs the tests."""
    with tempfile.TemporaryDirectory(prefix="home-") as folder:
        if os.geteuid() == 0:
            os.chown(folder, program.NOBODY, program.NOBODY)
        yield folder


@pytest.mark.parametrize("which", ["oldest", "newest"])
def test_an_ordinary_user_can_start_postgres(which, home):
    programs = program.postgres_versions().values()
    if os.geteuid() == 0 and not all(map(program.is_open_to_all, programs)):
        pytest.skip("other users cannot reach the programs of PostgreSQL")
    done = subprocess.run(
        [sys.executable, "-c", AS_ORDINARY_USER, home, which],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    user = os.geteuid() or program.NOBODY
    assert (done.stdout, done.returncode) == (f"{user}\n", 0), done.stderr
