"""Tokenizers: vocabularies, canonical token forms, special tokens, training, extension and pruning.

vocabulary.py      `Vocabulary`: the tokens of a tokenizer
forms.py           `TokenForm`: a token, independent of how its tokenizer spells it
roles.py           special tokens by role
normalisation.py   how a tokenizer normalises words
encoding.py        encode running text
pieces.py          split target tokens into source tokens
training.py        train a tokenizer of the same type as another
marks.py           combining marks, at which many tokenizers split words, or which they delete
dotless_i.py       lower case in Turkish, Azerbaijani and Tatar
wordpiece.py       train WordPiece so that the result depends only on the text
joint.py           one vocabulary for several languages
extension.py, merges.py   add tokens of a second language, and learn their merges
pruning.py         remove tokens that a text never uses
rebuilding.py      change the vocabulary of a tokenizer; used by extension and pruning
"""

from relexify.tokens.dotless_i import lower_dotless_i
from relexify.tokens.encoding import Encoder, StreamEncoding, encoder_of, separator_of
from relexify.tokens.extension import Extension, extend_tokenizer
from relexify.tokens.forms import Spelling, TokenForm, TokenizerFamily
from relexify.tokens.joint import interleave_lines, train_joint_wordpiece
from relexify.tokens.marks import keep_marks, needs_marks
from relexify.tokens.normalisation import normaliser_of
from relexify.tokens.pieces import encode_sentences, encode_words, source_pieces
from relexify.tokens.pruning import prune_tokenizer
from relexify.tokens.roles import EQUIVALENT_ROLES, ROLES
from relexify.tokens.training import check_vocabulary_size, train_tokenizer_like
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
    "interleave_lines",
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
