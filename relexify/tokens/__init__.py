"""Tokenizers: vocabularies, canonical token forms, special tokens, and tokenizer training."""

from relexify.tokens.encoding import Encoder, encoder_of, make_encodable, separator_of
from relexify.tokens.forms import Spelling, TokenForm, TokenizerFamily
from relexify.tokens.joint import interleave_lines, train_joint_wordpiece
from relexify.tokens.normalisation import normaliser_of
from relexify.tokens.pieces import encode_words, source_pieces
from relexify.tokens.roles import EQUIVALENT_ROLES, ROLES
from relexify.tokens.training import train_tokenizer_like
from relexify.tokens.vocabulary import LARGEST_VOCABULARY, AnyTokenizer, Vocabulary, backend_of, vocabulary_of

__all__ = [
    "EQUIVALENT_ROLES",
    "LARGEST_VOCABULARY",
    "ROLES",
    "AnyTokenizer",
    "Encoder",
    "Spelling",
    "TokenForm",
    "TokenizerFamily",
    "Vocabulary",
    "backend_of",
    "encode_words",
    "encoder_of",
    "interleave_lines",
    "make_encodable",
    "normaliser_of",
    "separator_of",
    "source_pieces",
    "train_joint_wordpiece",
    "train_tokenizer_like",
    "vocabulary_of",
]
