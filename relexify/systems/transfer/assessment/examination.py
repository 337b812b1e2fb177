"""What is known about a grafted model before it is scored: its rows, the text, and tests of the evidence."""

from __future__ import annotations

from dataclasses import replace

from relexify.grafting import Graft, row_origins
from relexify.methods.inputs import Inputs
from relexify.methods.registry import METHODS, Initialisation
from relexify.systems.transfer.assessment.bitext import assess_bitext
from relexify.systems.transfer.assessment.dictionary import assess_dictionary
from relexify.systems.transfer.assessment.sampled_text import SampledText
from relexify.systems.transfer.assessment.start import Start, cover_text
from relexify.systems.transfer.options import Transfer, given_evidence
from relexify.systems.transfer.tokenizer.choice import choose_tokenizer

__all__ = ["examine_evidence"]


def examine_evidence(
    options: Transfer, inputs: Inputs, initialisation: Initialisation, grafted: Graft, sampled: SampledText
) -> Start:
    """Test the evidence of a transfer on a sample of text, and count where its rows come from.

    Args:
        options: The transfer.
        inputs: What its method was built from.
        initialisation: The result of the method.
        grafted: The model with these rows.
        sampled: The text in the target language.
    """
    sample = sampled.sample
    origins = row_origins(initialisation.mixture, initialisation.precomputed)
    text, occurrences = cover_text(sample, inputs.source, inputs.target, origins)
    # A method that aligns vectors with the dictionary has tested it on held-out words.
    tests_dictionary = initialisation.rotation is None and METHODS[options.method].takes("target vectors")
    bitext = None
    if METHODS[options.method].takes("bitext"):
        bitext = assess_bitext(inputs, occurrences, sample, mixed=origins == "mixed")
    return Start(
        method=options.method,
        origins=grafted.report.origins,
        fallback=initialisation.mixture.fallback.value,
        alignment=initialisation.rotation.summary() if initialisation.rotation else None,
        bits_per_byte={},
        text=replace(text, whole_bytes=sampled.text.size()),
        dictionary=assess_dictionary(inputs, occurrences) if tests_dictionary else None,
        corpus_bytes=inputs.evidence.corpus.size(),
        given=given_evidence(options),
        bitext=bitext,
        trained_vocabulary=choose_tokenizer(options).is_trained,
    )
