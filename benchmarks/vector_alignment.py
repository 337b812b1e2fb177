"""Compare the ways to align the word vectors of two languages by the held-out words that they translate.

    python benchmarks/vector_alignment.py                       # two generated languages
    python benchmarks/vector_alignment.py --source-vectors en.safetensors --target-vectors de.safetensors \
        --dictionary muse-en-de.train.txt --test muse-en-de.test.txt
    python benchmarks/vector_alignment.py --source-corpus en.txt --target-corpus sw.txt --dictionary en-sw.tsv

Vectors of text are trained as `relexify transfer` trains them, or read from its cache. Without `--test`, a fifth of the
dictionary's source words is held out. A word counts as translated if a listed translation is the nearest (P@1) or one
of the five nearest (P@5), by CSLS among the frequent target words. Chance is a random rotation. Small dictionaries are
drawn at random from the frequent words of the dictionary. Self-learning repeats Procrustes on mutual neighbours. If a
result depends on the seed, it is the mean over seeds, with the lowest and the highest. Seconds are CPU time of all
threads. `accepted` counts the seeds for which a search without a dictionary trusts its own map; `relexify align
--unsupervised` writes no other map.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from relexify.evidence.alignment.procrustes import Refinement, align
from relexify.evidence.alignment.unsupervised.frequency import map_by_frequency
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining, resolve_options
from relexify.evidence.alignment.unsupervised.search import find_map
from relexify.evidence.alignment.unsupervised.self_learning import self_learn
from relexify.evidence.alignment.unsupervised.spaces import (
    fit_pairs,
    frequent_rows,
    mutual_neighbours,
    prepare_space,
    random_rotation,
)
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.lexicon.correspondences import find_correspondences, questions
from relexify.evidence.vectors import VectorTraining, WordVectors
from relexify.evidence.vectors.formats.loading import load_vectors
from relexify.methods.parts.vectors import trained_vectors
from relexify.neighbours import nearest, normalise_rows
from relexify.text import Corpus

CANDIDATES, BACKGROUND = 20_000, 5_000
"""Frequent target words among which translations are searched, and source words by which CSLS recognises hubs."""
SMALL = (25, 100, 500)
"""Source words in small dictionaries."""
FREQUENT = 5_000
"""Highest rank of a word in a small dictionary: somebody who writes one starts with frequent words."""


@dataclass(frozen=True)
class Pair:
    """Two languages, a dictionary to align them with, and one of other words to test that with."""

    source: WordVectors
    target: WordVectors
    train: BilingualLexicon
    test: BilingualLexicon


@dataclass(frozen=True)
class Found:
    """A map [d × d] for row vectors, and whether its search trusts it; None if it has no opinion."""

    matrix: np.ndarray
    note: str = ""
    accepted: bool | None = None


Search = Callable[[Pair, int], Found]
"""Returns the map between two languages for a seed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for side in ("source", "target"):
        given = parser.add_mutually_exclusive_group()
        given.add_argument(f"--{side}-vectors", type=Path, help="a file of word vectors")
        given.add_argument(f"--{side}-corpus", type=Path, help="text to train word vectors on")
    parser.add_argument("--dictionary", type=Path, help="word and translation; without it, languages are generated")
    parser.add_argument("--test", type=Path, help="a dictionary of held-out words")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--restarts", type=int, default=3, help="runs of adversarial training per seed, at most")
    parser.add_argument("--only", nargs="+", default=[""], help="run only the rows whose names contain one of these")
    options = parser.parse_args()
    sides = (options.source_vectors or options.source_corpus, options.target_vectors or options.target_corpus)
    if any(sides) != bool(options.dictionary) or any(sides) != all(sides):
        parser.error("give vectors or text of both languages and a dictionary, or none of them")
    pair = read_pair(options) if options.dictionary else generated_pair()
    test = Test(pair)
    print(
        f"{len(pair.source):,} and {len(pair.target):,} words of width {pair.source.width}; "
        f"{len(test.queries)} words to translate, {len(test.candidates):,} candidates\n"
    )
    print("| map | P@1, % | P@5, % | accepted | CPU seconds | |\n|---|---|---|---|---|---|")
    for name, search, is_random in searches(pair, options.restarts):
        if any(part in name for part in options.only):
            report(name, search, pair, test, options.seeds if is_random else 1)


def searches(pair: Pair, restarts: int) -> Iterator[tuple[str, Search, bool]]:
    """Yield the name of every search, the search, and whether its result depends on the seed."""
    identical = BilingualLexicon.identical(pair.source.words, pair.target.words)
    yield "chance", lambda pair, seed: Found(random_rotation(pair.source.width, np.random.default_rng(seed))), True
    for name, refinement in (("", None), (", self-learning", self_learn)):
        yield f"dictionary{name}", partial(by_dictionary, lexicon=pair.train, refinement=refinement), False
        for size in SMALL:
            yield f"{size} words{name}", partial(by_sample, size=size, refinement=refinement), True
        if len(identical):
            yield f"identical words{name}", partial(by_dictionary, lexicon=identical, refinement=refinement), False
    yield "frequency", by_frequency, False
    axes = AdversarialTraining(frequency_map=False, restarts=0)
    yield "principal axes", partial(by_search, options=axes), True
    adversarial = AdversarialTraining(frequency_map=False, principal_axes=False, restarts=restarts)
    yield "adversarial", partial(by_search, options=adversarial), True
    yield "combined search", partial(by_search, options=AdversarialTraining(restarts=restarts)), True


def report(name: str, search: Search, pair: Pair, test: Test, seeds: int) -> None:
    """Run one search with every seed, and print its row."""
    start = time.process_time()
    found = [search(pair, seed) for seed in range(seeds)]
    seconds = (time.process_time() - start) / seeds
    scores = np.array([test.precision(each.matrix) for each in found])  # [seeds × 2]
    cells = [f"{mean:.1f}" for mean in scores.mean(axis=0)]
    if seeds > 1:
        ranges = zip(scores.min(axis=0), scores.max(axis=0), strict=True)
        cells = [f"{cell} ({low:.1f}–{high:.1f})" for cell, (low, high) in zip(cells, ranges, strict=True)]
    accepted = "" if found[0].accepted is None else f"{sum(bool(each.accepted) for each in found)} of {seeds}"
    print(f"| {name} | {' | '.join(cells)} | {accepted} | {seconds:.1f} | {found[0].note} |", flush=True)


def by_dictionary(pair: Pair, seed: int, *, lexicon: BilingualLexicon, refinement: Refinement | None) -> Found:
    """Procrustes, as `relexify align` does it."""
    rotation = align(pair.source, pair.target, lexicon, refinement=refinement, held_out=0)
    return Found(rotation.matrix, f"{rotation.pairs_used} pairs")


def by_sample(pair: Pair, seed: int, *, size: int, refinement: Refinement | None) -> Found:
    """Procrustes on frequent source words that have vectors on both sides, drawn with all of their translations."""
    known = find_correspondences(pair.train, pair.source.index, pair.target.index)
    frequent = np.unique(known.entry[(known.source < FREQUENT) & (known.target < FREQUENT)])
    words = sorted({pair.train.pairs[entry][0] for entry in frequent})
    chosen = set(np.random.default_rng(seed).permutation(np.array(words, dtype=object))[:size])
    lexicon = BilingualLexicon(tuple(each for each in pair.train.pairs if each[0] in chosen))
    return by_dictionary(pair, seed, lexicon=lexicon, refinement=refinement)


def by_frequency(pair: Pair, seed: int) -> Found:
    """The map by frequency ranks, even if it is not trusted."""
    options = resolve_options(None, pair.source.width)
    left, right = both_sides(pair)
    source, target = prepare_space(left, options, "cpu"), prepare_space(right, options, "cpu")
    words = options.frequency_words
    found = map_by_frequency(source[:words], target[:words], spread=options.frequency_spread)
    mapped = source[: options.judged] @ torch.from_numpy(found.matrix).to(source)
    agreement = mutual_neighbours(mapped, target[: options.judged], options.neighbours)
    note = f"two maps agree on {found.stability:.1%} of the words, in the control on {found.chance:.1%}"
    return Found(fit_pairs(left, right, agreement), note, found.stable)


def by_search(pair: Pair, seed: int, *, options: AdversarialTraining) -> Found:
    """The best map of an unsupervised search, even if it is not trusted."""
    left, right = both_sides(pair)
    found = find_map(left, right, options, insist=False, seed=seed)
    return Found(fit_pairs(left, right, found.agreement), str(found), found.converged)


def both_sides(pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors that an unsupervised search sees [n × d]."""
    options = resolve_options(None, pair.source.width)
    words = max(options.frequent, options.judged or 0)
    return frequent_rows(pair.source, words), frequent_rows(pair.target, words)


class Test:
    """The words to translate, and the candidates among which their translations are searched."""

    def __init__(self, pair: Pair) -> None:
        known = find_correspondences(pair.test, pair.source.index, pair.target.index)
        self.queries, answers = questions(known, np.ones(len(known), bool))
        self.candidates = np.union1d(np.arange(min(CANDIDATES, len(pair.target))), known.target)
        self.answers = [np.searchsorted(self.candidates, sorted(rows)) for rows in answers]
        self.source = pair.source.lookup(pair.source.words)
        self.keys = normalise_rows(pair.target.lookup([pair.target.words[row] for row in self.candidates]))

    def precision(self, matrix: np.ndarray) -> tuple[float, float]:
        """Return P@1 and P@5 by CSLS, in percent."""
        crowding = nearest(self.keys, self.source[:BACKGROUND] @ matrix.astype(np.float32), 10)[1].mean(axis=1)
        queries = normalise_rows(self.source[self.queries] @ matrix.astype(np.float32))
        scores = 2 * queries @ self.keys.T - crowding
        best = np.argsort(-scores, axis=1)[:, :5]
        right = np.array([np.isin(five, answers) for five, answers in zip(best, self.answers, strict=True)])
        return 100 * float(right[:, 0].mean()), 100 * float(right.any(axis=1).mean())


def read_pair(options: argparse.Namespace) -> Pair:
    """Read vectors and dictionaries from files."""
    source, target = (
        load_vectors(file) if file else trained_vectors(Corpus.open(corpus), VectorTraining())
        for file, corpus in (
            (options.source_vectors, options.source_corpus),
            (options.target_vectors, options.target_corpus),
        )
    )
    train = BilingualLexicon.load(options.dictionary)
    if options.test:
        return Pair(source, target, train, BilingualLexicon.load(options.test))
    words = sorted({word.casefold() for word in train.source_words})
    held_out = set(np.random.default_rng(0).permutation(np.array(words, dtype=object))[: len(words) // 5])
    parts = (
        BilingualLexicon(tuple(each for each in train.pairs if (each[0].casefold() in held_out) == is_test))
        for is_test in (False, True)
    )
    return Pair(source, target, *parts)


def generated_pair(words: int = 6_000, width: int = 40, seed: int = 0) -> Pair:
    """Generate two related languages.

    Words lie in clusters. The second language is the first one rotated, with noise and other frequency ranks; a fifth
    of its words has no counterpart, and a tenth is written alike.
    """
    random = np.random.default_rng(seed)
    axes = 1 / np.sqrt(1 + 8 * np.arange(width) / width)
    clusters = random.normal(size=(60, width)) * axes
    member = random.choice(len(clusters), size=words, p=random.dirichlet(np.ones(len(clusters))))
    source = clusters[member] + 0.7 * random.normal(size=(words, width)) * axes
    noise = 0.5 * source.std() * random.normal(size=source.shape)
    related = random.random(words) < 0.8
    target = np.where(related[:, None], source, random.permutation(source)) @ random_rotation(width, random) + noise
    order = np.argsort(np.log(np.arange(words) + 20) + 0.2 * random.normal(size=words))
    spelling = [f"name{row}" if row % 10 == 0 and related[row] else f"t{row}" for row in range(words)]
    names = [f"name{row}" if row % 10 == 0 else f"s{row}" for row in range(words)]
    pairs = [(names[row], spelling[row]) for row in range(words) if related[row]]
    lexicon = [pairs[at] for at in random.permutation(len(pairs))]
    return Pair(
        WordVectors(names, source.astype(np.float32)),
        WordVectors([spelling[row] for row in order], target[order].astype(np.float32)),
        BilingualLexicon(tuple(lexicon[1_000:])),
        BilingualLexicon(tuple(lexicon[:1_000])),
    )


if __name__ == "__main__":
    main()
