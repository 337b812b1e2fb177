"""The demonstration: a real model learns a language that nobody speaks.

English text that ships with Python is relexified word by word into an invented language, so that the true dictionary is
known and every initialisation can be held against the best there could be.
"""

from __future__ import annotations

import random as randomness
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from relexify.evidence.evidence import Evidence
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors import VectorTraining
from relexify.grafting import Graft, add_unigram_prior, graft
from relexify.methods.baselines import random, shuffle
from relexify.methods.copying import neutral, special
from relexify.methods.inputs import Inputs
from relexify.methods.registry import METHODS
from relexify.methods.translations import translations
from relexify.mixture import Mixture, first_of
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.scoring import bits_per_byte
from relexify.storage.files import check_inputs, check_output, write_file, write_folder
from relexify.text import Corpus, InventedLanguage, english_from_python, invent, split_words
from relexify.tokens import train_tokenizer_like
from relexify.training.plan import Training
from relexify.training.run import train

__all__ = ["Demonstration", "DemonstrationResult", "Material", "make_material", "oracle", "run_demonstration"]

TRAINED = ("random", "blend")
"""Initialisations that are trained; the model of the last one is kept."""


@dataclass(frozen=True)
class Demonstration:
    """Options of the demonstration.

    Attributes:
        output: The folder for the text, the dictionary and the model.
        model: The model that learns the language.
        vocab_size: Tokens of the target vocabulary.
        dictionary_size: The number of words in the dictionary that the methods see, the most frequent ones.
        vector_width: Components of a word vector.
        text_bytes: How much of the text to use; all of it if None.
        score_bytes: How much held-out text to score on.
        training: How the transferred model is trained.
        seed: Random seed.
        overwrite: Whether to replace the output folder.
    """

    output: Path
    model: str = "smollm2-135m"
    vocab_size: int = 8_000
    dictionary_size: int = 3_000
    vector_width: int = 100
    text_bytes: int | None = None
    score_bytes: int = 12_288
    training: Training = field(
        default_factory=lambda: Training(
            steps=10,
            batch=8,
            length=128,
            # One rate for all: it would follow from the size of the rows, and random rows are small.
            embedding_learning_rate=1.5e-3,
            held_out_bytes=4_096,
            save_every=10_000,
        )
    )
    seed: int = 0
    overwrite: bool = False


@dataclass(frozen=True)
class Material:
    """The text of a demonstration.

    Attributes:
        english: Paragraphs of English, to train vectors on.
        invented: Other paragraphs, in the invented language.
        held_out: Further paragraphs in the invented language, to score on.
        language: The invented language itself.
        lexicon: The part of its dictionary that the methods see.
    """

    english: list[str]
    invented: list[str]
    held_out: list[str]
    language: InventedLanguage
    lexicon: BilingualLexicon


@dataclass(frozen=True)
class DemonstrationResult:
    """The scores of a demonstration, in bits per byte.

    Attributes:
        before: Before training, by initialisation.
        after: After the same few steps, by initialisation.
        steps: The number of these steps.
        sample: A paragraph of English and the same in the invented language.
        output: The folder with everything.
    """

    before: dict[str, float]
    after: dict[str, float]
    steps: int
    sample: tuple[str, str]
    output: Path


def run_demonstration(
    options: Demonstration, *, report: Callable[[str], None] = lambda text: None
) -> DemonstrationResult:
    """Invent a language, transfer a model to it by several methods, train for a few steps, and score.

    Args:
        options: What to show.
        report: Called with a line of text at the start of each part.
    """
    check_inputs(options.output, options.model)
    check_output(options.output, overwrite=options.overwrite)
    report("inventing a language from the English that ships with Python")
    material = make_material(options.seed, options.dictionary_size, options.text_bytes)
    report(f"loading {options.model}")
    model, source = load_model(options.model), load_tokenizer(options.model)
    target = train_tokenizer_like(source, lambda: material.invented, options.vocab_size)
    mixtures = _mixtures(options, material, model, source, target, report)
    text = "\n".join(material.held_out).encode()[: options.score_bytes].decode(errors="ignore")
    report("scoring every initialisation on held-out text")
    before, trained_from = {}, {}
    for name, mixture in mixtures.items():
        grafted = graft(model, target, mixture, seed=options.seed, copy_inner=False)
        if name in METHODS and METHODS[name].unigram_prior:
            add_unigram_prior(grafted.model, target, material.invented, seed=options.seed)
        before[name] = bits_per_byte(grafted.model, target, text).value
        if name in TRAINED:
            trained_from[name] = grafted
    after = {}
    with TemporaryDirectory() as folder:
        for name, grafted in trained_from.items():
            report(f"training for {options.training.steps} steps, from {name} embeddings")
            trained = _trained(options, material, grafted, Path(folder))
            after[name] = bits_per_byte(load_model(trained), target, text).value
        _save(options, material, trained)
    english = material.english[0][:300]
    sample = (english, material.language.translate(english))
    return DemonstrationResult(before, after, options.training.steps, sample, options.output)


def make_material(seed: int, dictionary_size: int, limit: int | None = None) -> Material:
    """Split the text into three parts that share no paragraph, and relexify two of them."""
    paragraphs = english_from_python(limit)
    randomness.Random(seed).shuffle(paragraphs)
    counts = Counter(word.lower() for paragraph in paragraphs for word in split_words(paragraph) if word[0].isalpha())
    language = invent(counts, seed)
    held, half = len(paragraphs) // 20, len(paragraphs) // 2
    frequent = [word for word, _ in counts.most_common(dictionary_size)]
    lexicon = BilingualLexicon(tuple((word, language.translate(word)) for word in frequent), name="invented dictionary")
    return Material(
        english=paragraphs[half:],
        invented=[language.translate(paragraph) for paragraph in paragraphs[held:half]],
        held_out=[language.translate(paragraph) for paragraph in paragraphs[:held]],
        language=language,
        lexicon=lexicon,
    )


def _mixtures(
    options: Demonstration, material: Material, model: Any, source: Any, target: Any, report: Callable[[str], None]
) -> dict[str, Mixture]:
    report("training word vectors of both languages and aligning them with the dictionary")
    inputs = Inputs(
        source=source,
        target=target,
        evidence=Evidence(
            corpus=Corpus.from_lines(material.invented),
            held_out=Corpus.from_lines(material.held_out),
            source_corpus=Corpus.from_lines(material.english),
            lexicon=material.lexicon,
        ),
        read_embedding=lambda: model.get_input_embeddings().weight.detach().float().cpu().numpy(),
        vectors=VectorTraining(width=options.vector_width),
        seed=options.seed,
    )
    wechsel, blend = (METHODS[name].initialise(inputs) for name in ("wechsel", "blend"))
    rotation = wechsel.rotation
    if rotation and rotation.quality:
        report(f"{rotation.quality.precision:.0%} of held-out dictionary words find their translation")
    return {
        "random": random(source, target),
        "shuffle": shuffle(source, target, seed=options.seed),
        "wechsel": wechsel.mixture,
        "blend": blend.mixture,
        "oracle": oracle(material, source, target),
    }


def oracle(material: Material, source: Any, target: Any) -> Mixture:
    """Return the best possible mixture: the true translations of every word, weighted by its frequency."""
    counts = Counter(word for line in material.invented for word in split_words(line) if word[0].isalpha())
    truth = BilingualLexicon(tuple(material.language.pairs()))
    meanings = translations(source, target, truth, frequencies=counts, whole_words=False)
    return first_of(special(source, target), neutral(source, target), meanings, method="oracle")


def _trained(options: Demonstration, material: Material, grafted: Graft, folder: Path) -> Path:
    """Train the transferred model for a few steps, and return its folder."""
    start, trained = folder / "grafted", folder / "trained"
    grafted.save(start, overwrite=True)
    train(
        start,
        trained,
        Corpus.from_lines(material.invented),
        options.training,
        held_out=Corpus.from_lines(material.held_out),
        overwrite=True,
    )
    return trained


def _save(options: Demonstration, material: Material, trained: Path) -> None:
    """Write the text, the dictionary and the trained model into the output folder."""
    with write_folder(options.output, overwrite=options.overwrite) as folder:
        write_file(folder / "english.txt", "\n".join(material.english) + "\n")
        write_file(folder / "invented.txt", "\n".join(material.invented) + "\n")
        write_file(folder / "held-out.txt", "\n".join(material.held_out) + "\n")
        write_file(
            folder / "dictionary.tsv", "".join(f"{source}\t{target}\n" for source, target in material.lexicon.pairs)
        )
        shutil.copytree(trained, folder / "model")
