"""Count a large text on several hosts that share the cache; each host counts a share of it.

The text is split into shards, whose boundaries depend only on the text. One process of every host reads the whole text,
counts each n-th shard, and writes the counts to the cache. Then it reads all counts from the cache, in the order of the
text, and counts missing shards itself. The sum is therefore bit-identical to that of a single process. No host waits
for another, and hosts that die, are slow, or have another cache affect only the time.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Generic, TypeVar

from relexify.errors import OutputError
from relexify.processes import launch, map_in_order
from relexify.storage.shards import Shards

__all__ = ["ShardsLost", "SharedCount"]

Counts = TypeVar("Counts")

logger = logging.getLogger(__name__)


class ShardsLost(Exception):
    """The shards cannot be written, or another process has finished and removed them: count the text alone."""


@dataclass(frozen=True)
class SharedCount(Generic[Counts]):
    """One pass over a text that is counted in shards.

    Attributes:
        name: Name of the pass, because the shards of several passes are in the same folder.
        shards: Where counts are exchanged.
        batches: Starts a pass over the text; yields batches of lines, each with the number of its shard.
        count: Counts a batch; it also runs in other processes of this host, as for `map_in_order`.
        combine: Returns the counts of a shard, given the counts of its batches, in order.
        save: Returns the counts of a shard as bytes.
        load: Returns the counts of a shard, given these bytes.
    """

    name: str
    shards: Shards
    batches: Callable[[], Iterable[tuple[int, list[str]]]]
    count: Callable[[list[str]], Any]
    combine: Callable[[list[Any]], Counts]
    save: Callable[[Counts], bytes]
    load: Callable[[bytes], Counts]

    def count_share(self) -> None:
        """Count the share of this host, except shards that are already counted.

        Nothing is written for a text of one shard.

        Raises:
            ShardsLost: The counts cannot be written, or are no longer needed.
        """
        started = launch()
        seen: set[int] = set()
        first: Counts | None = None
        has_written = False
        try:
            for number, counts in self._count(lambda number: number % started.hosts == started.host, seen):
                if number == 0:
                    first = counts  # kept until it is known whether there are more shards
                    continue
                if has_written and not self.shards.exist():
                    raise ShardsLost
                self.shards.write(self._part(number), self.save(counts))
                has_written = True
            if len(seen) > 1:
                if first is not None:
                    self.shards.write(self._part(0), self.save(first))
                self.shards.write(self._total, str(len(seen)).encode())
        except OutputError as error:
            logger.debug("no counts are exchanged (%s)", error)
            raise ShardsLost from error

    def all_counts(self) -> Iterator[Counts]:
        """Yield the counts of all shards, in order; count missing shards.

        Raises:
            ShardsLost: The shards were removed in the meantime.
        """
        seen: set[int] = set()
        following = 0
        total = int(self.shards.read(self._total) or 0)
        if not total or any(self._is_missing(number) for number in range(total)):
            for number, counts in self._count(lambda number: True, seen):
                yield from map(self._load, range(following, number))
                yield counts
                following = number + 1
            total = len(seen)
        yield from map(self._load, range(following, total))

    def _count(self, is_wanted: Callable[[int], bool], seen: set[int]) -> Iterator[tuple[int, Counts]]:
        """Count the missing shards that are wanted, in one pass over the text; `seen` grows with each shard."""
        numbers: deque[int] = deque()

        def batches() -> Iterator[list[str]]:
            for number, shard in groupby(self.batches(), key=itemgetter(0)):
                seen.add(number)
                if is_wanted(number) and self._is_missing(number):
                    for _, lines in shard:
                        numbers.append(number)
                        yield lines

        counted = ((numbers.popleft(), counts) for counts in map_in_order(self.count, batches()))
        for number, parts in groupby(counted, key=itemgetter(0)):
            yield number, self.combine([counts for _, counts in parts])

    def _is_missing(self, number: int) -> bool:
        return self.shards.read(self._part(number)) is None

    def _load(self, number: int) -> Counts:
        content = self.shards.read(self._part(number))
        if content is None:
            raise ShardsLost
        return self.load(content)

    def _part(self, number: int) -> str:
        return f"{self.name}-{number:06}"

    @property
    def _total(self) -> str:
        return f"{self.name}-total"
