"""Tokenizers: vocabularies, canonical token forms, special tokens, and tokenizer training."""

from relexify.tokens.encoding import Encoder, encodable, encoder_of, separator_of
from relexify.tokens.forms import Family, Spelling, TokenForm
from relexify.tokens.joint import in_turn, joint_wordpiece
from relexify.tokens.pieces import encode_words, old_pieces
from relexify.tokens.roles import EQUIVALENT_ROLES, ROLES
from relexify.tokens.training import retrained
from relexify.tokens.vocabulary import Vocabulary, backend_of, vocabulary_of

__all__ = [
    "EQUIVALENT_ROLES",
    "ROLES",
    "Encoder",
    "Family",
    "Spelling",
    "TokenForm",
    "Vocabulary",
    "backend_of",
    "encodable",
    "encode_words",
    "encoder_of",
    "in_turn",
    "joint_wordpiece",
    "old_pieces",
    "retrained",
    "separator_of",
    "vocabulary_of",
]
