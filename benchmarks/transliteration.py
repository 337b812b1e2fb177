"""Pair the words of a language in another script with English words that sound alike, as a dictionary of loanwords.

    python benchmarks/transliteration.py --corpus ug.txt --source-corpus en.txt --dictionary en-ug.tsv \
        --output pairs.tsv
    python benchmarks/transliteration.py --corpus ug.txt --source-corpus en.txt --shuffle 0 --output control.tsv
    relexify transfer MODEL OUTPUT --corpus ug.txt --dictionary pairs.tsv      # to see what the pairs are worth

A Uyghur word is written in its Latin alphabet and paired with the English word that has the same consonants and the
smallest edit distance, relative to the longer word. Printed are the number of pairs, their share of the running words,
the most frequent ones to judge by eye, and, with a dictionary, how many of the words that are in it are translated so
there. With `--shuffle`, the same words are paired wrongly, as a control.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter, defaultdict
from pathlib import Path

from relexify.evidence.lexicon import BilingualLexicon
from relexify.text import Corpus

_ONE_LETTER = str.maketrans("اەبپتجخدرزسفقكگلمنھوۇۆۈۋېىي", "aebptjxdrzsfqkglmnhouöüwëiy")
_OTHERS = str.maketrans({"ئ": "", "چ": "ch", "ژ": "zh", "ش": "sh", "غ": "gh", "ڭ": "ng"})
"""The Latin alphabet of Uyghur, by Arabic letter; the first of these only carries a vowel."""
_ENGLISH = str.maketrans("qxwzcöüë", "khvskoue")
"""Consonants that English writes otherwise, and vowels with a mark."""
_VOWELS = re.compile("[aeiouy]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, help="Uyghur text")
    parser.add_argument("--source-corpus", required=True, help="English text")
    parser.add_argument("--dictionary", help="English word, tab, Uyghur word")
    parser.add_argument("--letters", type=int, default=6, help="of a word at least, in Latin letters")
    parser.add_argument("--occurrences", type=int, default=3, help="of a word at least, on both sides")
    parser.add_argument("--distance", type=float, default=0.25, help="edits per letter at most")
    parser.add_argument("--shown", type=int, default=60)
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="give every word the English word of another one")
    parser.add_argument("--output", type=Path, help="write the pairs, English first")
    options = parser.parse_args()
    foreign, english = (word_counts(corpus) for corpus in (options.corpus, options.source_corpus))
    by_sound = defaultdict(list)
    for word, count in english.items():
        if count >= options.occurrences and word.isascii() and len(word) >= options.letters - 1:
            by_sound[consonants(word)].append(word)
    pairs = {}
    for word, count in foreign.most_common():
        latin = transliterate(word)
        if count < options.occurrences or len(latin) < options.letters:
            continue
        candidates = [(relative_distance(latin, each), -english[each], each) for each in by_sound[consonants(latin)]]
        if candidates and min(candidates)[0] <= options.distance:
            pairs[word] = min(candidates)[2]
    if options.shuffle is not None:
        pairs = shuffled(pairs, options.shuffle)
    covered = sum(foreign[word] for word in pairs) / foreign.total()
    print(f"{len(pairs):,} of {len(foreign):,} words, {covered:.1%} of the running words")
    print(", ".join(f"{transliterate(word)} {english}" for word, english in [*pairs.items()][: options.shown]))
    if options.dictionary:
        known = {word: {a for a, b in BilingualLexicon.load(options.dictionary).pairs if b == word} for word in pairs}
        known = {word: translations for word, translations in known.items() if translations}
        right = sum(pairs[word] in translations for word, translations in known.items())
        print(f"{right} of the {len(known)} that the dictionary has are translated so there")
    if options.output:
        options.output.write_text("".join(f"{english}\t{word}\n" for word, english in pairs.items()), encoding="utf-8")


def word_counts(corpus: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for paragraph in Corpus.open(corpus):
        counts.update(re.findall(r"[^\W\d_]+", paragraph.lower()))
    return counts


def shuffled(pairs: dict[str, str], seed: int) -> dict[str, str]:
    """Return the same words, none of them paired with its own partner, each partner as often as before."""
    draw = random.Random(seed)
    by_partner = defaultdict(list)
    for word, partner in draw.sample([*pairs.items()], len(pairs)):
        by_partner[partner].append(word)
    # Words with the same partner are neighbours here, so that no partner stays if all move by the most of them.
    words = [word for group in by_partner.values() for word in group]
    step = max(map(len, by_partner.values()), default=0)
    if 2 * step > len(words):
        raise SystemExit(f"{step} of {len(words)} pairs have the same English word: they cannot all be paired wrongly")
    others = dict(zip(words, words[step:] + words[:step], strict=True))
    return {word: pairs[others[word]] for word in pairs}


def transliterate(word: str) -> str:
    return word.translate(_ONE_LETTER).translate(_OTHERS)


def consonants(word: str) -> str:
    """Return what two words that sound alike have in common: their consonants, doubled ones once."""
    return re.sub(r"(.)\1+", r"\1", _VOWELS.sub("", word.translate(_ENGLISH)))


def relative_distance(first: str, second: str) -> float:
    """Return the edits between two words (Levenshtein), as a share of the longer one's letters."""
    first, second = first.translate(_ENGLISH), second.translate(_ENGLISH)
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        previous, row[0] = row[0], i
        for j, b in enumerate(second, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (a != b))
    return row[-1] / max(len(first), len(second))


if __name__ == "__main__":
    main()
