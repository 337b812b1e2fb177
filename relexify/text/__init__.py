"""Text: corpora of any size and format, words, and invented languages."""

from relexify.text.corpus import HELD_OUT_EVERY, Corpus, TextInput, TextName
from relexify.text.invented import InventedLanguage, invent
from relexify.text.prose import english_from_python
from relexify.text.segmentation import Segmenter, train_segmenter
from relexify.text.words import WordSplitter, is_unspaced, split_words

__all__ = [
    "HELD_OUT_EVERY",
    "Corpus",
    "InventedLanguage",
    "Segmenter",
    "TextInput",
    "TextName",
    "WordSplitter",
    "english_from_python",
    "invent",
    "is_unspaced",
    "split_words",
    "train_segmenter",
]
