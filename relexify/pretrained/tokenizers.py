"""Train a tokenizer like that of a model, save tokenizers, and read their chat templates."""

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
from relexify.tokens import backend_of, keep_marks, lower_dotless_i, train_joint_wordpiece, train_tokenizer_like

__all__ = [
    "check_encoding",
    "default_system_prompt",
    "save_tokenizer",
    "train_joint_tokenizer",
    "train_tokenizer",
]

MOST_TEXT = 500_000_000
"""Bytes of text that a tokenizer is trained on, at most."""
SAMPLED_TEXT = 500_000
"""Characters from all over a text that show whether it has combining marks, or an ı."""
_MESSAGE = "\u2063message\u2063"
"""A message that no template contains."""
_LOADING = ("is_local", "local_files_only")
"""Options of `from_pretrained` that say nothing about a tokenizer."""
_SENTENCE = re.compile(r"[^<>|\n]*\w+ +\w+ +\w+[^<>|\n]*")
"""Three words in a row: names of roles and special tokens are shorter."""
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
"""Settings that every class of tokenizers has, besides the special tokens."""

logger = logging.getLogger(__name__)


def train_tokenizer(
    corpus: str | Path | Corpus,
    *,
    like: str | Path | PreTrainedTokenizerFast,
    vocab_size: int,
    config: PreTrainedConfig | None = None,
) -> PreTrainedTokenizerFast:
    """Train a tokenizer for the language of a corpus, built like another tokenizer.

    Of a corpus with more than `MOST_TEXT` bytes, a sample is used: all its different words have to be in memory. If the
    text has combining marks, words are not cut at them, and none are deleted, even if the other tokenizer does so. If
    the text tells i and ı apart, a tokenizer in lower case does so too. But for some models, transformers would not
    load such a tokenizer as it was saved, and then it is built like the other.

    Args:
        corpus: A `Corpus`, or what `Corpus.open` takes: text, compressed text, jsonl, parquet, a folder, `hf:NAME`.
        like: A transformers tokenizer, or the name of one.
        vocab_size: Tokens of the vocabulary, special tokens included.
        config: Config of the model that it is for.
    """
    whole = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
    text = whole.bounded(MOST_TEXT)
    pattern = load_tokenizer(like) if isinstance(like, str | Path) else like
    sample = text.sample_throughout(SAMPLED_TEXT)
    for adapted, good, bad in (
        (
            keep_marks,
            "the text has combining marks: the tokenizer is not to cut words at them, nor to delete them",
            "cuts words at combining marks, or deletes them, so the text takes more tokens",
        ),
        (
            lower_dotless_i,
            "the text tells i and ı apart: the tokenizer is to write I as ı and İ as i in lower case",
            "writes I and İ with the wrong letters in lower case, so words at the start of a sentence differ",
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
                "the tokenizer %s: for models of type %s, transformers loads no other tokenizer", bad, config.model_type
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
        like: The tokenizer of the model, or the name of one; of any family.
        vocab_size: Tokens of the vocabulary, special tokens included.
        alphabet: Maximum number of different characters; rarer ones become unknown.
        lowercase: Write everything in lower case, without accents.

    Raises:
        InputError: The vocabulary is too small for alphabet and special tokens.
        EvidenceError: There is no text.
    """
    texts = [corpus if isinstance(corpus, Corpus) else Corpus.open(corpus) for corpus in corpora]
    pattern = load_tokenizer(like) if isinstance(like, str | Path) else like
    trained = train_joint_wordpiece(
        pattern, [text.__iter__ for text in texts], vocab_size, alphabet=alphabet, lowercase=lowercase
    )
    return _wrapped(trained, pattern, unk_token=trained.model.unk_token)


def check_encoding(tokenizer: PreTrainedTokenizerFast, name: str, config: PreTrainedConfig, text: str) -> None:
    """Validate that a tokenizer encodes a text as its file says, and will do so in the folder of a model.

    transformers chooses the class of a tokenizer by the type of the model beside it, and some classes keep only the
    vocabulary of a file: that of Qwen2 replaces normaliser and pre-tokenizer.

    Args:
        tokenizer: The tokenizer, loaded.
        name: Its name, as for `load_tokenizer`.
        config: Config of the model that it is for.
        text: Some text.

    Raises:
        InputError: The model's folder would be loaded with a tokenizer that encodes the text otherwise.
    """
    file = Path(resolve(name)) / "tokenizer.json"
    if file.is_file() and (shown := _encoded_otherwise(Tokenizer.from_file(str(file)), backend_of(tokenizer), text)):
        logger.warning(
            "transformers loads %s as %s, which encodes some text otherwise than the file says, such as %r",
            file,
            type(tokenizer).__name__,
            shown,
        )
    reason = ""
    try:
        loaded = _reloaded(tokenizer, config)
    except InputError as error:
        reason = f"could not load it ({first_line(error.__cause__ or error)})"
    else:
        if shown := _encoded_otherwise(backend_of(tokenizer), backend_of(loaded), text):
            reason = f"would load it as {type(loaded).__name__}, which encodes text otherwise, such as {shown!r}"
    if reason:
        raise InputError(
            f"the tokenizer of {name} cannot be used with a model of type {config.model_type}, beside which "
            f"transformers {reason}: leave it out, so that one is trained, or give that of a model of this type"
        )


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write the files of a tokenizer.

    Raises:
        OSError: They cannot be written; tokenizers itself raises a plain `Exception`.
    """
    options = tokenizer.init_kwargs
    # transformers saves how the tokenizer was loaded on this machine with it.
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
    """Return the text that the chat template puts before the first message of a user, in the source model's language.

    Returns:
        None if there is no template, or it adds nothing but names of roles and special tokens.
    """
    if not tokenizer.chat_template:
        return None
    try:
        written = str(tokenizer.apply_chat_template([{"role": "user", "content": _MESSAGE}], tokenize=False))
    except Exception:  # it needs more than a message of a user, or is damaged: a template is a program
        return None
    found = _SENTENCE.search(written.partition(_MESSAGE)[0])
    return found[0].strip() if found else None


def _encoded_otherwise(first: Tokenizer, second: Tokenizer, text: str) -> str:
    """Return the first few characters that two tokenizers encode differently; empty if there are none."""
    lines = text.split("\n")
    encoded = [backend.encode_batch(lines, add_special_tokens=False) for backend in (first, second)]
    for line, one, other in zip(lines, encoded[0], encoded[1], strict=True):
        if one.ids != other.ids:
            same = next((i for i, (a, b) in enumerate(zip(one.ids, other.ids, strict=False)) if a != b), 0)
            start: int = one.offsets[same][0] if one.offsets else 0
            return line[start : start + 20].strip() or line[:20]
    return ""


def _is_loaded_unchanged(tokenizer: PreTrainedTokenizerFast, config: PreTrainedConfig) -> bool:
    """Whether transformers loads a tokenizer from a model's folder as it was saved; for Qwen2, it replaces parts."""
    loaded = backend_of(_reloaded(tokenizer, config))
    parts = [json.loads(each.to_str()) for each in (loaded, backend_of(tokenizer))]
    return all(parts[0][name] == parts[1][name] for name in ("normalizer", "pre_tokenizer", "decoder"))


def _reloaded(tokenizer: PreTrainedTokenizerFast, config: PreTrainedConfig) -> PreTrainedTokenizerFast:
    """Return a tokenizer as transformers loads it from the folder of a model."""
    with TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        save_tokenizer(tokenizer, Path(folder))
        return load_tokenizer(folder)


def _wrapped(backend: Tokenizer, like: PreTrainedTokenizerFast, *, unk_token: str | None) -> PreTrainedTokenizerFast:
    """Return a tokenizer of the general class with the settings of another.

    Classes of single models, such as `GPT2Tokenizer`, load only a vocabulary, and build the rest themselves.
    """
    given = {name: getattr(like, name, None) for name in _SETTINGS} | like.special_tokens_map | {"unk_token": unk_token}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, **{name: value for name, value in given.items() if value is not None}
    )
