"""The demonstration: a real model learns a language that nobody speaks.

English text that ships with Python is relexified word by word into an invented language. So the true dictionary is
known: an initialisation can be compared with one that knows every word, and what the model writes can be read.
"""

from __future__ import annotations

import json
import random as randomness
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from relexify.device import resolve_device
from relexify.evidence.lexicon import BilingualLexicon
from relexify.pretrained.files.packaged import PACKAGED
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.progress import report_under
from relexify.reports import Comparison, write_report
from relexify.scoring import bits_per_byte, sample_size
from relexify.storage.documents import without_documents, write_documents
from relexify.storage.files import MARKER, check_output, write_file, write_folder
from relexify.storage.notes import read_notes
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.run import run_transfer
from relexify.text import Corpus, InventedLanguage, english_from_python, invent, split_words
from relexify.training.options import Training
from relexify.training.run import train

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["Demonstration", "DemonstrationResult", "Material", "Sample", "make_material", "run_demonstration"]

KEPT = "blend"
"""The run whose model is kept."""
_TEXT, _HELD_OUT = "invented.txt", "held-out.txt"
"""Files of the output with the text of the invented language."""
_PROMPT_WORDS, _WRITTEN_TOKENS = 8, 24


@dataclass(frozen=True)
class Demonstration:
    """Options of the demonstration.

    Attributes:
        output: The folder for the text, the dictionary, the model and the report.
        model: The model that learns the language.
        vocab_size: Tokens of the target vocabulary.
        dictionary_size: The number of words in the dictionary that the methods see, the most frequent ones.
        text_bytes: How much of the text to use; default: all of it.
        training: How the transferred models are trained.
        seed: Random seed.
        overwrite: Whether to replace the output folder.
    """

    output: Path
    model: str = "smollm2-135m"
    vocab_size: int = 8_000
    dictionary_size: int = 3_000
    text_bytes: int | None = None
    training: Training = field(
        default_factory=lambda: Training(
            steps=6, batch=8, length=64, evaluate_every=3, held_out_bytes=4_096, save_every=10_000
        )
    )
    seed: int = 0
    overwrite: bool = False


@dataclass(frozen=True)
class Material:
    """The text of a demonstration.

    Attributes:
        english: Paragraphs of English, for methods that train vectors on it.
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
class Sample:
    """Text that a model wrote.

    Attributes:
        text: The continuation of the prompt, in the invented language.
        gloss: The text word by word in English.
    """

    text: str
    gloss: str


@dataclass(frozen=True)
class DemonstrationResult:
    """The result of a demonstration.

    Attributes:
        comparison: The scores of the runs along their training, in bits per byte.
        original: Bits per byte of the original model with its own tokenizer, on the same text.
        oracle: Bits per byte before training of a model that was transferred like the kept one, but with the
            translation of every word.
        prompt: The beginning of a held-out paragraph, as written and in English.
        before: How the transferred model continues it.
        after: How it continues it after its training.
        output: The folder with everything.
    """

    comparison: Comparison
    original: float
    oracle: float
    prompt: Sample
    before: Sample
    after: Sample
    output: Path


def run_demonstration(
    options: Demonstration, *, report: Callable[[str], None] = lambda text: None
) -> DemonstrationResult:
    """Invent a language, transfer a model to it with and without a dictionary, train for a few steps, and compare.

    Args:
        options: The model, the sizes of text and dictionary, and the training.
        report: Called with a line of text at the start of each part.
    """
    check_output(options.output, options.model, overwrite=options.overwrite)
    report("1 of 5: inventing a language from the English that ships with Python")
    material = make_material(options.seed, options.dictionary_size, options.text_bytes)
    title = PACKAGED[options.model].title if options.model in PACKAGED else options.model
    report(f"2 of 5: scoring {title}, with its own tokenizer")
    original = _score(load_model(options.model), load_tokenizer(options.model), options, material)
    corpus, held_out = Corpus.from_lines(material.invented), Corpus.from_lines(material.held_out)
    transfer = Transfer(
        model=options.model,
        output=options.output,
        corpus=corpus,
        held_out=held_out,
        vocab_size=options.vocab_size,
        score=False,
        seed=options.seed,
    )
    prompt = _choose_prompt(material.held_out)
    curves, samples = {}, {}
    with write_folder(options.output, overwrite=options.overwrite) as folder:
        _write_material(material, folder)
        for part, name, dictionary in ((3, "random", None), (4, KEPT, material.lexicon)):
            report(
                f"{part} of 5: transferring it with the method {name}, and training it {options.training.steps} steps"
            )
            start, end = folder / f"{name}.start", folder / ("model" if name == KEPT else f"{name}.end")
            with report_under(name), without_documents():
                graft = run_transfer(replace(transfer, output=start, method=name, dictionary=dictionary)).graft
                result = train(start, end, folder / _TEXT, options.training, held_out=folder / _HELD_OUT)
            curves[name] = (result.curve,)
            if name == KEPT:
                samples["before"] = _continue(graft.model, graft.tokenizer, prompt, material.language)
                samples["after"] = _continue(load_model(end), load_tokenizer(end), prompt, material.language)
                _name_texts(end, options.output)
            else:
                shutil.rmtree(end)
            shutil.rmtree(start)
        report("5 of 5: scoring the oracle, which is given the translation of every word")
        truth = BilingualLexicon(tuple(material.language.pairs()), name="true dictionary")
        with without_documents():
            graft = run_transfer(replace(transfer, output=folder / "oracle", dictionary=truth)).graft
        oracle = _score(graft.model, graft.tokenizer, options, material)
        shutil.rmtree(folder / "oracle")
        scores = {"original model and tokenizer": original, "oracle before training": oracle}
        notes = {"model": title, "seed": options.seed}
        notes |= {name: f"{score:.3f} bits per byte" for name, score in scores.items()}
        comparison = Comparison("An invented language", curves, notes)
        write_report(comparison, folder)
    write_documents(options.output / "model")
    return DemonstrationResult(
        comparison=comparison,
        original=original,
        oracle=oracle,
        prompt=Sample(prompt, material.language.gloss(prompt)),
        before=samples["before"],
        after=samples["after"],
        output=options.output,
    )


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


def _choose_prompt(paragraphs: Sequence[str]) -> str:
    """Return the beginning of a sentence of prose; after its end, a model would rightly write nothing."""
    prose = [paragraph.split() for paragraph in paragraphs if not paragraph.isupper()]
    words = next((words for words in prose if len(words) > 2 * _PROMPT_WORDS), prose[0])
    return " ".join(words[:_PROMPT_WORDS])


def _write_material(material: Material, folder: Path) -> None:
    """Write the texts and the dictionary, for the user to look at."""
    texts = {"english.txt": material.english, _TEXT: material.invented, _HELD_OUT: material.held_out}
    for file, lines in texts.items():
        write_file(folder / file, "\n".join(lines) + "\n")
    entries = [f"{source}\t{target}\n" for source, target in material.lexicon.pairs]
    write_file(folder / "dictionary.tsv", "".join(entries))


def _name_texts(model: Path, output: Path) -> None:
    """Record where the text of a model's training will be found, for the next command in its report.

    During the demonstration, it is in a temporary folder, which becomes the output.
    """
    notes = read_notes(model)
    texts = {"corpus": _TEXT, "held_out": _HELD_OUT}
    notes["training"]["command"] |= {name: [str(output.absolute() / file)] for name, file in texts.items()}
    write_file(model / MARKER, json.dumps(notes, indent=2, ensure_ascii=False) + "\n")


def _score(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, options: Demonstration, material: Material
) -> float:
    """Return the bits per byte of a model, on the text and in the windows that training scores."""
    device = resolve_device("auto")  # that of the training
    text = Corpus.from_lines(material.held_out).sample_bytes(sample_size(options.training.held_out_bytes, device))
    return bits_per_byte(model, tokenizer, text, window=options.training.length).value


def _continue(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, prompt: str, language: InventedLanguage
) -> Sample:
    """Let a model continue a prompt, with the most probable token each time but with a penalty for repetitions."""
    inputs = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
    written = model.eval().generate(
        input_ids=inputs.input_ids,
        attention_mask=inputs.attention_mask,
        min_new_tokens=_WRITTEN_TOKENS,
        max_new_tokens=_WRITTEN_TOKENS,
        do_sample=False,
        repetition_penalty=1.2,
        pad_token_id=tokenizer.pad_token_id or tokenizer.eos_token_id,
    )
    text = tokenizer.decode(written[0, inputs.input_ids.shape[1] :], skip_special_tokens=True)
    text = " ".join(text.split())
    return Sample(text, language.gloss(text))
