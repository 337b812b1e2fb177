"""Count a large text on several hosts that share the cache, each a share of it.

The text is cut into shards, whose limits follow from the text alone. One process of every host reads the whole text,
counts each n-th shard, and writes the counts to the cache. Then it takes all counts from there, in the order of the
text, and counts those that it does not find. So the sum is that of a single process, bit for bit, nobody waits for
anybody, and hosts that die, that are slow, or that do not share a cache change nothing but the time.
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
    """Another process has finished and removed the shards, or they cannot be written: the text is counted alone."""


@dataclass(frozen=True)
class SharedCount(Generic[Counts]):
    """One pass over a text that is counted in shards.

    Attributes:
        name: What is counted; the shards of several passes are in one folder.
        shards: Where counts are exchanged.
        batches: Starts a pass over the text: lines, some at a time, with the number of the shard that they belong to.
        count: Counts a batch; other processes of this host do so too, as for `map_in_order`.
        combine: Returns the counts of a shard, given those of its batches, in order.
        save: Returns the counts of a shard as bytes.
        load: Reads them.
    """

    name: str
    shards: Shards
    batches: Callable[[], Iterable[tuple[int, list[str]]]]
    count: Callable[[list[str]], Any]
    combine: Callable[[list[Any]], Counts]
    save: Callable[[Counts], bytes]
    load: Callable[[bytes], Counts]

    def count_share(self) -> None:
        """Count the share of this host, without shards whose counts are there already.

        Nothing is written for a text of one shard.

        Raises:
            ShardsLost: The counts cannot be written, or are not needed any more.
        """
        started = launch()
        seen: set[int] = set()
        first: Counts | None = None
        has_written = False
        try:
            for number, counts in self._count(lambda number: number % started.hosts == started.host, seen):
                if number == 0:
                    first = counts  # until it is known whether there are more
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
        """Yield the counts of all shards, in order; those that are missing are counted.

        Raises:
            ShardsLost: They were removed in the meantime.
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
