"""CLP and OMP, which read a model of the target language, against the papers' equations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from relexify.errors import EvidenceError, InputError
from relexify.evidence.vectors import SubwordVectors
from relexify.methods.clp import clp
from relexify.methods.omp import MatchingPursuit, matching_pursuit, omp
from relexify.methods.parts.copying import shared
from relexify.mixture import Origin
from relexify.processes import PROCESSES
from relexify.storage.json import read_json
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.run import run_transfer
from relexify.tokens import vocabulary_of
from tests import pico
from tests.processes import count_started

SOURCE_TOKENIZER = pico.byte_level()
TARGET_TOKENIZER = pico.byte_level(pico.sentences(words=pico.foreign_words(), seed=3))
SOURCE, TARGET = vocabulary_of(SOURCE_TOKENIZER), vocabulary_of(TARGET_TOKENIZER)
WORDS = [id for id, form in enumerate(TARGET.forms) if form.starts_word and len(form.text) > 3]
SPECIAL = np.array([form.is_special for form in TARGET.forms])


@pytest.fixture
def donor():
    """Rows that share a direction, as those of trained models do."""
    matrix = 1 + np.random.default_rng(0).standard_normal((len(TARGET), 12)).astype(np.float32)
    matrix[SPECIAL] = 0
    matrix[WORDS[1]] = 0
    return SubwordVectors(TARGET, matrix, matrix.any(axis=1))


@pytest.fixture
def embedding():
    return np.random.default_rng(1).standard_normal((len(SOURCE), 8)).astype(np.float32)


def anchors_of(donor):
    """Target and source ids of the tokens that both vocabularies have."""
    copied = shared(SOURCE, TARGET)
    ids = np.flatnonzero(copied.known & donor.covered)
    return ids, copied.weights[ids].indices


def test_clp_weighs_every_shared_token_by_its_cosine_in_the_donor(donor, embedding):
    built = clp(SOURCE_TOKENIZER, donor, embedding, output=2 * embedding)
    ids, sources = anchors_of(donor)
    assert built.precomputed is not None
    assert not set(built.precomputed.ids) & set(ids)
    for position, id in enumerate(built.precomputed.ids):
        expected, total = np.zeros(8), 0.0
        for anchor, source in zip(ids, sources, strict=True):
            one, other = donor.matrix[id].astype(float), donor.matrix[anchor].astype(float)
            cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
            expected += cosine * embedding[source]
            total += cosine
        assert np.allclose(built.precomputed.vectors[position], expected / total, atol=1e-4)
    assert np.allclose(built.precomputed.output, 2 * built.precomputed.vectors, atol=1e-4)
    assert WORDS[0] in built.precomputed.ids


def test_clp_copies_shared_tokens_and_leaves_tokens_without_a_donor_row(donor, embedding):
    built = clp(SOURCE_TOKENIZER, donor, embedding)
    ids, sources = anchors_of(donor)
    assert built.mixture.sources(ids[0]) == [(SOURCE.tokens[sources[0]], 1.0)]
    assert WORDS[1] not in built.precomputed.ids
    assert not built.mixture.known[WORDS[1]]
    assert built.mixture.origin[TARGET_TOKENIZER.eos_token_id] == Origin.SPECIAL


def test_clp_leaves_out_a_token_that_is_opposed_to_the_shared_ones(donor, embedding):
    matrix = donor.matrix.copy()
    matrix[WORDS[0]] *= -1
    built = clp(SOURCE_TOKENIZER, replace(donor, matrix=matrix), embedding)
    assert WORDS[0] not in built.precomputed.ids
    assert WORDS[2] in built.precomputed.ids


@pytest.mark.parametrize(("cosine", "is_mixed"), [(0.02, True), (0.005, False)])
def test_clp_divides_by_the_cosines_if_their_mean_is_a_hundredth_or_more(donor, embedding, cosine, is_mixed):
    matrix = np.zeros_like(donor.matrix)
    matrix[anchors_of(donor)[0], 0] = 1
    matrix[WORDS[0], :2] = cosine, 1
    built = clp(SOURCE_TOKENIZER, replace(donor, matrix=matrix, covered=matrix.any(axis=1)), embedding)
    assert built.precomputed.ids.tolist() == ([WORDS[0]] if is_mixed else [])


def pursue_by_definition(signal, atoms, count):
    """Take the atom with the largest product with the residual, and fit all of them again."""
    chosen: list[int] = []
    fitted, residual = np.zeros(0), signal
    for _ in range(count):
        products = np.abs(atoms @ residual)
        products[chosen] = -1
        chosen.append(int(products.argmax()))
        fitted = np.linalg.lstsq(atoms[chosen].T, signal, rcond=None)[0]
        residual = signal - fitted @ atoms[chosen]
    return chosen, fitted


def test_matching_pursuit_takes_the_atoms_and_coefficients_of_the_definition():
    draw = np.random.default_rng(2)
    atoms = draw.standard_normal((300, 24)) * draw.uniform(0.5, 2, (300, 1))
    signals = draw.standard_normal((5, 24))
    found, coefficients = matching_pursuit(signals, atoms, 6)
    for row, signal in enumerate(signals):
        chosen, fitted = pursue_by_definition(signal, atoms, 6)
        assert found[row].tolist() == chosen
        assert np.allclose(coefficients[row], fitted, atol=1e-4)


def test_matching_pursuit_finds_the_same_bits_with_several_processes(monkeypatch):
    draw = np.random.default_rng(3)
    atoms, signals = draw.standard_normal((500, 40)), draw.standard_normal((150, 40))
    alone = matching_pursuit(signals, atoms, 12)
    monkeypatch.setenv(PROCESSES, "2")
    started = count_started(monkeypatch)
    together = matching_pursuit(signals, atoms, 12)
    assert len(started) == 2
    for here, there in zip(alone, together, strict=True):
        assert np.array_equal(here, there)


def test_matching_pursuit_does_not_depend_on_the_size_of_the_rows():
    draw = np.random.default_rng(4)
    atoms, signals = draw.standard_normal((100, 8)), draw.standard_normal((5, 8))
    found, coefficients = matching_pursuit(signals, atoms, 4)
    small = 2.0**-14  # a power of two, so that only exponents change
    small_found, small_coefficients = matching_pursuit(small * signals, small * atoms, 4)
    assert np.array_equal(small_found, found)
    assert np.array_equal(small_coefficients, coefficients)


def test_matching_pursuit_of_no_signal_has_no_row():
    chosen, coefficients = matching_pursuit(np.zeros((0, 4)), np.eye(4), 2)
    assert chosen.shape == coefficients.shape == (0, 2)


def test_matching_pursuit_stops_at_an_exact_combination():
    atoms = np.eye(5)
    found, coefficients = matching_pursuit(np.array([[0, 3.0, 0, -1.0, 0], [0, 0, 0, 0, 0]]), atoms, 4)
    assert found[0, :2].tolist() == [1, 3]
    assert coefficients[0] == pytest.approx([3, -1, 0, 0])
    assert not coefficients[1].any()


def test_omp_applies_the_coefficients_of_donor_rows_to_source_rows(donor):
    mixture = omp(SOURCE_TOKENIZER, donor, options=MatchingPursuit(atoms=5))
    ids, sources = anchors_of(donor)
    chosen, fitted = pursue_by_definition(donor.matrix[WORDS[0]].astype(float), donor.matrix[ids].astype(float), 5)
    expected = {SOURCE.tokens[sources[index]]: weight for index, weight in zip(chosen, fitted, strict=True)}
    assert dict(mixture.sources(WORDS[0])) == pytest.approx(expected, abs=1e-4)
    assert min(expected.values()) < 0
    assert mixture.sources(ids[0]) == [(SOURCE.tokens[sources[0]], 1.0)]
    assert not mixture.known[WORDS[1]]


def test_a_limit_on_anchors_leaves_out_those_with_high_ids(donor):
    mixture = omp(SOURCE_TOKENIZER, donor, options=MatchingPursuit(atoms=3, anchors=4))
    _, sources = anchors_of(donor)
    allowed = {SOURCE.tokens[source] for source in sources[:4]}
    assert {token for token, _ in mixture.sources(WORDS[0])} <= allowed


def test_a_donor_without_a_shared_token_is_rejected(donor, embedding):
    ids, _ = anchors_of(donor)
    covered = donor.covered.copy()
    covered[ids] = False
    for build in (lambda vectors: omp(SOURCE_TOKENIZER, vectors), lambda vectors: clp(SOURCE, vectors, embedding)):
        with pytest.raises(EvidenceError, match="other evidence"):
            build(replace(donor, covered=covered))


@pytest.mark.parametrize("method", ["clp", "omp"])
def test_a_transfer_takes_tokenizer_and_rows_of_the_donor(method, tmp_path, cache):
    pico.saved("gpt2", tmp_path / "model")
    model = pico.llama(TARGET_TOKENIZER)
    model.get_input_embeddings().weight.data += 0.1  # rows of trained models share a direction
    model.save_pretrained(tmp_path / "donor")
    TARGET_TOKENIZER.save_pretrained(tmp_path / "donor")
    (tmp_path / "target.txt").write_text("\n".join(pico.sentences(200, words=pico.foreign_words())))
    options = Transfer(
        str(tmp_path / "model"), tmp_path / "out", tmp_path / "target.txt", method=method, donor=str(tmp_path / "donor")
    )
    result = run_transfer(replace(options, score=False))
    assert "donor" in read_json(tmp_path / "out" / "relexify.json")["provenance"]["inputs"]
    assert result.graft.tokenizer.get_vocab() == TARGET_TOKENIZER.get_vocab()
    assert result.graft.report.origins["mixed" if method == "omp" else "precomputed"] > 50
    with pytest.raises(InputError, match="a model of the target language"):
        run_transfer(replace(options, donor=None, output=tmp_path / "other"))
