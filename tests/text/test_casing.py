"""Upper and lower case of words."""

from __future__ import annotations

from relexify.text import capitalised, has_dotless_i, spellings


def test_the_first_letter_alone_becomes_a_capital():
    words = ["ilk", "ǆep", "ბინა", "straße", "école", "", "1a", "日本"]
    assert [capitalised(word) for word in words] == ["Ilk", "ǅep", "ბინა", "Straße", "École", "", "1a", "日本"]
    assert [capitalised(word, dotless_i=True) for word in ("ilk", "ışık", "ay")] == ["İlk", "Işık", "Ay"]


def test_spellings_are_those_of_the_language():
    assert spellings("Haus") == ["Haus", "haus", "Haus"]
    assert spellings("l'eau") == ["l'eau", "l'eau", "L'Eau", "L'eau"]
    assert spellings("ΟΔΟΣ") == ["ΟΔΟΣ", "οδος", "Οδος"]
    assert spellings("KIRIK İŞ", dotless_i=True) == ["KIRIK İŞ", "kırık iş", "Kırık iş"]
    assert spellings("I\u0307yi", dotless_i=True)[1:] == ["iyi", "İyi"]


def test_a_few_names_do_not_make_a_language_turkish():
    assert has_dotless_i(["ışık", "ev", "su"])
    assert not has_dotless_i(["Diyarbakır", *map(str, range(100))])
    assert not has_dotless_i([])
