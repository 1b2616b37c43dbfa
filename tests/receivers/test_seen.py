"""Whether a delivery is new, done, busy or older: one rule, in three stores."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutiful.core.errors import InvalidArgumentError
from dutiful.receivers import Answer, PostgresSeen, SqliteSeen, TaskFailedError, ValkeySeen
from dutiful.receivers.seen import Claim, Record, judge


@pytest.fixture(params=["sqlite", "valkey", "postgres"])
def new_seen(request, tmp_path):
    """A function that opens the same store again, as another consumer does."""
    if request.param == "sqlite":
        return lambda **settings: SqliteSeen(tmp_path / "seen.db", **settings)
    if request.param == "valkey":
        url, name = request.getfixturevalue("valkey_url"), request.getfixturevalue("own_name")
        return lambda **settings: ValkeySeen(url, prefix=name, **settings)
    port, name = request.getfixturevalue("newest_postgres"), request.getfixturevalue("own_name")
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    return lambda **_: PostgresSeen(url, table=name)


@asynccontextmanager
async def opened(*stores):
    for store in stores:
        await store.prepare()
    try:
        yield stores
    finally:
        for store in stores:
            await store.close()


async def asked(seen, attempt, key="k") -> tuple[str, str | None]:
    """Return the answer of a delivery whose work succeeds."""
    async with seen.once(key, attempt) as claim:
        return claim.answer.value, claim.error


async def failing(seen, attempt, problem) -> str:
    with pytest.raises(TaskFailedError):
        async with seen.once("k", attempt) as claim:
            raise TaskFailedError(problem)
    return claim.answer.value


def test_a_key_is_new_once_and_done_in_every_attempt_after(new_seen):
    async def story():
        async with opened(new_seen()) as (seen,):
            return [await asked(seen, attempt) for attempt in (1, 1, 2, 1)] + [await asked(seen, 1, "other")]

    assert asyncio.run(story()) == [("new", None), *[("done", None)] * 3, ("new", None)]


def test_finished_keys_are_known_to_other_consumers_and_after_a_restart(new_seen):
    async def story():
        async with opened(new_seen()) as (first,):
            await asked(first, 1)
        async with opened(new_seen(), new_seen()) as (second, third):
            return [await asked(second, 1), await asked(third, 2)]

    assert asyncio.run(story()) == [("done", None)] * 2


def test_while_a_consumer_is_at_work_others_find_the_key_busy(new_seen):
    async def story():
        async with opened(new_seen(), new_seen()) as (first, second), first.once("k", 1) as claim:
            assert claim.answer is Answer.NEW
            return [await asked(second, attempt) for attempt in (1, 2)]

    assert asyncio.run(story()) == [("busy", None)] * 2


def test_a_failed_attempt_is_done_with_its_problem_and_a_higher_one_is_new(new_seen):
    async def story():
        async with opened(new_seen()) as (seen,):
            answers = [await failing(seen, 2, "no paper"), await asked(seen, 2), await asked(seen, 1)]
            answers += [await failing(seen, 3, "no ink"), await asked(seen, 3), await asked(seen, 4)]
            return [*answers, await asked(seen, 3)]

    assert asyncio.run(story()) == [
        "new",
        ("done", "no paper"),
        ("older", None),
        "new",
        ("done", "no ink"),
        ("new", None),
        ("done", None),
    ]


def test_an_attempt_that_is_cancelled_may_be_taken_again_at_once(new_seen):
    async def story():
        async with opened(new_seen()) as (seen,):
            with pytest.raises(KeyError):
                async with seen.once("k", 1):
                    raise KeyError
            return await asked(seen, 1)

    assert asyncio.run(story()) == ("new", None)


def test_of_many_consumers_at_once_exactly_one_finds_the_key_new(new_seen):
    async def story():
        stores = [new_seen() for _ in range(4)]
        async with opened(*stores):
            return await asyncio.gather(*(asked(stores[n % 4], 1 + n % 3) for n in range(40)))

    answers = [answer for answer, _ in asyncio.run(story())]
    assert answers.count("new") == 1
    assert set(answers) <= {"new", "busy", "done", "older"}


async def claim_and_die(seen):
    if isinstance(seen, SqliteSeen):
        assert seen._claim("k", 1, "dead").answer is Answer.NEW
    else:
        assert (await seen._step("once", "k", 1, "dead"))[0] == "new"


@pytest.mark.parametrize("new_seen", ["sqlite", "valkey"], indirect=True)
def test_a_lease_that_ran_out_is_taken_over_and_a_living_consumer_renews_it(new_seen):
    async def story():
        living, other = new_seen(lease=4.0), new_seen(lease=4.0)
        async with opened(living, other):
            # Claimed and never renewed, as by a consumer that was killed.
            await claim_and_die(other)
            async with living.once("held", 1):
                await asyncio.sleep(5)
                return await asked(other, 1), await asked(other, 1, "held")

    assert asyncio.run(story()) == (("new", None), ("busy", None))


async def fail_after(seen, statement):
    async with seen.once("k", 1) as claim:
        await claim.connection.execute(statement)
        raise TaskFailedError("after the effect")


async def die_at_work(seen, other):
    async with seen.once("k", 1) as claim:
        pid = await claim.connection.fetchval("SELECT pg_backend_pid()")
        await (await other._connected()).execute("SELECT pg_terminate_backend($1)", pid)
        await claim.connection.execute("SELECT 1")


@pytest.mark.parametrize("new_seen", ["postgres"], indirect=True)
def test_in_postgresql_effect_and_key_are_one_transaction(new_seen, own_name):
    async def story():
        async with opened(new_seen()) as (seen,):
            pool = await seen._connected()
            await pool.execute(f"CREATE TABLE effects_{own_name} (key text)")
            insert = f"INSERT INTO effects_{own_name} VALUES ('k')"
            with pytest.raises(TaskFailedError):
                await fail_after(seen, insert)
            async with seen.once("k", 2) as claim:
                await claim.connection.execute(insert)
            async with pool.acquire() as own:
                transaction = own.transaction()
                await transaction.start()
                async with seen.once("mine", 1, connection=own) as claim:
                    assert claim.answer is Answer.NEW
                await transaction.rollback()
            return await pool.fetchval(f"SELECT count(*) FROM effects_{own_name}"), await asked(
                seen, 1, "mine"
            )

    assert asyncio.run(story()) == (1, ("new", None))


@pytest.mark.parametrize("new_seen", ["postgres"], indirect=True)
def test_in_postgresql_a_session_that_dies_leaves_neither_effect_nor_key(new_seen):
    async def story():
        async with opened(new_seen(), new_seen()) as (seen, other):
            with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
                await die_at_work(seen, other)
            return await asked(other, 1)

    assert asyncio.run(story()) == ("new", None)


def test_a_table_that_is_no_plain_name_is_refused():
    with pytest.raises(InvalidArgumentError, match="write a name of letters"):
        PostgresSeen("postgresql://h/db", table="seen; DROP TABLE users")


async def started(seen, attempt, raised=None) -> int:
    """Return the number of this start; the work ends as `raised` says, else it succeeds."""
    with suppress(TaskFailedError, KeyError):
        async with seen.once("k", attempt) as claim:
            if raised is not None:
                raise raised
    return claim.starts


def test_every_start_of_a_key_has_a_higher_number_whatever_ended_the_one_before(new_seen):
    async def story():
        async with opened(new_seen()) as (seen,):
            failed = [await started(seen, attempt, TaskFailedError("no paper")) for attempt in (1, 2)]
            return [*failed, await started(seen, 3), await started(seen, 4)]

    # The last delivery finds the key done, and starts nothing.
    assert asyncio.run(story()) == [1, 2, 3, 0]


def test_a_start_that_was_cut_short_is_counted_unless_its_effect_was_rolled_back_with_it(new_seen, request):
    async def story():
        async with opened(new_seen()) as (seen,):
            return [await started(seen, 1, KeyError()), await started(seen, 1)]

    transactional = "postgres" in request.node.name
    assert asyncio.run(story()) == ([1, 1] if transactional else [1, 2])


STEPS = st.lists(
    st.tuples(st.sampled_from(["done", "failed", "left"]), st.integers(1, 4)), min_size=1, max_size=8
)


@given(STEPS)
def test_whatever_happened_a_key_that_is_done_stays_done_and_attempts_never_go_back(steps):
    record, done, highest = None, False, 0
    for what, attempt in steps:
        claim = judge(record, attempt, now=10)
        if done:
            assert claim == Claim(Answer.DONE)
        elif attempt < highest:
            assert claim.answer is Answer.OLDER
        if claim.answer is not Answer.NEW:
            continue
        done, highest = what == "done", attempt
        record = Record("busy" if what == "left" else what, attempt, 5, "no" if what == "failed" else None)


@given(steps=STEPS)
def test_the_script_of_valkey_answers_as_the_rule_does(valkey_url, steps):
    async def story():
        seen, record = ValkeySeen(valkey_url, prefix="rule:"), None
        async with opened(seen):
            await seen._connected().delete("rule:k")
            for what, attempt in steps:
                word, error, starts = await seen._step("once", "k", attempt, "t")
                claim = judge(record, attempt, now=10)
                assert (word, error or None, starts) == (claim.answer.value, claim.error, claim.starts)
                if claim.answer is not Answer.NEW:
                    continue
                await seen._step(
                    what if what != "left" else "release", "k", attempt, "t", "no" * (what == "failed")
                )
                error = "no" if what == "failed" else None
                state = "busy" if what == "left" else what
                record = Record(state, attempt, 5, error, claim.starts)

    asyncio.run(story())
