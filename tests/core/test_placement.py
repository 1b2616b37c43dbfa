"""Shards spread evenly over the members, few of them move, and nothing moves at rest."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dutiful.core.placement import Placement, Scene, Seen, place, spread

NAMES = tuple("abcdef")
counts = st.integers(1, 24)
members = st.sets(st.sampled_from(NAMES), min_size=1)


@st.composite
def views(draw):
    """Draw members and, by place, an owner that is a member, a stranger, or nobody."""
    known = sorted(draw(members))
    owner = st.sampled_from([*known, None, "stranger"])
    return known, draw(st.lists(owner, min_size=1, max_size=24))


def loads(owners, known):
    return [Counter(owners)[member] for member in known]


class Town:
    """Members that look one after the other, in rounds, at locks that they take and release."""

    def __init__(self, shards, *known):
        self.owners, self.claims, self.known = [None] * shards, [None] * shards, [*known]
        self.seen, self.moves, self.now = {}, 0, 0
        self.draining, self.regained = set(), set()

    def look(self, me):
        listed = [member for member in self.known if member not in self.draining]
        self.seen[me] = self.seen.get(me, Seen()).after(self.now, self.known, self.owners)
        scene = Scene(me, listed, self.owners, self.claims, self.seen[me], me in self.regained)
        placement = place(scene)
        for shard in placement.give:
            self.owners[shard] = self.claims[shard] = None
        for shard in placement.take:
            self.owners[shard] = self.claims[shard] = me
        self.moves += len(placement.take)
        return placement

    def rounds(self, count):
        for _ in range(count):
            self.now += 500
            for member in self.known:
                self.look(member)

    def looks(self, me, count):
        """Let one member look so many times, every half second."""
        for _ in range(count):
            self.now += 500
            yield self.look(me)

    def lose(self, member, *, dead):
        """End the session of a member; a dead one does not come back."""
        self.owners = [None if owner == member else owner for owner in self.owners]
        if dead:
            self.known.remove(member)

    def at_rest(self):
        return all(self.look(member) == Placement() for member in self.known)


@given(views())
def test_loads_differ_by_at_most_one_and_the_shards_of_strangers_stay(view):
    known, owners = view
    goals = spread(owners, known)
    kept = [shard for shard, owner in enumerate(owners) if owner == "stranger"]
    assert [shard for shard, goal in enumerate(goals) if goal == "stranger"] == kept
    assert max(loads(goals, known)) - min(loads(goals, known)) <= 1
    assert None not in goals


@given(views())
def test_no_more_shards_move_than_must(view):
    known, owners = view
    goals = spread(owners, known)
    surplus = sum(max(0, had - max(loads(goals, known))) for had in loads(owners, known))
    lack = sum(max(0, min(loads(goals, known)) - had) for had in loads(owners, known))
    moved = sum(owner in known and owner != goal for owner, goal in zip(owners, goals, strict=True))
    assert moved <= max(surplus, lack)


@given(views())
def test_a_spread_is_at_rest(view):
    known, owners = view
    goals = spread(owners, known)
    assert spread(goals, known) == goals


@given(counts, members)
def test_members_that_start_together_share_all_shards_and_then_rest(shards, known):
    town = Town(shards, *sorted(known))
    town.rounds(12)
    assert None not in town.owners
    held = loads(town.owners, town.known)
    assert max(held) - min(held) <= 1
    assert town.at_rest()


@given(counts, members)
def test_a_join_moves_only_the_share_of_the_new_member(shards, known):
    town = Town(shards, *sorted(known))
    town.rounds(12)
    town.known.append("joined")
    before = town.moves
    town.rounds(12)
    assert town.moves - before == shards // len(town.known)
    assert town.at_rest()


@given(counts, members)
def test_a_death_moves_the_shards_of_the_dead_and_hardly_others(shards, known):
    town = Town(shards, *sorted(known), "dead")
    town.rounds(12)
    held, before = Counter(town.owners)["dead"], town.moves
    town.lose("dead", dead=True)
    town.rounds(12)
    assert town.moves - before == held
    assert None not in town.owners
    assert town.at_rest()


@given(counts, members)
def test_a_draining_member_gives_all_its_shards_and_takes_none(shards, known):
    town = Town(shards, *sorted(known), "drained")
    town.rounds(12)
    town.draining.add("drained")
    town.rounds(12)
    assert "drained" not in town.owners
    assert None not in town.owners


def test_a_member_that_lost_its_session_finds_its_shards_again():
    town = Town(8, "a", "b")
    town.rounds(12)
    before = [*town.owners]
    town.lose("a", dead=False)
    assert [*town.looks("b", 2)] == [Placement()] * 2
    town.regained.add("a")
    town.look("a")
    assert town.owners == before


def test_shards_of_a_member_that_does_not_come_back_are_taken_after_two_seconds():
    town = Town(2, "a", "b")
    town.rounds(12)
    (lost,) = [shard for shard, owner in enumerate(town.owners) if owner == "a"]
    town.lose("a", dead=False)
    # For a second its owner may return; for another one the shard is left to the poorest, which is the same.
    assert [*town.looks("b", 5)] == [Placement()] * 4 + [Placement(take=(lost,))]


def test_after_a_restart_of_the_database_each_takes_only_what_it_had():
    town = Town(8, "a", "b", "c", "d")
    town.rounds(12)
    before = [*town.owners]
    town.owners = [None] * 8
    town.regained |= {*town.known}
    town.rounds(1)
    assert town.owners == before


def test_a_newcomer_counts_after_two_and_a_half_seconds():
    owners, claims = ["a"] * 4, ["a"] * 4
    first = Seen(0, {"a": 0}).after(10_000, {"a", "b"}, owners)
    early, late = (first.after(now, {"a", "b"}, owners) for now in (12_499, 12_500))
    assert place(Scene("a", ("a", "b"), owners, claims, early)) == Placement()
    assert len(place(Scene("a", ("a", "b"), owners, claims, late)).give) == 2


def test_a_shard_that_was_given_up_is_left_to_others():
    scene = Scene("a", ("a",), [None, None], [None, None], Seen().after(0, {"a"}, [None, None]))
    assert place(scene) == Placement(take=(0, 1))
    assert place(scene._replace(shunned={1})) == Placement(take=(0,))
