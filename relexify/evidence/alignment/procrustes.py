"""Align the word vectors of two languages with a dictionary: orthogonal Procrustes.

`scipy.linalg` and `scipy.stats` take a second to import, so they are imported only in the functions that need them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import scipy

from relexify.errors import EvidenceError, InputError
from relexify.evidence.alignment.orthogonal import fit_orthogonal
from relexify.evidence.lexicon.correspondences import Correspondences, choose_held_out, find_correspondences, questions
from relexify.evidence.lexicon.lexicon import IDENTICAL_WORDS, BilingualLexicon
from relexify.evidence.lexicon.retrieval import Quality, translation_quality
from relexify.evidence.vectors.word_vectors import WordVectors
from relexify.storage.arrays import load_arrays, save_arrays
from relexify.storage.files import Provenance

__all__ = [
    "Refinement",
    "Rotation",
    "RotationDirection",
    "align",
    "align_randomly",
    "find_reductions",
    "measure_translation_quality",
    "reduce_width",
    "unaligned",
]

logger = logging.getLogger(__name__)

RotationDirection = Literal["source-to-target", "target-to-source"]

Refinement = Callable[[WordVectors, WordVectors, np.ndarray], np.ndarray]
"""Improves a rotation [d × d] of source vectors to target vectors that was fitted to a dictionary."""

MOST_HELD_OUT = 1_500
"""Maximum number of source words in a test of quality, as in the test sets of MUSE."""
FEWEST_HELD_OUT = 10
"""With fewer words, a precision is meaningless and is not measured."""
CANDIDATES = 50_000
"""Number of frequent target words among which translations are searched."""
BACKGROUND = 10_000
"""Number of frequent source words that CSLS compares with: more words take much longer and change little."""
REDUCTION_WORDS = 50_000
"""Number of frequent words whose vectors determine the principal directions."""
PAIRS_PER_COMPONENT = 2
"""A warning is logged if a dictionary gives fewer pairs per dimension."""


@dataclass(frozen=True, eq=False)
class Rotation:
    """A linear map from the vectors of one language into the space of the other.

    Attributes:
        matrix: [from × to], float64, orthogonal if the widths are equal: a row v becomes v @ matrix.
        pairs_used: Number of dictionary entries it was fitted on.
        coverage: The share of dictionary entries with a vector on both sides.
        quality: How well it translates held-out words; None if this was not measured.
        direction: The language whose vectors are rotated into the space of the other.
        source_reduction: The projection [wide × narrow] of source vectors, if they were wider. If source vectors are
            rotated, `matrix` already includes it.
        target_reduction: As `source_reduction`, for target vectors.
    """

    matrix: np.ndarray
    pairs_used: int
    coverage: float
    quality: Quality | None = None
    direction: RotationDirection = "source-to-target"
    source_reduction: np.ndarray | None = None
    target_reduction: np.ndarray | None = None

    def __repr__(self) -> str:
        rows, columns = self.matrix.shape
        quality = "" if self.quality is None else f", precision {self.quality.precision:.3f}"
        return f"Rotation({rows} × {columns}, {self.direction}, {self.pairs_used:,} pairs{quality})"

    @classmethod
    def from_fit(
        cls,
        fitted: np.ndarray,
        direction: RotationDirection,
        *,
        source_reduction: np.ndarray | None,
        target_reduction: np.ndarray | None,
        pairs_used: int,
        coverage: float,
        quality: Quality | None = None,
    ) -> Rotation:
        """Create a rotation in either direction from a map [d × d] of reduced source vectors to reduced target vectors.

        The best map in the other direction is the transpose, because Procrustes has the same singular vectors in both
        directions. The reduction of the rotated language is folded into the matrix.
        """
        forwards = direction == "source-to-target"
        matrix = fitted if forwards else fitted.T
        reduction = source_reduction if forwards else target_reduction
        return cls(
            matrix=matrix if reduction is None else reduction @ matrix,
            pairs_used=pairs_used,
            coverage=coverage,
            quality=quality,
            direction=direction,
            source_reduction=source_reduction,
            target_reduction=target_reduction,
        )

    def apply(self, source: WordVectors, target: WordVectors) -> tuple[WordVectors, WordVectors]:
        """Return the vectors of both languages in one space."""
        if self.direction == "source-to-target":
            return source.rotated(self.matrix), reduce_width(target, self.target_reduction)
        return reduce_width(source, self.source_reduction), target.rotated(self.matrix)

    def summary(self) -> dict[str, Any]:
        """Return everything except the matrices, as plain data."""
        return {
            "width": list(self.matrix.shape),
            "pairs_used": self.pairs_used,
            "coverage": self.coverage,
            "direction": self.direction,
            "quality": asdict(self.quality) if self.quality else None,
        }

    def save(self, path: str | Path, *, provenance: Provenance | None = None) -> Path:
        """Write the rotation as one safetensors file."""
        reductions = {"source_reduction": self.source_reduction, "target_reduction": self.target_reduction}
        arrays = {"matrix": self.matrix} | {name: array for name, array in reductions.items() if array is not None}
        origin = {"provenance": provenance.as_dict()} if provenance else {}
        return save_arrays(path, arrays, {"kind": "rotation", **self.summary(), **origin})

    @classmethod
    def load(cls, path: str | Path) -> Rotation:
        """Read a file that `save` wrote.

        Raises:
            InputError: The file is missing, damaged, or of another kind.
        """
        arrays, facts = load_arrays(path, "rotation")
        for name, array in arrays.items():
            if array.ndim != 2 or array.dtype.kind != "f" or not np.isfinite(array).all():
                raise InputError(f"{path} is damaged ({name} is not a matrix of finite numbers): write it again")
        try:
            if facts["direction"] not in get_args(RotationDirection):
                raise ValueError(f"there is no direction {facts['direction']!r}")
            return cls(
                pairs_used=facts["pairs_used"],
                coverage=facts["coverage"],
                quality=Quality(**facts["quality"]) if facts["quality"] else None,
                direction=facts["direction"],
                **{name: np.array(array) for name, array in arrays.items()},
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not a complete rotation ({error}): write it again") from error


def align(
    source: WordVectors,
    target: WordVectors,
    lexicon: BilingualLexicon,
    *,
    direction: RotationDirection = "source-to-target",
    reduce: bool = False,
    refinement: Refinement | None = None,
    held_out: float = 0.1,
    seed: int = 0,
    warn: bool = True,
    if_swapped: str = "load it with `swapped`",
) -> Rotation:
    """Find the rotation that brings dictionary pairs closest together (orthogonal Procrustes; 3.2, WECHSEL).

    The rotation is fitted on all entries. Its quality is measured with a second rotation, fitted without the held-out
    words.

    Args:
        source: Vectors of the source language.
        target: Vectors of the target language.
        lexicon: Pairs of a source word and a target word.
        direction: The language whose vectors are rotated into the space of the other.
        reduce: If the widths differ, project the wider vectors on their principal directions.
        refinement: Improves the rotation fitted to a small dictionary, such as `self_learn`.
        held_out: Share of the dictionary's source words (at most 1,500) to measure the quality on; 0 to skip this.
        seed: Random seed of the choice of held-out words.
        warn: Whether to warn of too few pairs, and of a rotation that translates nothing.
        if_swapped: What the error about swapped columns recommends.

    Raises:
        InputError: The widths differ and `reduce` is off, `held_out` is not a share, or the columns of the dictionary
            are swapped.
        EvidenceError: No entry of the dictionary has vectors on both sides, or all of these vectors are zero.
    """
    if not 0.0 <= held_out < 1.0:
        raise InputError(f"the held-out share must be at least 0 and less than 1, not {held_out}")
    source_reduction, target_reduction = find_reductions(source, target, reduce)
    narrow_source, narrow_target = reduce_width(source, source_reduction), reduce_width(target, target_reduction)
    pairs = find_correspondences(lexicon, source.index, target.index)
    has_to_suffice = warn and refinement is None
    _check_columns(pairs, lexicon, source, target, if_swapped=if_swapped)
    _check_pairs(pairs, lexicon, width=narrow_target.width, has_to_suffice=has_to_suffice)
    source_vectors = _look_up(narrow_source, np.unique(pairs.source))
    target_vectors = _look_up(narrow_target, np.unique(pairs.target))
    for side, vectors in (("source", source_vectors), ("target", target_vectors)):
        if not vectors.any():
            name = lexicon.name or "the dictionary"
            raise EvidenceError(f"all {side} words of {name} have a vector of zeros: check the {side} vectors")

    def fit(pair_counts: scipy.sparse.csr_array) -> np.ndarray:
        fitted = _fit(source_vectors, target_vectors, pair_counts)
        return fitted if refinement is None else refinement(narrow_source, narrow_target, fitted)

    held = choose_held_out(pairs, held_out, most=MOST_HELD_OUT, seed=seed)
    quality = None
    if len(np.unique(pairs.word[held])) >= FEWEST_HELD_OUT:
        quality = _quality(narrow_source.rotated(fit(pairs.pair_counts(~held))), narrow_target, pairs, held)
        if warn and not max(quality.precision, quality.csls_precision):
            logger.warning(
                "the rotation translates none of %d held-out words, so it may be no better than a random one: the two "
                "sets of vectors may have too little in common; give %s dictionary, or vectors of more text",
                quality.words,
                "a" if lexicon.name == IDENTICAL_WORDS else "a larger",
            )
    return Rotation.from_fit(
        fit(pairs.pair_counts()),
        direction,
        source_reduction=source_reduction,
        target_reduction=target_reduction,
        pairs_used=pairs.entries_used,
        coverage=pairs.coverage,
        quality=quality,
    )


def align_randomly(
    source: WordVectors, target: WordVectors, *, lexicon: BilingualLexicon | None = None, seed: int = 0
) -> Rotation:
    """Draw a rotation at random, as a control in which the vectors of the two languages are unrelated.

    If the widths differ, the wider vectors are projected on their principal directions.

    Args:
        source: Vectors of the source language.
        target: Vectors of the target language.
        lexicon: If given, the quality is measured on it.
        seed: Random seed.
    """
    from scipy.stats import ortho_group

    source_reduction, target_reduction = find_reductions(source, target, reduce=True)
    narrow_source, narrow_target = reduce_width(source, source_reduction), reduce_width(target, target_reduction)
    drawn = ortho_group.rvs(narrow_target.width, random_state=np.random.default_rng(seed))
    quality = None
    if lexicon is not None:
        quality = measure_translation_quality(narrow_source.rotated(drawn), narrow_target, lexicon, seed=seed)
    return Rotation.from_fit(
        drawn,
        "source-to-target",
        source_reduction=source_reduction,
        target_reduction=target_reduction,
        pairs_used=0,
        coverage=0.0,
        quality=quality,
    )


def unaligned(
    source: WordVectors, target: WordVectors, *, lexicon: BilingualLexicon | None = None, seed: int = 0
) -> Rotation:
    """Return the identity rotation, for vectors that are already in one space.

    Args:
        source: Vectors of the source language.
        target: Vectors of the target language.
        lexicon: If given, the quality is measured on it.
        seed: Random seed of the choice of words.

    Raises:
        InputError: The widths differ.
    """
    find_reductions(source, target, reduce=False)
    quality = None if lexicon is None else measure_translation_quality(source, target, lexicon, seed=seed)
    return Rotation(np.eye(source.width), pairs_used=0, coverage=0.0, quality=quality)


def measure_translation_quality(
    source: WordVectors, target: WordVectors, lexicon: BilingualLexicon, *, seed: int = 0
) -> Quality | None:
    """Measure how well vectors in one space translate a dictionary that they were not aligned with.

    Args:
        source: Vectors of the source language, in the common space.
        target: Vectors of the target language, in the common space.
        lexicon: Pairs to test; at most 1,500 source words are used.
        seed: Random seed of the choice of words.

    Returns:
        The quality, or None if fewer than ten words have vectors on both sides.
    """
    pairs = find_correspondences(lexicon, source.index, target.index)
    tested = choose_held_out(pairs, 1.0, most=MOST_HELD_OUT, seed=seed)
    if len(np.unique(pairs.word[tested])) < FEWEST_HELD_OUT:
        return None
    return _quality(source, target, pairs, tested)


def find_reductions(
    source: WordVectors, target: WordVectors, reduce: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return projections [wide × narrow] of source and target to the same width; None for a side that needs none.

    Raises:
        InputError: The widths differ and `reduce` is off.
    """
    if source.width == target.width:
        return None, None
    if not reduce:
        raise InputError(
            f"the source vectors have {source.width} components and the target vectors {target.width}: use vectors of "
            "the same width, or project the wider ones (`reduce`)"
        )
    if source.width > target.width:
        return _principal_directions(source, target.width), None
    return None, _principal_directions(target, source.width)


def _principal_directions(vectors: WordVectors, width: int) -> np.ndarray:
    """Return the projection [wide × width] that keeps most of the second moment of the frequent words' vectors.

    The vectors are not centred, because a shift could not be folded into the rotation matrix, and the cosines that are
    used later are not centred either.
    """
    from scipy.linalg import eigh

    frequent = vectors.lookup(vectors.words[:REDUCTION_WORDS]).astype(np.float64)
    moments = frequent.T @ frequent
    _, directions = eigh(moments, subset_by_index=[len(moments) - width, len(moments) - 1])
    return np.ascontiguousarray(directions[:, ::-1])


def reduce_width(vectors: WordVectors, reduction: np.ndarray | None) -> WordVectors:
    """Return the vectors after a projection, if there is one."""
    return vectors if reduction is None else vectors.rotated(reduction)


def _check_columns(
    pairs: Correspondences, lexicon: BilingualLexicon, source: WordVectors, target: WordVectors, *, if_swapped: str
) -> None:
    """Validate that the columns of the dictionary are not swapped."""
    found = pairs.entries_used
    swapped = find_correspondences(lexicon.swapped(), source.index, target.index).entries_used
    if swapped >= max(10, 3 * found) or (not found and swapped):
        raise InputError(
            f"the columns of {lexicon.name or 'the dictionary'} look swapped: {found} of {len(lexicon)} entries fit "
            f"the vectors as they are, but {swapped} the other way round; {if_swapped}"
        )


def _check_pairs(pairs: Correspondences, lexicon: BilingualLexicon, *, width: int, has_to_suffice: bool) -> None:
    """Validate that the dictionary fits the vectors; if it has to suffice, warn of few pairs."""
    found, name = pairs.entries_used, lexicon.name or "the dictionary"
    if not found:
        raise EvidenceError(
            f"none of the {len(lexicon)} entries of {name} has a vector on both sides: check that it has the same "
            "languages as the vectors, in this order and in the same script"
        )
    if has_to_suffice and found < PAIRS_PER_COMPONENT * width:
        remedy = "give a larger dictionary, extend it by self-learning, or add words that both languages write alike"
        if lexicon.name == IDENTICAL_WORDS:
            remedy = "give a dictionary to a method that takes one, or extend these words by self-learning"
        logger.warning(
            "only %s entries of %s have vectors on both sides, and a rotation of width %d needs at least %d: %s",
            f"{found} of {len(lexicon)}" if found < len(lexicon) else found,
            name,
            width,
            PAIRS_PER_COMPONENT * width,
            remedy,
        )


def _look_up(vectors: WordVectors, rows: np.ndarray) -> np.ndarray:
    return vectors.lookup([vectors.words[row] for row in rows])


def _fit(source: np.ndarray, target: np.ndarray, pair_counts: scipy.sparse.csr_array) -> np.ndarray:
    """Solve the orthogonal Procrustes problem, [d × d].

    With S and T the stacked vectors of all pairs, the solution depends only on SᵀT = UᵀCV, where U and V hold the
    vectors of the distinct words, and C counts how often two words form a pair. Each word is therefore looked up once,
    and the stacks with their many repeated rows are never built.

    Args:
        source: U, [s × d].
        target: V, [t × d].
        pair_counts: C, [s × t].
    """
    return fit_orthogonal(source, pair_counts @ target.astype(np.float64))


def _quality(rotated: WordVectors, target: WordVectors, pairs: Correspondences, held: np.ndarray) -> Quality:
    """Translate the held-out words; candidates are the frequent target words and all correct answers."""
    queries, answers = questions(pairs, held)
    candidates = np.union1d(np.arange(min(CANDIDATES, len(target))), pairs.target[held])
    return translation_quality(
        _look_up(rotated, queries),
        _look_up(target, candidates),
        rotated.lookup(rotated.words[:BACKGROUND]),
        [frozenset(np.searchsorted(candidates, sorted(rows)).tolist()) for rows in answers],
    )
