"""A directory of files as work source; real files, real processes."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter

import pytest
from tests.fleet.run.work_sources.story import AGENT, DONE, FAILED, Desk, claimer, play

from dutiful.fleet.errors import WorkSourceError
from dutiful.fleet.run.work_sources import WorkSources
from dutiful.fleet.types import WorkItem


@pytest.fixture
def inbox(tmp_path):
    path = tmp_path / "inbox"
    path.mkdir()
    return path


def put(inbox, **files: str) -> None:
    for name, content in files.items():
        (inbox / name).write_text(content, encoding="utf-8")


def config(inbox) -> dict[str, str]:
    return {"type": "directory", "path": str(inbox)}


def files(path) -> dict[str, str]:
    """Return what there is below a directory, locks and the names of claimers left out."""
    found = (p for p in path.rglob("*") if p.is_file() and p.suffix != ".lock")
    names = ((p.relative_to(path).parts, p.read_text(encoding="utf-8")) for p in found)
    return {"/".join((*parts[:1], *parts[-1:]) if len(parts) > 1 else parts): text for parts, text in names}


def test_a_file_is_an_item(inbox):
    (inbox / "10-login.md").write_text("# Fix the login\n\nIt fails.\nOften.\n", encoding="utf-8")
    item = play(Desk.claim, config(inbox))
    assert item == WorkItem(
        "directory-1:10-login.md", "directory", "10-login.md", "Fix the login", "It fails.\nOften.", "10"
    )


def test_an_empty_file_is_known_by_its_name(inbox):
    put(inbox, note="\n \n")
    assert play(Desk.claim, config(inbox))[3:] == ("note", "", None, (), None)


def test_what_is_claimed_is_out_of_the_way_until_it_is_done_or_failed(inbox):
    put(inbox, a="one", b="two", c="three")

    async def story(desk):
        first, second = await desk.claim(), await desk.claim()
        assert files(inbox) == {".claimed/a": "one", ".claimed/b": "two", "c": "three"}
        await desk.report(first, DONE)
        await desk.report(second, FAILED)
        return first.title, second.title

    assert play(story, config(inbox)) == ("one", "two")
    assert files(inbox) == {"done/a": "one", "failed/b": "two", "c": "three"}


def test_what_is_released_comes_back(inbox):
    put(inbox, a="one")

    async def story(desk):
        await desk.release(await desk.claim())
        assert files(inbox) == {"a": "one"}
        return (await desk.claim()).external_id

    assert play(story, config(inbox)) == "a"


def test_an_empty_directory_has_nothing_to_do(inbox):
    put(inbox, **{".hidden": "x"})
    (inbox / "folder").mkdir()
    (inbox / "link").symlink_to("/etc/passwd")
    assert play(Desk.claim, config(inbox)) == f"no file in {inbox}"


def test_a_directory_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(WorkSourceError, match="is no directory; create it"):
        play(Desk.claim, config(tmp_path / "absent"))


def test_files_of_the_same_name_never_replace_each_other(inbox):
    async def story(desk):
        for content in ("one", "two"):
            put(inbox, **{"a.md": content})
            await desk.report(await desk.claim(), DONE)
        put(inbox, **{"a.md": "three"})
        third = await desk.claim()
        put(inbox, **{"a.md": "four"})
        assert await desk.claim() == f"no file in {inbox}"
        await desk.release(third)

    play(story, config(inbox))
    assert files(inbox) == {"done/a.md": "one", "done/a-2.md": "two", "a.md": "four", "a-2.md": "three"}


def test_names_are_taken_as_they_are(inbox):
    put(inbox, **{"$(touch x); é\n.md": "odd"})

    async def story(desk):
        await desk.report(await desk.claim(), DONE)

    play(story, config(inbox))
    assert files(inbox) == {"done/$(touch x); é\n.md": "odd"}


def test_bytes_that_are_no_text_and_files_without_end_are_read_as_far_as_that_goes(inbox):
    (inbox / "a").write_bytes(b"\xff\xfe title\n" + b"x" * 1_000_000)
    item = play(Desk.claim, config(inbox))
    assert item.title == "�� title"
    assert len(item.description) < 300_000


def test_a_claim_that_is_cancelled_half_way_is_given_back(inbox):
    put(inbox, a="one")

    async def story(desk):
        task = asyncio.create_task(desk.claim())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    play(story, config(inbox))
    assert files(inbox) == {"a": "one"}


def test_an_item_that_is_not_claimed_cannot_be_ended(inbox):
    put(inbox, a="one")

    async def story(desk):
        item = await desk.claim()
        await desk.report(item, DONE)
        with pytest.raises(KeyError):
            await desk.release(item)

    play(story, config(inbox))


@pytest.mark.parametrize("gone", ["the file", "the directory"])
def test_a_file_that_was_deleted_while_it_was_in_work_cannot_be_reported_or_released(inbox, gone):
    put(inbox, a="one", b="two")

    async def story(desk):
        first, second = await desk.claim(), await desk.claim()
        if gone == "the directory":
            shutil.rmtree(inbox)
        for claimed in inbox.glob(".claimed/*/*"):
            claimed.unlink()
        with pytest.raises(WorkSourceError, match="/a is gone: it was moved or deleted while it was in work"):
            await desk.report(first, DONE)
        with pytest.raises(WorkSourceError, match="/b is gone"):
            await desk.release(second)

    play(story, config(inbox))


def test_a_directory_that_was_made_again_has_the_lock_of_its_claimer_again(inbox):
    put(inbox, a="one")

    async def story(desk):
        await desk.claim()
        shutil.rmtree(inbox)
        inbox.mkdir()
        put(inbox, a="two")
        claimed = (await desk.claim()).title
        return claimed, len([*inbox.glob(".claimed/*.lock")])

    assert play(story, config(inbox)) == ("two", 1)


def test_processes_that_claim_at_once_never_take_the_same_file(inbox):
    put(inbox, **{f"item-{number:03}": str(number) for number in range(120)})
    claimers = [claimer(config(inbox)) for _ in range(4)]
    for process in claimers:
        process.stdin.write("go\n")
        process.stdin.flush()
    taken = Counter(name for process in claimers for name in process.communicate()[0].split())
    assert taken == Counter(f"item-{number:03}" for number in range(120))
    assert len(files(inbox / "done")) == 120


def test_what_a_killed_process_had_claimed_comes_back(inbox):
    put(inbox, a="one", b="two")
    with claimer(config(inbox), dies=True) as dying:
        taken, _ = dying.communicate("go\n")
    assert taken == "a\n"
    assert files(inbox) == {".claimed/a": "one", "b": "two"}
    assert play(Desk.claim, config(inbox)).external_id == "a"


def test_what_a_living_process_has_claimed_is_left_alone(inbox):
    put(inbox, a="one", b="two")

    async def story(desk):
        await desk.claim()
        other = Desk(desk.config)
        return (await other.claim()).external_id, await other.claim()

    assert play(story, config(inbox)) == ("b", f"no file in {inbox}")


def test_what_the_dead_leave_behind_is_tidied_up(inbox):
    put(inbox, a="one")
    with claimer(config(inbox), dies=True) as dying:
        dying.communicate("go\n")

    async def story(desk):
        await desk.report(await desk.claim(), DONE)
        return len(os.listdir(inbox / ".claimed"))

    assert play(story, config(inbox)) == 2, "the lock and the directory of this process"


def test_items_of_many_directories_go_back_to_their_own_directory(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for path in (first, second):
        path.mkdir()
        put(path, a=path.name)

    async def story():
        sources = WorkSources()
        one = await sources.get_next_work_item(AGENT, config(first))
        two = await sources.get_next_work_item(AGENT, config(second))
        await sources.report_outcome(one.item.id, DONE)
        await sources.report_outcome(two.item.id, FAILED)

    asyncio.run(story())
    assert files(tmp_path) == {"first/a": "first", "second/a": "second"}
    assert (first / "done/a").is_file()
    assert (second / "failed/a").is_file()
