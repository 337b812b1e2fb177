"""FreeDict dictionaries in TEI, an XML format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from relexify.errors import InputError
from relexify.evidence.lexicon.dictd import ASIDE
from relexify.evidence.lexicon.files import check_size, tidy
from relexify.text.decoding import open_decompressed

__all__ = ["read_tei"]

_BLOCK_BYTES = 1 << 20
_DEEPEST = 100  # levels of elements; published dictionaries have about ten


def read_tei(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (headword, translation) pairs, with one entry in memory at a time.

    Headwords are `entry/form/orth`; translations are the quotes of every `cit` of type `trans` outside examples, or
    the `tr` elements of older files. Remarks in brackets are dropped.

    Raises:
        InputError: The file is missing, not well-formed, or declares entities, which could expand to any size.
    """
    _check_bytes(path)
    with open_decompressed(path) as stream:
        parser = ElementTree.iterparse(stream, events=("start", "end"))
        body: ElementTree.Element | None = None
        depth = 0
        try:
            for event, element in parser:
                name = _name(element)
                depth += 1 if event == "start" else -1
                if depth > _DEEPEST:
                    raise InputError(
                        f"{path} nests more than {_DEEPEST} elements, which no dictionary does: check that it is the "
                        "right file"
                    )
                if event == "start" and name == "body":
                    body = element
                elif event == "end" and name == "entry":
                    yield from _entry_pairs(element)
                    (element if body is None else body).clear()
        except ElementTree.ParseError as error:
            raise InputError(f"{path} is not well-formed XML ({error}): download it again") from error
        except (LookupError, ValueError) as error:  # the parser looks up the declared encoding among Python's codecs
            raise InputError(
                f"{path} declares an encoding that cannot be read ({error}): convert it to UTF-8, and declare UTF-8"
            ) from error


def _check_bytes(path: Path) -> None:
    """Reject a file that is too large, is in UTF-16, or declares entities, which the XML parser would expand."""
    declaration, tail, size = b"<!ENTITY", b"", 0
    with open_decompressed(path) as stream:
        while block := stream.read(_BLOCK_BYTES):
            size += len(block)
            check_size(size, path)
            if b"\0" in block:
                raise InputError(f"{path} is not in UTF-8: convert it with `iconv -f utf-16 -t utf-8`")
            if declaration in tail + block:
                raise InputError(f"{path} declares XML entities, which are not expanded: remove its DOCTYPE")
            tail = block[-len(declaration) :]


def _entry_pairs(entry: ElementTree.Element) -> Iterator[tuple[str, str]]:
    # Inflected forms are nested inside a form, and are not headwords.
    spellings = (_text(child) for form in entry if _name(form) == "form" for child in form if _name(child) == "orth")
    headwords = list(filter(None, spellings))
    for translation in _translations(entry):
        for headword in headwords:
            yield headword, translation


def _translations(element: ElementTree.Element) -> Iterator[str]:
    for child in element:
        name, kind = _name(child), child.get("type")
        if name == "cit" and kind in ("trans", "translation"):
            yield from (word for quote in child if _name(quote) == "quote" and (word := _text(quote)))
        elif name == "tr":
            yield from filter(None, [_text(child)])
        elif name != "cit":
            yield from _translations(child)


def _name(element: ElementTree.Element) -> str:
    """Return the element's name without its namespace; comments have no name."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _text(element: ElementTree.Element) -> str:
    return tidy(ASIDE.sub(" ", "".join(element.itertext())))
