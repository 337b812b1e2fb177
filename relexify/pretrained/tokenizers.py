"""Train a tokenizer of the same type as another, save tokenizers, and read their chat templates."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tokenizers import Tokenizer
from transformers import PreTrainedConfig, PreTrainedTokenizerFast

from relexify.errors import InputError, first_line
from relexify.pretrained.loading import load_tokenizer
from relexify.pretrained.names import resolve
from relexify.text import Corpus
from relexify.tokens import (
    backend_of,
    copy_backend,
    keep_marks,
    lower_dotless_i,
    needs_marks,
    train_joint_wordpiece,
    train_tokenizer_like,
)

__all__ = [
    "check_encoding",
    "default_system_prompt",
    "save_tokenizer",
    "train_joint_tokenizer",
    "train_tokenizer",
]

MOST_TEXT = 500_000_000
"""Maximum size of the text that a tokenizer is trained on, in bytes."""
SAMPLED_TEXT = 500_000
"""Number of characters sampled throughout a text to find out whether it has combining marks or an ı."""
_MESSAGE = "\u2063message\u2063"
"""A placeholder message that occurs in no chat template."""
_LOADING = ("is_local", "local_files_only")
"""Options of `from_pretrained` that describe the loading rather than the tokenizer."""
_SENTENCE = re.compile(r"[^<>|\n]*\w+ +\w+ +\w+[^<>|\n]*")
"""At least three consecutive words: names of roles and special tokens are shorter."""
_SETTINGS = (
    "add_prefix_space",
    "chat_control_tokens",
    "chat_template",
    "clean_up_tokenization_spaces",
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output",
    "extra_special_tokens",
    "model_input_names",
    "model_max_length",
    "padding_side",
    "response_template",
    "split_special_tokens",
    "truncation_side",
)
"""Settings that every tokenizer class has, in addition to the special tokens."""

logger = logging.getLogger(__name__)


def train_tokenizer(
    corpus: str | Path | Corpus,
    *,
    like: str | Path | PreTrainedTokenizerFast,
    vocab_size: int,
    config: PreTrainedConfig | None = None,
) -> PreTrainedTokenizerFast:
    """Train a tokenizer for the language of a corpus, of the same type as another tokenizer.

    If a corpus has more than `MOST_TEXT` bytes, a sample is used, because all distinct words must fit into memory.

    If the text has combining marks, the trained tokenizer neither splits words at them nor deletes them, even if the
    other tokenizer does. If the text distinguishes i and ı, an uncased tokenizer keeps them distinct too. For some
    models, however, transformers would not load such a changed tokenizer as it was saved; then the tokenizer treats
    text like the other tokenizer.

    Args:
        corpus: Anything that `Corpus.open` accepts: text, compressed text, jsonl, parquet, a folder, `hf:NAME`.
        like: The other tokenizer, or its name.
        vocab_size: Number of tokens in the vocabulary, including special tokens.
        config: Config of the model that the tokenizer is for.
    """
    whole = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
    text = whole.bounded(MOST_TEXT)
    pattern = load_tokenizer(like) if isinstance(like, str | Path) else like
    sample = text.sample_throughout(SAMPLED_TEXT)
    for adapted, good, bad in (
        (
            keep_marks,
            "the text has combining marks: the tokenizer will neither split words at them nor delete them",
            "splits words at combining marks or deletes them, so the text needs more tokens",
        ),
        (
            lower_dotless_i,
            "the text distinguishes i and ı: the tokenizer will lower-case I to ı and İ to i",
            "lower-cases I and İ to the wrong letters, so words differ at the start of a sentence",
        ),
    ):
        if (backend := adapted(backend_of(pattern), sample)) is None:
            continue
        changed = _wrapped(backend, pattern, unk_token=pattern.unk_token)
        if config is None or _is_loaded_unchanged(changed, config):
            logger.info(good)
            pattern = changed
        else:
            logger.warning(
                "the tokenizer %s; this cannot be changed, because transformers would undo it for models of type %s",
                bad,
                config.model_type,
            )
    return train_tokenizer_like(pattern, lambda: iter(text), vocab_size, size=text.size())


def train_joint_tokenizer(
    corpora: Sequence[str | Path | Corpus],
    *,
    like: str | Path | PreTrainedTokenizerFast,
    vocab_size: int,
    alphabet: int = 1_000,
    lowercase: bool = False,
) -> PreTrainedTokenizerFast:
    """Train one WordPiece tokenizer for several languages, with the special tokens of another (TreLM, section 4.1).

    Args:
        corpora: The text of each language, as for `train_tokenizer`.
        like: The tokenizer of the model, of any family, or its name.
        vocab_size: Number of tokens in the vocabulary, including special tokens.
        alphabet: Maximum number of distinct characters; rarer ones become unknown.
        lowercase: Convert text to lower case and remove accents. Accents are kept if a text has many combining marks,
            such as the vowels of Hindi and Thai, or the accents of Vietnamese.

    Raises:
        InputError: The vocabulary is too small for the alphabet and the special tokens.
        EvidenceError: The corpora contain no text.
    """
    texts = [corpus if isinstance(corpus, Corpus) else Corpus.open(corpus) for corpus in corpora]
    pattern = load_tokenizer(like) if isinstance(like, str | Path) else like
    strips = lowercase
    if lowercase and any(needs_marks(text.sample_throughout(SAMPLED_TEXT)) for text in texts):
        logger.info("the text has combining marks: the joint vocabulary is in lower case, but keeps them")
        strips = False
    trained = train_joint_wordpiece(
        pattern,
        [text.__iter__ for text in texts],
        vocab_size,
        alphabet=alphabet,
        lowercase=lowercase,
        strip_accents=strips,
    )
    return _wrapped(trained, pattern, unk_token=trained.model.unk_token)


def check_encoding(tokenizer: PreTrainedTokenizerFast, name: str, config: PreTrainedConfig, text: str) -> None:
    """Validate that a tokenizer encodes a text in the same way when it is loaded from the folder of a model.

    transformers chooses the class of a tokenizer by the type of the model in the same folder. Some classes use only the
    vocabulary of the file: Qwen2's class replaces normaliser and pre-tokeniser. If this already happens when the
    tokenizer is loaded from its own folder, a warning is logged.

    Args:
        tokenizer: The loaded tokenizer.
        name: The name of the tokenizer, as for `load_tokenizer`.
        config: Config of the model that the tokenizer will be used with.
        text: The text to encode.

    Raises:
        InputError: Loaded from the model's folder, the tokenizer would encode the text differently.
    """
    file = Path(resolve(name)) / "tokenizer.json"
    # A copy, because the file may have truncation and padding, which encoding here does not use.
    if file.is_file() and (
        example := _difference(copy_backend(Tokenizer.from_file(str(file))), backend_of(tokenizer), text)
    ):
        logger.warning(
            "transformers loads %s as %s, which encodes some text differently from the file, such as %r",
            file,
            type(tokenizer).__name__,
            example,
        )
    reason = ""
    try:
        loaded = _reloaded(tokenizer, config)
    except InputError as error:
        reason = f"could not load it ({first_line(error.__cause__ or error)})"
    else:
        if example := _difference(backend_of(tokenizer), backend_of(loaded), text):
            reason = f"would load it as {type(loaded).__name__}, which encodes text differently, such as {example!r}"
    if reason:
        raise InputError(
            f"the tokenizer of {name} cannot be used with a model of type {config.model_type}: in the folder of the "
            f"model, transformers {reason}; give no tokenizer, so that one is trained, or give a tokenizer of a model "
            "of this type"
        )


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write the files of a tokenizer.

    Raises:
        OSError: The files cannot be written. A plain `Exception` of the package tokenizers is converted to this type.
    """
    options = tokenizer.init_kwargs
    # transformers would also save the options with which the tokenizer was loaded on this machine.
    tokenizer.init_kwargs = {name: value for name, value in options.items() if name not in _LOADING}
    try:
        tokenizer.save_pretrained(folder)
    except Exception as error:
        if type(error) is Exception:
            raise OSError(str(error)) from error
        raise
    finally:
        tokenizer.init_kwargs = options


def default_system_prompt(tokenizer: PreTrainedTokenizerFast) -> str | None:
    """Return the system prompt that the chat template puts before the first user message by default.

    Returns:
        The prompt, in the source model's language; None if there is no template, or if it adds only names of roles and
        special tokens.
    """
    if not tokenizer.chat_template:
        return None
    try:
        chat = str(tokenizer.apply_chat_template([{"role": "user", "content": _MESSAGE}], tokenize=False))
    except Exception:  # the template is a program: it may need more than one user message, or be damaged
        return None
    sentence = _SENTENCE.search(chat.partition(_MESSAGE)[0])
    return sentence[0].strip() if sentence else None


def _difference(first: Tokenizer, second: Tokenizer, text: str) -> str:
    """Return the first characters that two tokenizers encode differently; an empty string if there are none."""
    lines = text.split("\n")
    encoded = [backend.encode_batch(lines, add_special_tokens=False) for backend in (first, second)]
    for line, one, other in zip(lines, encoded[0], encoded[1], strict=True):
        if one.ids != other.ids:
            differing = next((i for i, (a, b) in enumerate(zip(one.ids, other.ids, strict=False)) if a != b), 0)
            start: int = one.offsets[differing][0] if one.offsets else 0
            return line[start : start + 20].strip() or line[:20]
    return ""


def _is_loaded_unchanged(tokenizer: PreTrainedTokenizerFast, config: PreTrainedConfig) -> bool:
    """Whether transformers loads a tokenizer from a model's folder as it was saved; Qwen2's class replaces parts."""
    loaded = json.loads(backend_of(_reloaded(tokenizer, config)).to_str())
    saved = json.loads(backend_of(tokenizer).to_str())
    return all(loaded[name] == saved[name] for name in ("normalizer", "pre_tokenizer", "decoder"))


def _reloaded(tokenizer: PreTrainedTokenizerFast, config: PreTrainedConfig) -> PreTrainedTokenizerFast:
    """Return a tokenizer as transformers loads it from the folder of a model."""
    with TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        save_tokenizer(tokenizer, Path(folder))
        return load_tokenizer(folder)


def _wrapped(backend: Tokenizer, like: PreTrainedTokenizerFast, *, unk_token: str | None) -> PreTrainedTokenizerFast:
    """Return a tokenizer of the generic class with a given backend and the settings of another tokenizer.

    Model-specific classes, such as `GPT2Tokenizer`, would load only the vocabulary and rebuild everything else.
    """
    settings = {name: getattr(like, name, None) for name in _SETTINGS} | like.special_tokens_map
    settings["unk_token"] = unk_token
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, **{name: value for name, value in settings.items() if value is not None}
    )
