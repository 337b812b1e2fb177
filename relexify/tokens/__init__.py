"""Tokenizers: vocabularies, canonical token forms, special tokens, training, extension and pruning.

vocabulary.py      `Vocabulary`: the tokens of a tokenizer
forms.py           `TokenForm`: a token, independent of how its tokenizer spells it
roles.py           special tokens by role
normalisation.py   how a tokenizer normalises words
growth.py          an upper bound on how much longer a tokenizer may make a text
encoding.py        encode running text
pieces.py          split target tokens into source tokens
training/          train tokenizers: of the same type as another, or joint ones for several languages
editing/           add tokens to a vocabulary, or remove those that a text never uses
"""

from relexify.tokens.editing.extension import Extension, extend_tokenizer
from relexify.tokens.editing.pruning import prune_tokenizer
from relexify.tokens.encoding import Encoder, StreamEncoding, encoder_of, separator_of
from relexify.tokens.forms import Spelling, TokenForm, TokenizerFamily
from relexify.tokens.growth import growth_of, is_lengthened
from relexify.tokens.normalisation import normaliser_of
from relexify.tokens.pieces import encode_sentences, encode_words, source_pieces
from relexify.tokens.roles import EQUIVALENT_ROLES, ROLES
from relexify.tokens.training.dotless_i import lower_dotless_i
from relexify.tokens.training.joint import interleave_lines, train_joint_wordpiece
from relexify.tokens.training.marks import keep_marks, needs_marks
from relexify.tokens.training.train import check_vocabulary_size, train_tokenizer_like
from relexify.tokens.vocabulary import (
    LARGEST_VOCABULARY,
    AnyTokenizer,
    AnyVocabulary,
    Vocabulary,
    backend_of,
    copy_backend,
    vocabulary_of,
)

__all__ = [
    "EQUIVALENT_ROLES",
    "LARGEST_VOCABULARY",
    "ROLES",
    "AnyTokenizer",
    "AnyVocabulary",
    "Encoder",
    "Extension",
    "Spelling",
    "StreamEncoding",
    "TokenForm",
    "TokenizerFamily",
    "Vocabulary",
    "backend_of",
    "check_vocabulary_size",
    "copy_backend",
    "encode_sentences",
    "encode_words",
    "encoder_of",
    "extend_tokenizer",
    "growth_of",
    "interleave_lines",
    "is_lengthened",
    "keep_marks",
    "lower_dotless_i",
    "needs_marks",
    "normaliser_of",
    "prune_tokenizer",
    "separator_of",
    "source_pieces",
    "train_joint_wordpiece",
    "train_tokenizer_like",
    "vocabulary_of",
]
