"""Every dictionary format, written by the tests themselves, and every way a file can be wrong."""

from __future__ import annotations

import gzip
import lzma
import os
import tarfile
import unicodedata
from pathlib import Path

import pytest

from relexify.errors import InputError
from relexify.evidence.lexicon import BilingualLexicon, files
from tests.memory import peak_memory_below

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
ENTRIES = {
    "00databaseinfo": "00-database-info\nA dictionary, for tests\n",
    "ziwa": "Ziwa /zˈiwa/ <n> (pl: {maziwa})\n1.\nlake, pond\n2.\nbreast\n",
    "zote": "zote /zˈote/ <pron, agr: 10>\n\nall; whole (of them)\n",
    "house": 'house /hˈaʊs/\nHaus <neut>, Heim <neut> [archit.]\n      "a house"  - ein Haus\n see: {houses}\n\n',
    "argon": "Argon /ˈaʁɡɔn/ <n, neut>\nargon\nchemisches Element mit der Ordnungszahl 18\n",
    "heim": "Heim /haɪ̯m/ <n, neut>\n1. hem 2.\nHaus oder Wohnung\n 3.\nStätte für Erholungssuchende\n2. lokal\n",
    "wadudu": "wadudu /wadˈudu/ <n>\n\n Plural of {mdudu}: insect, bug\n",
    "colour": "color, colour /ˈkʌlə/\nFarbe\n",
    "yes please": "yes, please /jɛs pliːz/\nja gern\n",
    "mixed": "mixed <adj>\nhaving\n; with\n",
}
TEI = """<?xml version="1.0" encoding="UTF-8"?>
<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader/><text><body>
<!-- a comment -->
<entry><form><orth>greet</orth><orth>hail</orth><form type="infl"><orth>greeted</orth></form></form>
  <sense><cit type="trans" xml:lang="de"><quote>grüßen</quote><quote>empfangen (formal)</quote></cit>
    <cit type="example"><quote>greet her</quote><cit type="trans"><quote>grüß sie</quote></cit></cit>
    <sense><def>to say hello</def><cit type="translation"><quote>begrüßen</quote></cit></sense></sense></entry>
<entry><form><orth>old</orth></form><trans><tr>alt</tr></trans></entry>
<entry><form><orth>lonely</orth></form></entry>
</body></text></TEI>
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def base64(number: int) -> str:
    digits = DIGITS[number % 64]
    while number := number // 64:
        digits = DIGITS[number % 64] + digits
    return digits


def write_dictd(folder: Path, *, compressed: bool = True, entries: dict[str, str] = ENTRIES) -> Path:
    content, index = b"", []
    for headword, entry in entries.items():
        start, length = base64(len(content)), base64(len(entry.encode()))
        aliases = [headword, "color"] if headword == "colour" else [headword]
        index += [f"{alias}\t{start}\t{length}\n" for alias in aliases]
        content += entry.encode()
    write(folder / "test.index", "".join(sorted(index)))
    if compressed:
        (folder / "test.dict.dz").write_bytes(gzip.compress(content))
    else:
        (folder / "test.dict").write_bytes(content)
    return folder / "test.index"


@pytest.mark.parametrize("separator", ["\t", " ", "  ", " \t "])
def test_two_columns_are_read_with_any_white_space_between(tmp_path, separator):
    path = write(tmp_path / "muse.txt", f"house{separator}Haus\r\ndog{separator}Hund")
    lexicon = BilingualLexicon.load(path)
    assert lexicon.pairs == (("house", "Haus"), ("dog", "Hund"))
    assert lexicon.name == "muse.txt"


def test_sides_with_spaces_stay_whole_where_a_tab_separates_them(tmp_path):
    path = write(tmp_path / "swahili.txt", "paternal uncle\tami\ndie\tkata roho\n")
    assert BilingualLexicon.load(path).pairs == (("paternal uncle", "ami"), ("die", "kata roho"))


def test_lists_of_translations_are_taken_apart_and_remarks_left_out(tmp_path):
    lines = [
        "lake, pond\tziwa",
        "kuu\tgreat; main, big (of size)",
        "bank (finance)\tbenki {n}",
        "yes, please\tja, bitte",
        "yes, please\tja gern",  # two words may be a phrase
        "well, I never heard that\tlo",  # a sentence
        "水\t나무、물",
        "1,000\telfu",
        ",\t،",
        "(…)\t[…]",
    ]
    assert BilingualLexicon.load(write(tmp_path / "d.tsv", "\n".join(lines))).pairs == (
        ("lake", "ziwa"), ("pond", "ziwa"),
        ("kuu", "great"), ("kuu", "main"), ("kuu", "big"),
        ("bank", "benki"),
        ("yes", "ja"), ("please", "bitte"),
        ("yes, please", "ja gern"),
        ("well, I never heard that", "lo"),
        ("水", "나무"), ("水", "물"),
        ("1,000", "elfu"),
        (",", "،"),
        ("(…)", "[…]"),
    )  # fmt: skip
    pairs = [("like father, like son", "wie der Vater, so der Sohn"), *((f"a{number}", "b") for number in range(100))]
    rare = write(tmp_path / "rare.tsv", "\n".join("\t".join(pair) for pair in pairs))
    assert BilingualLexicon.load(rare).pairs == tuple(pairs), "the comma of a proverb separates no translations"


def test_a_list_beside_a_phrase_is_taken_apart_unless_the_phrase_has_as_many_words(tmp_path):
    lines = ["to go\tenda, nenda", "go away\tenda, nenda, toka", "ja gern\tyes, please", "a, b\tc; d; e"]
    assert BilingualLexicon.load(write(tmp_path / "d.tsv", "\n".join(lines))).pairs == (
        ("to go", "enda"), ("to go", "nenda"),
        ("go away", "enda"), ("go away", "nenda"), ("go away", "toka"),
        ("ja gern", "yes, please"),
        ("a", "c"), ("a", "d"), ("a", "e"), ("b", "c"), ("b", "d"), ("b", "e"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("side", "plain"),
    [
        ("colo(u)r", "colo(u)r"),
        ("Lehrer(in)", "Lehrer(in)"),
        ("(auf)machen", "(auf)machen"),
        ("a (b (c)) d", "a d"),
        ("a (b [c] {d (e)}) d", "a d"),
        ("(of size) big", "big"),
        ("bank (finance){n}", "bank"),
        ("bank (finance) [n]!", "bank!"),
        ("a (b", "a (b"),
    ],
)
def test_brackets_are_left_out_between_words_only(tmp_path, side, plain):
    assert BilingualLexicon.load(write(tmp_path / "d.tsv", f"{side}\tx\n")).pairs == ((plain, "x"),)


def test_a_remark_before_a_comma_is_left_out(tmp_path):
    path = write(tmp_path / "d.tsv", "kuu\tgreat (of size), main\n水\t나무(木)、물\n")
    assert BilingualLexicon.load(path).pairs == (("kuu", "great"), ("kuu", "main"), ("水", "나무(木)"), ("水", "물"))


def test_byte_order_mark_decomposed_letters_and_stray_spaces_are_tidied(tmp_path):
    decomposed = unicodedata.normalize("NFD", "über")
    path = write(tmp_path / "d.tsv", f"\ufeffover \t  {decomposed}\n")
    assert BilingualLexicon.load(path).pairs == (("over", "über"),)


def test_comments_blank_lines_and_further_columns_are_skipped_but_number_signs_are_words(tmp_path):
    path = write(tmp_path / "d.tsv", "# en\tde\n\n#comment\nhouse\tHaus\t0.9\n#\tRaute\n#tag\tSchlagwort\n")
    assert BilingualLexicon.load(path).pairs == (("house", "Haus"), ("#", "Raute"), ("#tag", "Schlagwort"))


def test_unicode_line_separators_do_not_cut_a_line(tmp_path):
    path = write(tmp_path / "d.tsv", "a\u0085b\tc\n")
    assert len(BilingualLexicon.load(path)) == 1


def test_loading_swapped_turns_the_columns_round(tmp_path):
    path = write(tmp_path / "d.tsv", "Haus\thouse\n")
    assert BilingualLexicon.load(path, swapped=True).pairs == (("house", "Haus"),)


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_text_and_tei_read_like_plain_ones(tmp_path, suffix, compress):
    for name, text in (("d.txt", "house\tHaus\n"), ("d.tei", TEI)):
        plain = write(tmp_path / name, text)
        packed = tmp_path / (name + suffix)
        packed.write_bytes(compress(text.encode()))
        assert BilingualLexicon.load(packed).pairs == BilingualLexicon.load(plain).pairs


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("given", ["index", "dict", "folder"])
def test_a_dictd_dictionary_is_read_from_either_file_or_its_folder(tmp_path, compressed, given):
    index = write_dictd(tmp_path, compressed=compressed)
    dict_file = tmp_path / ("test.dict.dz" if compressed else "test.dict")
    lexicon = BilingualLexicon.load({"index": index, "dict": dict_file, "folder": tmp_path}[given])
    assert set(lexicon.pairs) == {
        ("Ziwa", "lake"), ("Ziwa", "pond"), ("Ziwa", "breast"),
        ("zote", "all"), ("zote", "whole"),
        ("house", "Haus"), ("house", "Heim"),
        ("Argon", "argon"),
        ("Heim", "hem"), ("Heim", "lokal"),
        ("wadudu", "insect"), ("wadudu", "bug"),
        ("color", "Farbe"), ("colour", "Farbe"),
        ("yes, please", "ja gern"),
        ("mixed", "having"), ("mixed", "with"),
    }  # fmt: skip


def test_an_indented_dictd_entry_and_one_that_only_refers_elsewhere(tmp_path):
    entries = {"gold": "gold /gould/\n  1. aurarius; aureus\n  2. aurum\n", "au": "Au\n see: {gold}\n"}
    write_dictd(tmp_path, entries=entries)
    assert BilingualLexicon.load(tmp_path).pairs == (("gold", "aurarius"), ("gold", "aureus"), ("gold", "aurum"))


def test_every_pronunciation_of_a_dictd_headword_is_left_out(tmp_path):
    entries = {
        "aboriginal": "Aboriginal //ˌæb.əˈɹɪd͡ʒ.n̩.l̩// //ˌæb.əˈɹɪd͡ʒ.ɪ.nəl// <n>\n1. aboriginaali\n",
        "printer": "printer //ˈpɹɪn.tə(ɹ)// /[ˈpɹɪɾ̃ɚ]/ <n>\ntulostin\n",
        "and or": "and/or /ˌænd ˈɔː/ <conj>\nja/tai\n",
    }
    write_dictd(tmp_path, entries=entries)
    expected = (("Aboriginal", "aboriginaali"), ("printer", "tulostin"), ("and/or", "ja/tai"))
    assert BilingualLexicon.load(tmp_path).pairs == expected


def test_slashes_between_senses_of_a_dictd_entry_are_no_pronunciation(tmp_path):
    write_dictd(tmp_path, entries={"and": "and /ænd/ <conj>\nja // tai // mutta\n"})
    ((_, target),) = BilingualLexicon.load(tmp_path).pairs
    assert "tai" in target


def test_tei_gives_headwords_and_translations_but_no_inflections_and_examples(tmp_path):
    expected = [(word, to) for to in ("grüßen", "empfangen", "begrüßen") for word in ("greet", "hail")]
    assert BilingualLexicon.load(write(tmp_path / "d.tei", TEI)).pairs == (*expected, ("old", "alt"))
    assert len(BilingualLexicon.load(write(tmp_path / "named-otherwise.xml", TEI))) == 7


def test_a_few_one_sided_lines_are_skipped_with_one_warning_that_counts_them(tmp_path, caplog):
    path = write(tmp_path / "d.tsv", "a\tb\nlonely\nc\td\n\te\nf\tg\n")
    assert BilingualLexicon.load(path).pairs == (("a", "b"), ("c", "d"), ("f", "g"))
    assert [record.message for record in caplog.records] == [
        f"{path}: 2 of 5 lines skipped, without two sides; the first is line 2"
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no pairs of words"),
        (b"# nothing\n\n", "holds no pairs of words"),
        (b"a\tb\nc\nd\ne f g\n", r"3 of 4 lines without two sides, the first of them line 2: .* tab, not a comma"),
        (b"a\tb\ncaf\xe9\tc\n", "not UTF-8: line 2 holds the byte 0xe9; .*iconv -f latin1"),
        ("a\tb\n".encode("utf-16"), "is UTF-16LE, not UTF-8: convert it with `iconv"),
        ("a\tb\n".encode("utf-16-be"), "NUL byte.; if it is UTF-16BE, convert it with `iconv"),
        (b"ab\0\1\2", "is not text .line 1 holds a NUL byte."),
        (b"PK\x03\x04rest", "is a zip archive: unpack it"),
        (gzip.compress(b"a\tb\n" * 100, mtime=0)[:-9], "truncated or corrupt"),
        (lzma.compress(b"a\tb\n" * 100)[:-9], "truncated or corrupt"),
    ],
)
def test_a_file_that_is_not_a_dictionary_is_rejected_with_the_reason(tmp_path, content, message):
    path = tmp_path / "d.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        BilingualLexicon.load(path)


def test_a_tar_archive_is_rejected_with_advice_to_unpack_it(tmp_path):
    inner = write(tmp_path / "d.tei", TEI)
    with tarfile.open(tmp_path / "d.src.tar.xz", "w:xz") as archive:
        archive.add(inner, "d.tei")
    with pytest.raises(InputError, match="is a tar archive: unpack it"):
        BilingualLexicon.load(tmp_path / "d.src.tar.xz")


def test_affixes_are_skipped_and_counted_because_they_are_no_words(tmp_path, caplog):
    caplog.set_level("INFO")
    path = tmp_path / "en-sw.tsv"
    path.write_text("-ly\tkwa\nyou\t-ni\nki-\tthing\nbe\t\u2011li-\nself-made\t-1\ndash\t-\nto - go\tkwenda\n")
    kept = (("self-made", "-1"), ("dash", "-"), ("to - go", "kwenda"))
    assert BilingualLexicon.load(path).pairs == kept
    assert "4 entries with an affix (such as -ly → kwa) are skipped" in caplog.text
    caplog.clear()
    path.write_text("school\tshule\n-ness\tu-\n")
    assert BilingualLexicon.load(path).pairs == (("school", "shule"),)
    assert "an entry with an affix (-ness → u-) is skipped" in caplog.text
    path.write_text("-ness\tu-\n")
    with pytest.raises(InputError, match="only affixes such as -ness → u-: write words, and stems without a hyphen"):
        BilingualLexicon.load(path)


@pytest.mark.parametrize(("stems", "level"), [(4, "INFO"), (6, "WARNING")])
def test_many_stems_with_a_hyphen_are_worth_a_warning(tmp_path, caplog, stems, level):
    caplog.set_level("INFO")
    words = "".join(f"word{number}\tneno{number}\n" for number in range(100 - stems))
    (path := tmp_path / "en-sw.tsv").write_text(words + "".join(f"good{number}\t-zuri\n" for number in range(stems)))
    assert len(BilingualLexicon.load(path).pairs) == 100 - stems
    (record,) = [record for record in caplog.records if "with an affix" in record.message]
    assert record.levelname == level
    assert ("write them without a hyphen" in record.message) == (level == "WARNING")


@pytest.mark.parametrize("name", ["absent.txt", "absent.tei", "absent.index", "absent.dict.dz"])
def test_a_missing_file_is_named(tmp_path, name):
    with pytest.raises(InputError, match=f"{name} cannot be read .No such file"):
        BilingualLexicon.load(tmp_path / name)


def test_folders_with_no_dictionary_or_several_are_rejected(tmp_path):
    with pytest.raises(InputError, match="holds no dictionary"):
        BilingualLexicon.load(tmp_path)
    write_dictd(tmp_path)
    write(tmp_path / "other.tei", TEI)
    with pytest.raises(InputError, match=r"holds 2 dictionaries \(other.tei, test.index\)"):
        BilingualLexicon.load(tmp_path)


def test_half_of_a_dictd_pair_is_not_enough(tmp_path):
    index = write_dictd(tmp_path)
    (tmp_path / "test.dict.dz").rename(tmp_path / "moved.dict.dz")
    with pytest.raises(InputError, match=r"has no entries: test.dict or .dict.dz must be next to it"):
        BilingualLexicon.load(index)
    with pytest.raises(InputError, match=r"has no index: moved.index must be next to it"):
        BilingualLexicon.load(tmp_path / "moved.dict.dz")


def test_a_lone_dict_file_is_read_as_columns_unless_dictd_wrote_it(tmp_path):
    assert len(BilingualLexicon.load(write(tmp_path / "mine.dict", "house Haus\n"))) == 1
    with pytest.raises(InputError, match=r"has no index: theirs.index must be next to it"):
        BilingualLexicon.load(write(tmp_path / "theirs.dict", "\n00-database-info\nhouse /haʊs/\nHaus <n>\n"))


def test_damaged_dictd_files_are_rejected_with_the_line(tmp_path):
    index = write_dictd(tmp_path)
    whole = (tmp_path / "test.dict.dz").read_bytes()
    (tmp_path / "test.dict.dz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"test\.dict\.dz cannot be read to its end, the \.gz data is truncated"):
        BilingualLexicon.load(index)
    (tmp_path / "test.dict.dz").write_bytes(gzip.compress(b"short"))
    with pytest.raises(InputError, match=r"line \d+: the entry ends at byte \d+, but the dictionary has 5 bytes"):
        BilingualLexicon.load(index)
    for line in ("word\tA\n", f"word\tA\t{'B' * 3000}\n"):
        index.write_text(line)
        with pytest.raises(InputError, match=r"line 1: not `headword<TAB>offset<TAB>length`"):
            BilingualLexicon.load(index)


def test_tei_that_declares_entities_or_is_cut_off_is_rejected(tmp_path):
    bomb = '<?xml version="1.0"?>\n<!DOCTYPE TEI [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><TEI>&b;</TEI>'
    with pytest.raises(InputError, match="declares XML entities"):
        BilingualLexicon.load(write(tmp_path / "bomb.tei", bomb))
    with pytest.raises(InputError, match=r"not well-formed XML \(.*line \d+, column"):
        BilingualLexicon.load(write(tmp_path / "cut.tei", TEI[:-30]))
    (tmp_path / "wide.tei").write_bytes(bomb.encode("utf-16"))
    with pytest.raises(InputError, match="not in UTF-8"):
        BilingualLexicon.load(tmp_path / "wide.tei")


def test_a_bomb_is_rejected_in_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_LARGEST", 1 << 18)
    repeated = {"columns.tsv": b"a\tb\n", "long.tsv": b"a", "d.tei": b"<TEI><body><entry>", "deep.tei": b"<TEI>"}
    for name, content in repeated.items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content * (1 << 18), 1))
        with peak_memory_below(1 << 25), pytest.raises(InputError, match=r"bytes, more than any|nests more than 100"):
            BilingualLexicon.load(tmp_path / f"{name}.gz")


def test_a_word_as_long_as_a_book_is_skipped(tmp_path, caplog):
    path = write(tmp_path / "d.tsv", f"house\tHaus\n{'a' * 1_001}\tb\n")
    assert BilingualLexicon.load(path).pairs == (("house", "Haus"),)
    assert "1 entry of more than 1000 characters is skipped" in caplog.text


def test_pipes_and_devices_are_rejected_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(InputError, match="not a regular file"):
            BilingualLexicon.load(path)


@pytest.mark.parametrize("encoding", ["x-none", "shift_jis", "idna", "undefined"])
def test_tei_in_an_encoding_that_the_parser_cannot_read_is_rejected(tmp_path, encoding):
    content = TEI.replace('encoding="UTF-8"', f'encoding="{encoding}"')
    assert encoding in content
    with pytest.raises(InputError, match=r"d\.tei"):
        BilingualLexicon.load(write(tmp_path / "d.tei", content))


def test_deeply_nested_tei_is_rejected(tmp_path):
    content = f"<TEI><body><entry>{'<sense>' * 3000}{'</sense>' * 3000}</entry></body></TEI>"
    with pytest.raises(InputError, match="nests more than 100 elements"):
        BilingualLexicon.load(write(tmp_path / "d.tei", content))
