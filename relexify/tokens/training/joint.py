"""One WordPiece vocabulary for several languages (3.1 and 4.1, TreLM)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tokenizers import Encoding, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from relexify.errors import EvidenceError, InputError, check_number
from relexify.progress import Advance, track
from relexify.tokens.training.wordpiece import train_wordpiece_vocabulary
from relexify.tokens.vocabulary import LARGEST_VOCABULARY, backend_of, copy_backend

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["UNKNOWN", "interleave_lines", "train_joint_wordpiece"]

UNKNOWN = "[UNK]"
PREFIX = "##"


def train_joint_wordpiece(
    like: PreTrainedTokenizerFast,
    texts: Sequence[Callable[[], Iterable[str]]],
    vocab_size: int,
    *,
    alphabet: int = 1_000,
    lowercase: bool = False,
    strip_accents: bool | None = None,
) -> Tokenizer:
    """Train a WordPiece tokenizer on text in several languages at once, with the special tokens of another tokenizer.

    Text is split at white space and punctuation, and each Chinese character is a word, as in BERT. The new tokenizer
    puts the same special tokens around a text or a pair of texts as the other one.

    Args:
        like: The tokenizer of the model, whose special tokens are used.
        texts: For each language, a function that starts one pass over its text; lines are interleaved.
        vocab_size: Number of tokens, including special tokens.
        alphabet: Maximum number of distinct characters; rarer ones become unknown.
        lowercase: Convert text to lower case.
        strip_accents: Remove accents and all other marks; by default, the value of `lowercase`.

    Raises:
        InputError: The vocabulary is too small for the alphabet and the special tokens.
        EvidenceError: The texts contain no words.
    """
    check_number("vocab_size", vocab_size, most=LARGEST_VOCABULARY)
    added = sorted(backend_of(like).get_added_tokens_decoder().items())
    special = list(dict.fromkeys([*(token.content for _, token in added if token.special), _unknown(like)]))
    if alphabet < 1 or vocab_size <= len(special):
        raise InputError(
            f"a vocabulary of {vocab_size} tokens with {alphabet} characters is not possible: "
            f"{len(special)} tokens are special; give more tokens, and at least one character"
        )
    tokenizer = Tokenizer(models.WordPiece(unk_token=_unknown(like), continuing_subword_prefix=PREFIX))
    strips = lowercase if strip_accents is None else strip_accents
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strips)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=PREFIX)
    with track("training the joint vocabulary", None) as advance:
        vocabulary = train_wordpiece_vocabulary(
            tokenizer,
            lambda: interleave_lines(texts),
            lambda lines: _count_lines(lines, advance),
            vocab_size,
            special=special,
            alphabet=alphabet,
        )
    tokenizer.model = models.WordPiece(vocabulary, unk_token=_unknown(like), continuing_subword_prefix=PREFIX)
    tokenizer.add_special_tokens(special)
    trained_size = tokenizer.get_vocab_size()
    if trained_size > vocab_size:
        raise InputError(
            f"the characters and special tokens alone need {trained_size} tokens, but {vocab_size} were requested: "
            "allow more tokens, or fewer characters"
        )
    if trained_size <= len(special):
        raise EvidenceError("the texts contain no words: give some thousand words of each language")
    tokenizer.post_processor = _post_processor(like, tokenizer)
    return tokenizer


def interleave_lines(texts: Sequence[Callable[[], Iterable[str]]]) -> Iterator[str]:
    """Yield the first line of each text, then the second line of each, and so on until all texts are read."""
    running = [iter(text()) for text in texts]
    while running:
        for lines in tuple(running):
            line = next(lines, None)
            if line is None:
                running.remove(lines)
                continue
            yield line


def _count_lines(lines: Iterable[str], advance: Advance) -> Iterator[list[str]]:
    for line in lines:
        yield [line]
        advance(1)


def _unknown(like: PreTrainedTokenizerFast) -> str:
    """Return the source's unknown token, or `[UNK]` if it has none or its unknown token also has another role.

    Byte-level BPE has no unknown characters, so its unknown token is often also the end token. WordPiece needs a
    separate one.
    """
    unknown = getattr(like, "unk_token", None)
    shared = {getattr(like, f"{role}_token", None) for role in ("bos", "eos", "pad", "cls", "sep", "mask")}
    return UNKNOWN if unknown is None or unknown in shared else str(unknown)


def _post_processor(like: PreTrainedTokenizerFast, tokenizer: Tokenizer) -> processors.PostProcessor | None:
    """Return a post-processor that adds the same special tokens as the source tokenizer, or None if it adds none."""
    backend = copy_backend(like)
    single, pair = _template(backend.encode("a")), _template(backend.encode("a", "a"))
    names = [piece.rpartition(":")[0] for piece in (*single, *pair) if not piece.startswith("$")]
    if not names:
        return None
    ids = [(name, tokenizer.token_to_id(name)) for name in dict.fromkeys(names)]
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=ids)


def _template(encoding: Encoding) -> list[str]:
    """Return the template that produces an encoding: `[CLS]:0`, `$A:0`, `[SEP]:0`."""
    pieces: list[str] = []
    for token, sequence, type_id in zip(encoding.tokens, encoding.sequence_ids, encoding.type_ids, strict=True):
        name = token if sequence is None else f"${'AB'[sequence]}"
        piece = f"{name}:{type_id}"
        if sequence is None or piece not in pieces:
            pieces.append(piece)
    return pieces
