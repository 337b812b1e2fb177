"""Names of Hub data sets, and files on other machines, by URL.

Any URL that fsspec can open is accepted, such as `s3://`, `gs://`, `https://` and `hf://`.

A corpus is read several times: to measure its size, to train a tokenizer and vectors, and to pack it. A file is
therefore downloaded once into the cache, under its URL and version, instead of being streamed each time. Over https,
the version is the ETag, date and size that the server reports; if it reports none of them, a change is not detected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from relexify.errors import InputError, MissingExtra, RelexifyError, first_line
from relexify.progress import track
from relexify.storage.cache import cached_folder

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

__all__ = ["download_files", "is_hub_data_set", "is_url", "parse_hub_name"]

_BLOCK = 1 << 20
_MAX_NAME_LENGTH = 60  # characters of up to 4 bytes each; file systems allow names of 255 bytes
_HUB = "hf:"
_HTTP = ("http://", "https://")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://")


def is_hub_data_set(name: object) -> bool:
    """Whether a name is a data set of the Hub, `hf:NAME[:CONFIG[:SPLIT]]`, rather than a path."""
    return str(name).startswith(_HUB)


def parse_hub_name(name: str) -> tuple[str, str | None, str]:
    """Return the path, the config and the split in `hf:NAME[:CONFIG[:SPLIT]]`; the split is `train` if not given.

    Raises:
        InputError: The name is empty, or has more than three parts.
    """
    parts = name.removeprefix(_HUB).split(":")
    if not parts[0] or len(parts) > 3:
        raise InputError(f"{name} is not a Hub data set: give hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT")
    path, config, split = [*parts, "", ""][:3]
    return path, config or None, split or "train"


def is_url(name: object) -> bool:
    """Whether a name is a URL rather than a path."""
    return isinstance(name, str) and _URL.match(name) is not None


def download_files(url: str, is_text: Callable[[Path], bool]) -> list[Path]:
    """Download a file, the text files of a folder, or those that match a pattern, unless the cache has them.

    Args:
        url: A URL that fsspec can open.
        is_text: Whether a file of a folder is a text file, judging by its name.

    Returns:
        The downloaded files, sorted by their remote path.

    Raises:
        InputError: The URL cannot be opened, or no file exists there.
        MissingExtra: The URL begins with https, and the package aiohttp is not installed.
    """
    from fsspec.core import url_to_fs

    try:
        system, path = url_to_fs(url)
        if url.startswith(_HTTP) and is_text(Path(_name(path))) and "*" not in path:
            remote_files = [path]  # isdir() and glob() would request the whole file, to look for links in it
        elif system.isdir(path):
            remote_files = [file for file in system.find(path) if is_text(Path(_name(file)))]
        else:
            remote_files = [file for file in system.glob(path) if system.isfile(file)]
        files = [_download(system, file) for file in sorted(remote_files)]
    except RelexifyError:
        raise
    except ImportError as error:
        if url.startswith(_HTTP):
            raise MissingExtra("aiohttp", f"reading {url[:200]}", "corpora") from error
        raise InputError(f"{url[:200]} cannot be opened ({first_line(error)}): install the named package") from error
    except Exception as error:  # each protocol of fsspec raises its own exceptions
        raise InputError(
            f"{url[:200]} cannot be opened ({first_line(error)}): check the URL, the network and the permissions"
        ) from error
    if not files:
        raise InputError(f"{url[:200]} matches no file: check the URL")
    return files


def _download(system: AbstractFileSystem, path: str) -> Path:
    """Return the local copy of a file; download it unless the cache has this version of it."""
    name = _name(path)

    def write(folder: Path) -> None:
        (folder / "file").mkdir()
        with open(folder / "file" / name, "wb") as stream, track(f"downloading {name}", system.size(path)) as advance:
            for block in _read(system, path):
                stream.write(block)
                advance(len(block))

    details = system.info(path)
    version = {field: details.get(field) for field in ("ETag", "Last-Modified", "size")}  # not in `ukey` over https
    key = {"url": system.unstrip_protocol(path), "version": system.ukey(path), **version}
    return cached_folder("download", key, write) / "file" / name


def _name(path: str) -> str:
    """Return the name for a downloaded file: without the query, and only its last `_MAX_NAME_LENGTH` characters."""
    return PurePosixPath(path.partition("?")[0]).name[-_MAX_NAME_LENGTH:]


def _read(system: AbstractFileSystem, path: str) -> Iterator[bytes]:
    """Yield the content of a file.

    Read errors become an `InputError` here; otherwise they would be reported as a failure to write the cache.
    """
    try:
        with system.open(path, "rb") as stream:
            while block := stream.read(_BLOCK):
                yield block
    except Exception as error:
        raise InputError(f"{path} cannot be downloaded to its end ({first_line(error)}): try again") from error
