"""Learn merges on top of an existing vocabulary: byte-pair encoding whose first symbols are whole tokens."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from relexify.progress import track

__all__ = ["Merge", "learn_merges"]

_LEAST_COUNT = 2
"""A pair that occurs once is not worth a token."""

Pair = tuple[int, int]


@dataclass(frozen=True)
class Merge:
    """Two tokens that become one.

    Attributes:
        left: The first token: an id of the vocabulary, or the id that an earlier merge made.
        right: The second one.
        token: The spelling of the token that they become.
        saved: Number of tokens that the text is shorter by.
    """

    left: int
    right: int
    token: str
    saved: int


def learn_merges(
    words: Mapping[tuple[int, ...], int],
    tokens: Sequence[str],
    count: int,
    *,
    prefix: str = "",
    forbidden: Collection[Pair] = (),
    rejected: Collection[str] = (),
) -> list[Merge]:
    """Learn merges in the order of the tokens that they save, as byte-pair encoding does.

    Every merge makes a token that was not there before, so that merges of the vocabulary cannot follow upon it: a
    pair that spells an existing token is never merged.

    Args:
        words: How often each word occurs, as ids; merges do not cross words.
        tokens: Spelling of the tokens, by id; the i-th merge makes the id `len(tokens) + i`.
        count: Number of merges; fewer, if no pair is left that occurs twice.
        prefix: Marks tokens inside a word (`##`); the merged token has that of its first part alone.
        forbidden: Pairs that are never merged.
        rejected: Spellings of tokens that are never made.
    """
    spelling = list(tokens)
    known = {*tokens, *rejected}
    symbols = [list(word) for word in words]
    frequency = list(words.values())
    counts: dict[Pair, int] = defaultdict(int)
    places: dict[Pair, list[int]] = defaultdict(list)  # words with the pair; some no longer have it
    for index, word in enumerate(symbols):
        for pair in pairwise(word):
            counts[pair] += frequency[index]
            places[pair].append(index)
    # The largest count first and, of equal counts, the lowest ids, so that the order does not depend on the text's.
    queue = [(-number, pair) for pair, number in counts.items() if number >= _LEAST_COUNT]
    heapq.heapify(queue)
    merges: list[Merge] = []
    with track("choosing tokens to add", count) as advance:
        while queue and len(merges) < count:
            negative, pair = heapq.heappop(queue)
            if counts[pair] != -negative:  # an entry from before its count changed
                if counts[pair] >= _LEAST_COUNT:
                    heapq.heappush(queue, (-counts[pair], pair))
                continue
            token = spelling[pair[0]] + spelling[pair[1]].removeprefix(prefix)
            if pair in forbidden or token in known:
                continue
            made = len(spelling)
            spelling.append(token)
            known.add(token)
            changed: set[Pair] = set()
            saved = 0
            for index in places.pop(pair):
                before = symbols[index]
                after = _merged(before, pair, made)
                if len(after) == len(before):
                    continue
                saved += (len(before) - len(after)) * frequency[index]
                for old in pairwise(before):
                    counts[old] -= frequency[index]
                for new in pairwise(after):
                    counts[new] += frequency[index]
                    if made in new:
                        places[new].append(index)
                        changed.add(new)
                symbols[index] = after
            for new in changed:
                heapq.heappush(queue, (-counts[new], new))
            merges.append(Merge(*pair, token, saved))
            advance(1)
    return merges


def _merged(word: list[int], pair: Pair, made: int) -> list[int]:
    """Replace a pair from left to right, as tokenizers do: of three equal tokens, the first two are merged."""
    merged: list[int] = []
    position = 0
    while position < len(word):
        if word[position] == pair[0] and word[position + 1 : position + 2] == [pair[1]]:
            merged.append(made)
            position += 2
        else:
            merged.append(word[position])
            position += 1
    return merged
