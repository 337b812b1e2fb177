"""Find the sources of a corpus: files, folders, glob patterns, URLs, Hub data sets."""

from __future__ import annotations

import glob
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from relexify.errors import InputError
from relexify.storage.files import missing_file
from relexify.text.decoding import JSON_SUFFIXES, format_suffix, read_first_bytes
from relexify.text.remote import download_files, is_hub_data_set, is_url, parse_hub_name
from relexify.text.sources import DataSet, HubDataSet, JsonLines, Parquet, Source, TextFile

__all__ = ["describe_type", "find_sources"]


def find_sources(source: object, field: str) -> tuple[Source, ...]:
    """Find the sources that a name, several names or a `datasets` object refer to.

    Args:
        source: The names; `NAME#FIELD` selects a field other than the default.
        field: The default field or column with the text.

    Raises:
        InputError: Nothing is found, or the source is of another type.
    """
    datasets = sys.modules.get("datasets")  # already imported if the source is one of its objects
    if datasets is not None and isinstance(source, datasets.Dataset | datasets.IterableDataset):
        return (DataSet(source, field),)
    if isinstance(source, str | Path):
        names: list[str | Path] = [source]
    elif isinstance(source, Iterable) and not isinstance(source, Mapping | bytes):
        names = list(source)
    else:
        names = []
    if not names or not all(isinstance(name, str | Path) for name in names):
        raise InputError(f"a corpus cannot be read from {describe_type(source)}: give paths, or use Corpus.from_lines")
    if not all(str(name).strip() for name in names if isinstance(name, str)):  # an unset shell variable
        raise InputError("the name of a corpus is empty: give a file, a folder or hf:NAME")
    return tuple(each for name in names for each in _find(name, field))


def describe_type(source: object) -> str:
    """Describe an unexpected object in a few words, for messages."""
    if isinstance(source, Mapping):
        return f"a {type(source).__name__} with {', '.join(map(str, source))}"
    return f"a {type(source).__name__}"


def _find(name: str | Path, field: str) -> list[Source]:
    """Find the sources that one name refers to."""
    path = Path(name).expanduser()
    try:
        name, named_field = _split_field(name)
        if isinstance(name, str) and is_hub_data_set(name) and not is_url(name):
            return [HubDataSet(*parse_hub_name(name), named_field or field)]
        path = Path(name).expanduser()
        if isinstance(name, str) and is_url(name):
            files = download_files(name, lambda file: format_suffix(file) in _SUFFIXES)
        elif path.is_dir():
            files = [file for file in sorted(path.rglob("*")) if file.is_file() and format_suffix(file) in _SUFFIXES]
            if not files:
                raise InputError(f"{path} has no corpus files: give a folder with {', '.join(_SUFFIXES)} files")
            _check_no_model(files)
        elif path.exists():
            files = [path]
        else:
            files = sorted(Path(match) for match in glob.glob(str(path), recursive=True) if Path(match).is_file())
            if not files and not glob.has_magic(str(path)):
                raise missing_file(path)
            if not files:
                raise InputError(f"{str(path)[:200]} matches no file: check the name")
            _check_no_model(files)
    except OSError as error:
        raise InputError(f"{str(path)[:80]} cannot be opened ({error.strerror}): give a path") from error
    sources = [_file(file, named_field or field) for file in files]
    if named_field and all(type(source) is TextFile for source in sources):
        raise InputError(f"{path} is plain text without fields, but #{named_field} was given: remove #{named_field}")
    return sources


def _split_field(name: str | Path) -> tuple[str | Path, str | None]:
    """Split `NAME#FIELD`, unless a file has exactly that name."""
    text = str(name)
    bare, _, field = text.rpartition("#")
    if not bare or not field or "/" in field:
        return name, None
    path = Path(text).expanduser()
    if path.exists() or glob.glob(str(path), recursive=True):
        return name, None
    return bare, field


def _check_no_model(files: Iterable[Path]) -> None:
    """Reject a folder or pattern that includes a model: its config.json would be read as text."""
    for folder in sorted({file.parent for file in files if file.name in _MODEL_FILES}):
        if (folder / "config.json").is_file() and (weights := sorted(folder.glob("*.safetensors"))):
            raise InputError(
                f"{folder} is a model folder, not text: it has config.json and {weights[0].name}; move it elsewhere, "
                "or name the files with text"
            )


def _file(path: Path, field: str) -> Source:
    """Return the source that reads a file of this format."""
    if not path.is_file():
        raise InputError(f"{path} is not a regular file: write the text to one, because a corpus is read repeatedly")
    if format_suffix(path) == ".parquet" or read_first_bytes(path).startswith(b"PAR1"):
        return Parquet(path, field)
    return JsonLines(path, field) if format_suffix(path) in JSON_SUFFIXES else TextFile(path)


_SUFFIXES = (".txt", *JSON_SUFFIXES, ".parquet")
_MODEL_FILES = ("config.json", "merges.txt", "tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt")
"""Files of a model and its tokenizer that look like text."""
