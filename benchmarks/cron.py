"""Next occurrence and parse: CPU time per call, over a mix of POSIX texts of equal weight.

- walk: each answer is the next question, from the start of 2026;
- cold: the occurrence after random instants of 2024 to 2033, asked from the latest to the earliest,
  so that our memory of the last answer never helps;
- never seen: texts whose fields nobody has asked for before, so that no table of ours exists yet.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from benchmarks.cron_mix import CHECK_STARTS, IMPOSSIBLE, INSTANTS, MIX, NEW_YORK, START, STEPS, fresh_texts
from benchmarks.cron_peers import CroniterEpoch, OursDatetime, OursEpoch, peers
from benchmarks.report import Row, Section, at_most, times_better
from benchmarks.timing import collector_off, cpu_us, drain, sustained_us
from dutiful import Cron

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo

    from benchmarks.cron_peers import Library
    from benchmarks.report import Goal

    # Library -> expression -> CPU microseconds per call.
    Figures = dict[str, dict[str, float]]

ROUNDS, FRESH = 9, 100
EPOCH, DATETIME = OursEpoch.name, OursDatetime.name

GOAL_1A = {"croniter": 100, "cronsim": 50, "croniter-rs": 2}
GOAL_1B = {"croniter": 40, "cronsim": 20, "croniter-rs": 1}
GOAL_1C = {"croniter": 45, "cronsim": 25}
GOAL_1E = {"croniter": 15, "cronsim": 3}

NOTES = (
    f"{len(MIX)} expressions of equal weight; CPU time; medians of {ROUNDS} interleaved rounds after warm-up",
    "peers answer in datetimes, croniter also in epoch floats; a cold cronsim has to parse each time",
    "parse, no cache: the function behind Cron.parse without its cache of texts; its tables are warm",
    f"parse, never seen: {FRESH} texts with new fields in each round, so that the tables are built too",
)


def run() -> Section:
    """Measure goals 1a to 1e, after comparing the answers of all libraries with ours."""
    differences = [*_differences(UTC, "UTC"), *_differences(NEW_YORK, "New York")]
    with collector_off():
        everybody = [(library, zone) for zone in (UTC, NEW_YORK) for library in _libraries(zone)]
        walk, cold = _measure(_time_walk, everybody), _measure(_time_cold, everybody)
        parse = _measure(_time_parse, [(library, UTC) for library in (OursEpoch(), *peers())])[UTC]
        rows = [
            *_next_rows("walk", walk[UTC], walk[NEW_YORK]),
            *_next_rows("cold", cold[UTC], cold[NEW_YORK]),
            *_worst_rows("walk", walk[UTC], walk[NEW_YORK]),
            *_worst_rows("cold", cold[UTC], cold[NEW_YORK]),
            _refusal_row(mean(parse[EPOCH].values())),
            *_parse_rows(_means(parse)),
        ]
    return Section("cron", tuple(rows), (*NOTES, *differences))


def _libraries(zone: tzinfo) -> list[Library]:
    ours: list[Library] = [OursEpoch(), OursDatetime()]
    if zone is UTC:
        return [*ours, *peers(), CroniterEpoch()]
    return [*ours, *(peer for peer in peers() if not peer.utc_only)]


def _measure(
    sample: Callable[[Library, str, tzinfo], float], contestants: list[tuple[Library, tzinfo]]
) -> dict[tzinfo, Figures]:
    """Return the medians of each contestant and expression by zone, the contestants taking turns."""
    samples: defaultdict[tuple[tzinfo, str, str], list[float]] = defaultdict(list)
    for _ in range(ROUNDS):
        for name, text in MIX.items():
            for library, zone in contestants:
                samples[zone, library.name, name].append(sample(library, text, zone))
    figures: dict[tzinfo, Figures] = defaultdict(lambda: defaultdict(dict))
    for (zone, library_name, name), found in samples.items():
        figures[zone][library_name][name] = median(found)
    return figures


def _time_walk(library: Library, text: str, zone: tzinfo) -> float:
    return sustained_us(lambda: partial(drain, islice(library.walk(text, zone, START), STEPS)), STEPS)


def _time_cold(library: Library, text: str, zone: tzinfo) -> float:
    ask, instants = library.ask(text, zone), _instants_for(library, zone)
    return sustained_us(lambda: partial(drain, map(ask, instants)), STEPS)


def _time_parse(library: Library, text: str, _: tzinfo) -> float:
    return sustained_us(lambda: partial(drain, map(library.parse, [text] * STEPS)), STEPS)


def _instants_for(library: Library, zone: tzinfo) -> list[Any]:
    return list(INSTANTS) if library.epoch else [datetime.fromtimestamp(at, zone) for at in INSTANTS]


def _next_rows(kind: str, utc: Figures, local: Figures) -> list[Row]:
    in_utc, in_local = _means(utc), _means(local)
    times_utc = at_most(in_local[EPOCH] / in_utc[EPOCH], 3.5, "x own UTC")
    datetimes = {name: figure for name, figure in in_utc.items() if name != CroniterEpoch.name}
    return [
        _row(f"1a next, UTC, epoch, {kind}", in_utc[EPOCH], in_utc, GOAL_1A),
        _row(f"1b next, UTC, datetime, {kind}", in_utc[DATETIME], datetimes, GOAL_1B),
        _row(f"1c next, New York, epoch, {kind}", in_local[EPOCH], in_local, GOAL_1C, times_utc),
        _row(f"next, New York, datetime, {kind}", in_local[DATETIME], in_local, {}),
    ]


def _worst_rows(kind: str, utc: Figures, local: Figures) -> list[Row]:
    """Return the dearest expression over the mean of the mix, for us and for each peer."""
    rows = []
    for where, figures in (("UTC", utc), ("New York", local)):
        worst = {name: max(costs.values()) / mean(costs.values()) for name, costs in figures.items()}
        dearest = max((cost, expression) for expression, cost in figures[EPOCH].items())[1]
        item = f"1d worst over mean, {where}, {kind} ({dearest})"
        rows.append(_row(item, worst[EPOCH], worst, {}, at_most(worst[EPOCH], 2, "x mean"), unit="x"))
    return rows


def _refusal_row(mean_parse: float) -> Row:
    """Return the time until 30 February is refused, by those that do not search for it for ever."""
    libraries = [OursEpoch(), *(peer for peer in peers() if peer.refusal)]
    costs = {
        library.name: median(cpu_us(partial(_refuse, library), 1) for _ in range(5 * ROUNDS))
        for library in libraries
    }
    return _row(
        "1d refusal of 30 February",
        costs[EPOCH],
        costs,
        {},
        at_most(costs[EPOCH] / mean_parse, 10, "x parse"),
    )


def _refuse(library: Any) -> None:
    try:
        library.refuse(IMPOSSIBLE)
    except library.refusal:
        return
    raise AssertionError(f"{library.name} accepts {IMPOSSIBLE}")


def _parse_rows(means: dict[str, float]) -> list[Row]:
    repeated, fresh, first = _repeated_parse(), _measure_fresh(_parse_all), _measure_fresh(_parse_and_ask_all)
    return [
        _row("1e parse, no cache", means[EPOCH], means, GOAL_1E),
        _row("1e parse, repeated", repeated, means, {}, at_most(repeated, 1, "us")),
        _row("parse, never seen", fresh[EPOCH], fresh, {}),
        _row("parse and first next, never seen", first[EPOCH], first, {}),
    ]


def _repeated_parse() -> float:
    texts = list(MIX.values()) * STEPS
    return median(cpu_us(lambda: drain(map(Cron.parse, texts)), len(texts)) for _ in range(ROUNDS))


def _measure_fresh(work: Callable[[Library, list[str]], object]) -> dict[str, float]:
    """Return the median cost of `work` per text for each library, over new texts in each round."""
    samples: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(ROUNDS):
        texts = fresh_texts(FRESH)
        for library in (OursEpoch(), *peers()):
            samples[library.name].append(cpu_us(partial(work, library, texts), FRESH))
    return {name: median(found) for name, found in samples.items()}


def _parse_all(library: Library, texts: list[str]) -> None:
    drain(map(library.parse, texts))


def _parse_and_ask_all(library: Library, texts: list[str]) -> None:
    at = _instants_for(library, UTC)[0]
    for text in texts:
        library.ask(text, UTC)(at)


def _row(
    item: str,
    ours: float,
    figures: dict[str, float],
    factors: dict[str, float],
    *more: Goal,
    unit: str = "us",
) -> Row:
    """Return a row whose peers are the libraries of `figures` other than ours."""
    others = {name: figure for name, figure in figures.items() if name not in (EPOCH, DATETIME)}
    return Row(item, ours, unit, others, (*times_better(ours, others, factors), *more))


def _means(figures: Figures) -> dict[str, float]:
    return {name: mean(by_expression.values()) for name, by_expression in figures.items()}


def _differences(zone: tzinfo, where: str) -> list[str]:
    """Return a line per library: on how many expressions, and which, its walks are not ours."""
    lines = []
    for library in _libraries(zone)[1:]:
        odd = [name for name, text in MIX.items() if not _agrees(library, text, zone)]
        which = f" ({'; '.join(odd)})" if odd else ""
        lines.append(f"{where}: {library.name} differs from ours in {len(odd)} of {len(MIX)}{which}")
    return lines


def _agrees(library: Library, text: str, zone: tzinfo) -> bool:
    return all(
        _walked(library, text, zone, start) == _walked(OursEpoch(), text, zone, start)
        for start in CHECK_STARTS
    )


def _walked(library: Library, text: str, zone: tzinfo, start: datetime) -> list[int]:
    found = islice(library.walk(text, zone, start), STEPS)
    return [int(at.timestamp() if isinstance(at, datetime) else at) for at in found]
