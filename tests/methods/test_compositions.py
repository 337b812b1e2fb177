"""Copying, source pieces, dictionaries and their composition."""

from __future__ import annotations

import random as random_numbers

import numpy as np
import pytest

from relexify.errors import InputError, VocabularyError
from relexify.evidence.lexicon import BilingualLexicon
from relexify.methods.baselines import random, shuffle
from relexify.methods.blend import blended
from relexify.methods.fvt import fvt, pieces
from relexify.methods.parts.copying import neutral, shared, special
from relexify.methods.parts.translations import check_columns, translations, whole_words
from relexify.mixture import Origin, first_of
from relexify.tokens import train_tokenizer_like, vocabulary_of
from tests import pico

SOURCE = pico.byte_level()
TARGET = pico.byte_level(pico.sentences(words=pico.foreign_words(), seed=3))


def id_of(tokenizer, text, starts_word=True):
    vocabulary = vocabulary_of(tokenizer)
    return next(id for id, f in enumerate(vocabulary.forms) if (f.text, f.starts_word) == (text, starts_word))


def test_special_tokens_follow_their_role_across_spellings():
    source, target = pico.wordpiece(), pico.roberta_tokenizer()
    mixture = special(source, target)
    expected = {"<mask>": "[MASK]", "<pad>": "[PAD]", "<unk>": "[UNK]", "<s>": "[CLS]", "</s>": "[SEP]"}
    for ours, theirs in expected.items():
        id = target.convert_tokens_to_ids(ours)
        assert mixture.sources(id) == [(theirs, 1.0)]
        assert mixture.origin[id] == Origin.SPECIAL


def test_shuffled_rows_are_those_of_ordinary_tokens():
    source = pico.byte_level(["ab"], size=258, bos_token="<s>", eos_token="</s>")
    special_ids = {source.bos_token_id, source.eos_token_id}
    for seed in range(3):
        mixture = shuffle(source, TARGET, seed=seed)
        ordinary = mixture.weights[mixture.origin != Origin.SPECIAL]
        assert ordinary.nnz > 300
        assert not special_ids & set(ordinary.indices.tolist())


def test_special_tokens_without_a_role_follow_their_spelling():
    source = target = pico.unigram()
    id = target.convert_tokens_to_ids("<extra_id_1>")
    assert special(source, target).sources(id) == [("<extra_id_1>", 1.0)]


def test_a_missing_role_is_replaced_by_an_equivalent_one():
    source, target = pico.byte_level(), pico.roberta_tokenizer()
    mixture = special(source, target)
    assert mixture.sources(target.sep_token_id) == [("<|endoftext|>", 1.0)]
    assert mixture.sources(target.mask_token_id) == []


def test_an_override_wins_over_the_role():
    mixture = special(SOURCE, TARGET, overrides={"<|endoftext|>": "Ġriver"})
    assert mixture.sources(TARGET.eos_token_id) == [("Ġriver", 1.0)]


def test_an_override_may_name_any_token_by_its_text():
    word = next(form.text for form in vocabulary_of(TARGET).forms if form.starts_word and len(form.text) > 4)
    mixture = special(SOURCE, TARGET, overrides={word: "river"})
    assert mixture.sources(id_of(TARGET, word)) == [("Ġriver", 1.0)]


def test_an_override_of_an_unknown_token_is_rejected():
    with pytest.raises(VocabularyError, match="source vocabulary has no token 'nothing'"):
        special(SOURCE, TARGET, overrides={"<|endoftext|>": "nothing"})


def test_neutral_tokens_are_digits_punctuation_space_and_bytes_but_not_letters():
    mixture = neutral(SOURCE, TARGET)
    target = vocabulary_of(TARGET)
    for id in np.flatnonzero(mixture.known):
        assert not any(character.isalpha() for character in target.forms[id].text if character.isprintable())
    for text in ("7", ",", "."):
        assert mixture.known[id_of(TARGET, text, starts_word=False)]
    assert mixture.known[next(id for id, form in enumerate(target.forms) if form.is_byte and len(form.text) == 1)]


def test_neutral_tokens_match_across_families():
    mixture = neutral(pico.wordpiece(), TARGET)
    assert mixture.sources(id_of(TARGET, ",", starts_word=False)) == [(",", 1.0)]


def test_digits_and_punctuation_of_other_scripts_are_those_of_latin_script():
    lines = ["१ २ ३ ४२ ।", "٧ ؟ ،", "๙ 。", "日 月"] * 30
    target = pico.unigram(lines, size=80)
    mixture = neutral(SOURCE, target)
    by_text = {form.text: id for id, form in enumerate(vocabulary_of(target).forms)}
    for text, latin in [
        ("३", "3"),
        ("٧", "7"),
        ("๙", "9"),
        ("।", "."),
        ("؟", "?"),
        ("،", ","),
        ("。", "."),
    ]:
        assert [token.removeprefix("Ġ") for token, _ in mixture.sources(by_text[text])] == [latin]
    assert not mixture.known[by_text["日"]]
    assert not shared(SOURCE, target).known[by_text["३"]], "that is what FOCUS calls shared"


def test_translations_begin_with_the_capitals_of_their_language():
    lines = ["ilk İlk Ilk ışık Işık ბინა"] * 40
    target = train_tokenizer_like(SOURCE, lambda: lines, 340)
    known = translations(SOURCE, target, BilingualLexicon((("first", "ilk"), ("light", "ışık")))).known
    assert known[id_of(target, "İlk")]
    assert known[id_of(target, "Işık")]
    assert not known[id_of(target, "Ilk")]
    known = translations(SOURCE, target, BilingualLexicon((("first", "ilk"),))).known
    assert known[id_of(target, "Ilk")]
    assert not known[id_of(target, "İlk")]


def test_shared_tokens_beyond_ascii_match_across_families():
    lines = pico.sentences(words=pico.foreign_words(), seed=3)
    source, target = pico.unigram(lines), pico.byte_level(lines)
    mixture = shared(source, target)
    matched = [vocabulary_of(target).forms[id].text for id in np.flatnonzero(mixture.known)]
    assert any(not text.isascii() and len(text) > 3 for text in matched)


def test_fvt_is_the_mean_of_the_source_pieces():
    mixture = fvt(SOURCE, TARGET)
    target = vocabulary_of(TARGET)
    id = next(id for id, form in enumerate(target.forms) if form.starts_word and len(form.text) > 4)
    ids = SOURCE(f" {target.forms[id].text}", add_special_tokens=False).input_ids
    expected = {}
    for piece in ids:
        token = SOURCE.convert_ids_to_tokens(piece)
        expected[token] = expected.get(token, 0) + 1 / len(ids)
    assert dict(mixture.sources(id)) == pytest.approx(expected)


def test_fvt_covers_every_token_of_a_byte_level_vocabulary():
    assert fvt(SOURCE, TARGET).known.all()


def test_random_has_no_rows_and_shuffle_has_all():
    assert not random(SOURCE, TARGET).known.any()
    mixture = shuffle(SOURCE, TARGET, seed=1)
    assert (np.diff(mixture.weights.indptr) == 1).all()
    assert (mixture.weights != shuffle(SOURCE, TARGET, seed=2).weights).nnz > 0
    assert (mixture.weights != shuffle(SOURCE, TARGET, seed=1).weights).nnz == 0


@pytest.mark.parametrize(("kind", "share"), [("known", 3 / 4), ("guessed", 1 / 4)])
def test_blend_is_meaning_and_pieces_with_neutral_tokens_copied(kind, share):
    meaning = shuffle(SOURCE, TARGET, seed=0)
    mixture, own = blended(SOURCE, TARGET, **{kind: meaning}), pieces(SOURCE, TARGET)
    untouched = first_of(special(SOURCE, TARGET), neutral(SOURCE, TARGET)).known
    expected = (share * meaning.weights + (1 - share) * own.weights).toarray()[~untouched]
    assert np.allclose(mixture.weights.toarray()[~untouched], expected, atol=1e-6)
    assert np.array_equal(mixture.weights.toarray()[untouched] > 0, mixture.weights.toarray()[untouched] == 1)


def test_a_known_meaning_weighs_more_than_a_guessed_one():
    word = next(form.text for form in vocabulary_of(TARGET).forms if form.starts_word and len(form.text) > 4)
    known = translations(SOURCE, TARGET, BilingualLexicon((("river", word),)))
    guessed, own = shuffle(SOURCE, TARGET, seed=0), pieces(SOURCE, TARGET).weights
    mixture, id = blended(SOURCE, TARGET, known=known, guessed=guessed), id_of(TARGET, word)
    expected = (9 * known.weights + guessed.weights + 3 * own).toarray()[id] / 13
    assert np.allclose(mixture.weights.toarray()[id], expected, atol=1e-6)
    elsewhere = id_of(TARGET, next(f.text for f in vocabulary_of(TARGET).forms if f.starts_word and f.text[-1] == "a"))
    expected = (guessed.weights + 3 * own).toarray()[elsewhere] / 4
    assert np.allclose(mixture.weights.toarray()[elsewhere], expected, atol=1e-6)


def test_blend_uses_pieces_for_tokens_without_a_vector():
    mixture = blended(SOURCE, TARGET, guessed=random(SOURCE, TARGET))
    assert (mixture.weights != fvt(SOURCE, TARGET).weights).nnz == 0


def test_blend_of_one_vocabulary_with_itself_copies_everything():
    mixture = blended(SOURCE, SOURCE, known=shuffle(SOURCE, SOURCE, seed=0))
    assert np.array_equal(mixture.weights.toarray(), np.eye(len(SOURCE), dtype=np.float32))


def test_translations_mix_a_whole_word_from_the_pieces_of_its_meanings():
    word = next(form.text for form in vocabulary_of(TARGET).forms if form.starts_word and len(form.text) > 4)
    lexicon = BilingualLexicon((("river", word), ("water", word)))
    mixture = translations(SOURCE, TARGET, lexicon)
    assert dict(mixture.sources(id_of(TARGET, word))) == pytest.approx({"Ġriver": 0.5, "Ġwater": 0.5})
    assert mixture.known.sum() <= 4


def test_two_words_of_one_token_have_equal_parts_whatever_their_number_of_translations():
    uncased = pico.wordpiece()
    lexicon = BilingualLexicon((("river", "Door"), ("water", "door"), ("house", "door")))
    # "Door" is river, and as the first word of a sentence water or house; "door" is water or house.
    found = dict(translations(uncased, uncased, lexicon).sources(uncased.convert_tokens_to_ids("door")))
    assert found == pytest.approx({"river": 1 / 4, "water": 3 / 8, "house": 3 / 8})


def test_translations_of_word_parts_weight_words_by_frequency():
    vocabulary = vocabulary_of(TARGET)
    part = next(form.text for form in vocabulary.forms if form.starts_word and len(form.text) == 2)
    words = [f"{part}{end}" for end in ("qq", "zz")]
    lexicon = BilingualLexicon((("river", words[0]), ("water", words[1])))
    mixture = translations(SOURCE, TARGET, lexicon, frequencies={words[0]: 3.0, words[1]: 1.0}, whole_words=False)
    found = dict(mixture.sources(id_of(TARGET, part)))
    assert found["Ġriver"] == pytest.approx(3 * found["Ġwater"], rel=1e-4)


@pytest.mark.parametrize("layout", [pico.byte_level, pico.llama2_layout, pico.mistral_layout, pico.unigram])
def test_a_word_of_a_script_without_spaces_is_translated_inside_a_text_too(layout):
    draw, words = random_numbers.Random(0), ["河流", "书本", "学生", "早晨", "窗户", "大门", "房子", "老师"]
    lines = ["".join(draw.choices(words, k=8)) for _ in range(1500)]
    source = layout()
    target = train_tokenizer_like(source, lambda: lines, 700)
    known = translations(source, target, BilingualLexicon(tuple(("house", word) for word in words))).known
    inside = [id for id, form in enumerate(vocabulary_of(target).forms) if form.text in words and not form.starts_word]
    assert len(inside) == len(words)
    assert known[inside].all()


def test_an_unknown_token_is_neither_a_translated_word_nor_a_translation():
    bert, gpt2 = pico.wordpiece(), pico.byte_level()
    to_unknown = translations(gpt2, bert, BilingualLexicon((("river", "ба"), ("house", "να"))))
    assert not to_unknown.known.any(), "words of another script are one token, the unknown one"
    from_unknown = translations(bert, gpt2, BilingualLexicon((("ба", "river"), ("house", "river"))))
    assert from_unknown.sources(id_of(gpt2, "river")) == [("house", 1.0)]


def test_swapped_columns_of_a_script_without_spaces_are_noticed():
    source = pico.byte_level(size=500)
    english = [form.text for form in vocabulary_of(source).forms if form.is_word and len(form.text) > 2][:12]
    words = [first + second for first in "河流书本" for second in "学生早晨"][: len(english)]
    target = train_tokenizer_like(source, lambda: words * 20, 500)
    lexicon = BilingualLexicon(tuple(zip(english, words, strict=True)))
    check_columns(whole_words(source), whole_words(target), lexicon)
    with pytest.raises(InputError, match="look swapped"):
        check_columns(whole_words(source), whole_words(target), lexicon.swapped())
