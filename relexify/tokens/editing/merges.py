"""Learn merges on top of an existing vocabulary: byte-pair encoding whose initial symbols are whole tokens."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from relexify.progress import track

__all__ = ["Merge", "learn_merges"]

_MIN_COUNT = 2
"""A pair that occurs once is not worth a token."""

Pair = tuple[int, int]


@dataclass(frozen=True)
class Merge:
    """A merge of two tokens into one.

    Attributes:
        left: The id of the first token, which is in the vocabulary or results from an earlier merge.
        right: The id of the second token.
        token: The spelling of the resulting token.
        saved: By how many tokens the merge shortens the text.
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
    """Learn merges as byte-pair encoding does, starting with the most frequent pair.

    A pair that spells an existing token is never merged. Every merge therefore results in a new token, to which no
    merge of the vocabulary applies.

    Args:
        words: Number of occurrences of each word, given as ids; merges do not cross word boundaries.
        tokens: Spelling of the tokens, by id; the i-th merge gets the id `len(tokens) + i`.
        count: Number of merges; fewer are learned if no pair is left that occurs twice.
        prefix: Marks tokens inside a word (`##`); a merged token keeps only the prefix of its first part.
        forbidden: Pairs that are never merged.
        rejected: Spellings that no merged token may have.
    """
    spelling = list(tokens)
    unavailable = {*tokens, *rejected}
    symbols = [list(word) for word in words]
    frequency = list(words.values())
    counts: dict[Pair, int] = defaultdict(int)
    words_with: dict[Pair, list[int]] = defaultdict(list)  # may include words that no longer contain the pair
    for index, word in enumerate(symbols):
        for pair in pairwise(word):
            counts[pair] += frequency[index]
            words_with[pair].append(index)
    # Ordered by decreasing count; ties are broken by ids, so that the result does not depend on the order of the text.
    queue = [(-number, pair) for pair, number in counts.items() if number >= _MIN_COUNT]
    heapq.heapify(queue)
    merges: list[Merge] = []
    with track("choosing tokens to add", count) as advance:
        while queue and len(merges) < count:
            negative, pair = heapq.heappop(queue)
            if counts[pair] != -negative:  # outdated: the count has changed since this entry was pushed
                if counts[pair] >= _MIN_COUNT:
                    heapq.heappush(queue, (-counts[pair], pair))
                continue
            token = spelling[pair[0]] + spelling[pair[1]].removeprefix(prefix)
            if pair in forbidden or token in unavailable:
                continue
            merged_id = len(spelling)
            spelling.append(token)
            unavailable.add(token)
            changed: set[Pair] = set()
            saved = 0
            for index in words_with.pop(pair):
                before = symbols[index]
                after = _merged(before, pair, merged_id)
                if len(after) == len(before):
                    continue
                saved += (len(before) - len(after)) * frequency[index]
                for old in pairwise(before):
                    counts[old] -= frequency[index]
                for new in pairwise(after):
                    counts[new] += frequency[index]
                    if merged_id in new:
                        words_with[new].append(index)
                        changed.add(new)
                symbols[index] = after
            for new in changed:
                heapq.heappush(queue, (-counts[new], new))
            merges.append(Merge(*pair, token, saved))
            advance(1)
    return merges


def _merged(word: list[int], pair: Pair, merged_id: int) -> list[int]:
    """Replace a pair from left to right, as tokenizers do: of three equal tokens, the first two are merged."""
    merged: list[int] = []
    position = 0
    while position < len(word):
        if word[position] == pair[0] and word[position + 1 : position + 2] == [pair[1]]:
            merged.append(merged_id)
            position += 2
        else:
            merged.append(word[position])
            position += 1
    return merged
