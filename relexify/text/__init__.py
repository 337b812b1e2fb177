"""Text: corpora of any size and format, words, and invented languages.

corpus.py          `Corpus`: text that is read as often as needed; splits and subsamples
opening.py         find the files and data sets that a name refers to
sources.py         read documents from each type of source
records.py         read records from json lines and Hub data sets
decoding.py        decompress and decode files in bounded memory
remote.py          names of Hub data sets; download files from a URL into the cache
encodable.py       text that every tokenizer accepts, and its size
words.py           split text into words
casing.py          upper and lower case of words
segmentation.py, candidates.py   find the words of languages written without spaces
invented.py, prose.py            an invented language and English prose, for the demo and the tests
"""

from relexify.text.casing import capitalised, has_dotless_i, spellings
from relexify.text.corpus import (
    HELD_OUT_EVERY,
    Corpus,
    NamesText,
    NoText,
    TextOption,
    TextSource,
    paragraph_digest,
    sample_revisions,
)
from relexify.text.encodable import count_bytes, make_encodable
from relexify.text.invented import InventedLanguage, invent
from relexify.text.prose import english_from_python
from relexify.text.segmentation import Segmenter, train_segmenter
from relexify.text.words import is_unspaced, split_words

__all__ = [
    "HELD_OUT_EVERY",
    "Corpus",
    "InventedLanguage",
    "NamesText",
    "NoText",
    "Segmenter",
    "TextOption",
    "TextSource",
    "capitalised",
    "count_bytes",
    "english_from_python",
    "has_dotless_i",
    "invent",
    "is_unspaced",
    "make_encodable",
    "paragraph_digest",
    "sample_revisions",
    "spellings",
    "split_words",
    "train_segmenter",
]
