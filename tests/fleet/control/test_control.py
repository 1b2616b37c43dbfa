"""The control socket: permissions, sizes and time limits of requests, and leftovers of dead processes."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
from contextlib import asynccontextmanager

import pytest

from dutiful.fleet.control import socket as control
from dutiful.fleet.control.socket import ControlSocket, ask
from dutiful.fleet.errors import AgentNotFoundError, FleetControlError, FleetNotRunningError, SchedulerError


async def echo(request):
    return {"heard": request}


@asynccontextmanager
async def served(folder, answer=echo):
    served_socket = ControlSocket(folder, answer)
    served_socket.bind()
    await served_socket.open()
    try:
        yield served_socket
    finally:
        await served_socket.close()


def told(folder, request, answer=echo):
    """Return what a fleet in `folder` answers."""

    async def story():
        async with served(folder, answer):
            return await ask(folder, request)

    return asyncio.run(story())


def said(folder, line):
    """Return the answer to a raw line."""

    async def story():
        async with served(folder):
            reader, writer = await asyncio.open_unix_connection(folder / control.FILE_NAME)
            writer.write(line)
            writer.write_eof()
            answer = await reader.read()
            writer.close()
            return json.loads(answer)

    return asyncio.run(story())


def test_a_request_is_answered(tmp_path):
    assert told(tmp_path, {"ask": "status"}) == {"heard": {"version": 1, "ask": "status"}}


def test_the_socket_is_its_owners_alone_and_gone_afterwards(tmp_path):
    async def story():
        async with served(tmp_path):
            return (tmp_path / control.FILE_NAME).stat().st_mode

    mode = asyncio.run(story())
    assert (stat.S_ISSOCK(mode), stat.S_IMODE(mode)) == (True, 0o600)
    assert [*tmp_path.iterdir()] == []


def test_errors_cross_the_socket_with_their_class_and_words(tmp_path):
    async def refuse(_):
        raise AgentNotFoundError("writr", ["writer"])

    with pytest.raises(FleetControlError, match=r'There is no agent "writr" \(did you mean') as caught:
        told(tmp_path, {"ask": "run"}, refuse)
    assert caught.value.kind == "AgentNotFoundError"


def test_an_error_of_the_fleet_itself_is_told_to_the_client_and_to_the_log(tmp_path, caplog):
    async def fail(_):
        raise OverflowError("date value out of range")

    with pytest.raises(FleetControlError, match=r"failed at this request \(OverflowError: date value out of"):
        told(tmp_path, {"ask": "status"}, fail)
    assert [record.getMessage() for record in caplog.records] == ["a request could not be answered"]


def test_nobody_there_is_an_error_that_says_how_to_start(tmp_path):
    with pytest.raises(FleetNotRunningError, match="start it with `dutiful fleet start`"):
        asyncio.run(ask(tmp_path, {"ask": "status"}))
    with pytest.raises(FleetNotRunningError):
        asyncio.run(ask(tmp_path / "missing", {"ask": "status"}))


def leave_socket_of_the_dead(folder):
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(folder / control.FILE_NAME))
    dead.listen()
    dead.close()


def test_the_socket_of_a_dead_process_is_nobody_and_is_replaced(tmp_path):
    leave_socket_of_the_dead(tmp_path)
    with pytest.raises(FleetNotRunningError):
        asyncio.run(ask(tmp_path, {"ask": "status"}))
    assert told(tmp_path, {"ask": "status"})["heard"]["ask"] == "status"


def test_who_closes_leaves_the_socket_of_a_successor_alone(tmp_path):
    async def story():
        async with served(tmp_path):
            async with served(tmp_path):
                successor = (tmp_path / control.FILE_NAME).rename(tmp_path / "kept")
            leave_socket_of_the_dead(tmp_path)
        return successor

    asyncio.run(story())
    assert (tmp_path / control.FILE_NAME).exists()


def test_a_path_that_is_too_long_for_a_socket_works(tmp_path):
    folder = tmp_path.joinpath(*["directory-with-a-long-name"] * 6)
    folder.mkdir(parents=True)
    assert len(str(folder)) > 107
    assert told(folder, {"ask": "status"})["heard"]["ask"] == "status"
    with pytest.raises(FleetNotRunningError):
        asyncio.run(ask(folder, {"ask": "status"}))


def test_files_opened_between_creating_and_serving_a_socket_of_a_long_path_do_no_harm(tmp_path):
    folder = tmp_path.joinpath(*["directory-with-a-long-name"] * 6)
    folder.mkdir(parents=True)
    (folder / "other").touch()

    async def story():
        served_socket = ControlSocket(folder, echo)
        served_socket.bind()
        with (folder / "other").open():
            await served_socket.open()
            heard = await ask(folder, {"ask": "status"})
            await served_socket.close()
        return heard

    assert asyncio.run(story()) == {"heard": {"version": 1, "ask": "status"}}
    assert [path.name for path in folder.iterdir()] == ["other"]


def test_a_directory_that_cannot_hold_a_socket_is_an_error(tmp_path):
    (tmp_path / control.FILE_NAME).mkdir()
    with pytest.raises(SchedulerError, match="cannot be made"):
        told(tmp_path, {"ask": "status"})


def test_a_start_that_fails_leaves_the_socket_of_the_running_fleet_alone(tmp_path):
    async def story():
        async with served(tmp_path):
            second = ControlSocket(tmp_path, echo)
            second.bind()
            await second.close()
            return [path.name for path in tmp_path.iterdir()], await ask(tmp_path, {"ask": "status"})

    names, answer = asyncio.run(story())
    assert (names, answer["heard"]["ask"]) == ([control.FILE_NAME], "status")


@pytest.mark.parametrize(
    "line",
    [b"", b"\n", b"{}", b"[]\n", b"nonsense\n", b"\xff\n", b"[" * 100_000 + b"\n"],
    ids=["nothing", "blank", "no end", "list", "no JSON", "no UTF-8", "deep"],
)
def test_what_is_no_request_is_refused(tmp_path, line):
    assert said(tmp_path, line)["error"]["message"].startswith("The request is no JSON object in one line")


def test_a_request_that_is_too_long_is_not_sent(tmp_path):
    with pytest.raises(FleetControlError, match="may have 1048576; shorten it"):
        told(tmp_path, {"ask": "run", "prompt": "x" * 1_048_576})


async def send_without_end(writer):
    while True:
        writer.write(b" " * 65_536)
        await writer.drain()


def test_one_that_is_sent_all_the_same_is_cut_off_and_others_are_heard(tmp_path):
    async def story():
        async with served(tmp_path):
            _, writer = await asyncio.open_unix_connection(tmp_path / control.FILE_NAME)
            with pytest.raises(ConnectionError):
                await send_without_end(writer)
            writer.close()
            return await ask(tmp_path, {"ask": "status"})

    assert asyncio.run(story())["heard"]["ask"] == "status"


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_version_is_refused(tmp_path, version):
    answer = said(tmp_path, json.dumps({"version": version, "ask": "status"}).encode() + b"\n")
    assert "restart the fleet with the version of the command" in answer["error"]["message"]


def answered_with(folder, line, request=None):
    """Return what `ask` makes of a fleet that answers with this line."""

    async def serve(reader, writer):
        await reader.readline()
        writer.write(line)
        await writer.drain()
        writer.close()

    async def story():
        server = await asyncio.start_unix_server(serve, folder / control.FILE_NAME)
        async with server:
            return await ask(folder, request or {"ask": "status"})

    return asyncio.run(story())


@pytest.mark.parametrize("line", [b"", b"nonsense\n", b'{"version": 1}\n', b'{"version": 1, "answer": 1}'])
def test_an_answer_that_is_none_is_an_error(tmp_path, line):
    with pytest.raises(FleetControlError, match="cannot be asked"):
        answered_with(tmp_path, line)


def test_a_fleet_of_another_version_is_an_error(tmp_path):
    with pytest.raises(FleetControlError, match=r"different versions \(they speak 1 and 2\)"):
        answered_with(tmp_path, b'{"version": 2, "answer": {}}\n')


def test_a_fleet_that_does_not_answer_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(control, "_SECONDS_MAX", 0.05)

    async def never(_):
        await asyncio.Event().wait()

    with pytest.raises(FleetControlError):
        told(tmp_path, {"ask": "status"}, never)


def test_those_who_say_nothing_do_not_keep_others_out(tmp_path, monkeypatch):
    monkeypatch.setattr(control, "_SECONDS_MAX", 1.0)

    async def story():
        async with served(tmp_path):
            silent = [await asyncio.open_unix_connection(tmp_path / control.FILE_NAME) for _ in range(16)]
            # They are cut off when their time is over.
            assert [await reader.read() for reader, _ in silent] == [b""] * 16
            for _, writer in silent:
                writer.close()
            monkeypatch.undo()
            return await ask(tmp_path, {"ask": "status"})

    assert asyncio.run(story())["heard"]["ask"] == "status"
