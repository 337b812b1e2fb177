"""Text by URL is read like files, and downloaded once."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import fsspec
import pytest

from relexify.errors import InputError, MissingExtra
from relexify.recipes.file.paths import absolute_text, written_text
from relexify.text import Corpus

LINES = ["Ng’ombe wangu ni mkubwa.", "Über allem steht das."]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RELEXIFY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def store() -> Iterator[Any]:
    """A file system in memory with text in it."""
    system = fsspec.filesystem("memory")
    system.pipe("/store/news/a.txt", LINES[0].encode())
    system.pipe("/store/news/b.txt.gz", gzip.compress(LINES[1].encode()))
    system.pipe("/store/news/notes.md", b"no corpus")
    system.pipe("/store/records.jsonl", json.dumps({"body": LINES[0]}).encode())
    yield system
    system.rm("/store", recursive=True)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("memory://store/news/a.txt", LINES[:1]),
        ("memory://store/news", LINES),
        ("memory://store/news/*.gz", LINES[1:]),
        ("memory://store/records.jsonl#body", LINES[:1]),
    ],
)
def test_a_url_is_read_like_a_path(store: Any, url: str, expected: list[str]) -> None:
    assert list(Corpus.open(url)) == expected


@pytest.mark.parametrize("name", ["r.jsonl?download=true", f"r.jsonl?signature={'x/y' * 99}", f"{'r' * 300}.jsonl.gz"])
def test_the_format_is_that_of_the_name_without_a_query(store: Any, name: str) -> None:
    store.pipe(f"/store/{name}", json.dumps({"text": LINES[0]}).encode())
    assert list(Corpus.open(f"memory://store/{name}")) == LINES[:1]


def test_a_file_is_downloaded_once_and_again_if_it_changes(store: Any, cache: Path) -> None:
    url = "memory://store/news/a.txt"
    first = Corpus.open(url)
    assert Corpus.open(url).fingerprint() == first.fingerprint()
    assert len(list((cache / "download").iterdir())) == 1
    store.pipe("/store/news/a.txt", b"changed")
    assert list(Corpus.open(url)) == ["changed"]
    assert Corpus.open(url).fingerprint() != first.fingerprint()


@pytest.mark.parametrize("field", ["ETag", "Last-Modified", "size"])
def test_a_file_is_downloaded_again_if_only_the_server_says_that_it_changed(
    store: Any, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    url, kind = "memory://store/news/a.txt", type(store)
    info = kind.info
    monkeypatch.setattr(kind, "ukey", lambda self, path: path)  # as over https
    for value, text in enumerate(["one", "two"]):
        store.pipe("/store/news/a.txt", text.encode())
        monkeypatch.setattr(kind, "info", lambda self, path, value=value: {**info(self, path), field: value})
        assert list(Corpus.open(url)) == [text]


def test_a_file_is_fetched_once_from_a_server_that_does_not_say_what_it_is() -> None:
    pytest.importorskip("aiohttp")
    content, sent = ("\n".join(LINES) + "\n").encode() * 50_000, []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()
            with suppress(ConnectionError):  # the client may leave after the header
                for start in range(0, len(content), 1 << 16):
                    sent.append(self.wfile.write(content[start : start + (1 << 16)]))

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        corpus = Corpus.open(f"http://127.0.0.1:{server.server_port}/text.txt")
        assert corpus.size() == len(content)
    finally:
        server.shutdown()
        server.server_close()
    assert len(content) <= sum(sent) < 1.9 * len(content)


def test_a_download_that_breaks_off_is_reported_and_not_kept(store: Any, cache: Path, monkeypatch: Any) -> None:
    class Broken:
        def __enter__(self) -> Broken:
            return self

        def __exit__(self, *error: object) -> None: ...

        def read(self, size: int) -> bytes:
            raise ConnectionResetError("the other side hung up")

    monkeypatch.setattr(type(store), "open", lambda *arguments, **options: Broken())
    with pytest.raises(InputError, match=r"cannot be downloaded to its end .*hung up"):
        Corpus.open("memory://store/news/a.txt")
    monkeypatch.undo()
    monkeypatch.setenv("RELEXIFY_CACHE", str(cache))
    assert list(Corpus.open("memory://store/news/a.txt")) == LINES[:1]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("memory://store/none.txt", "matches no file"),
        ("nosuchprotocol://bucket/a.txt", "cannot be opened .*nosuchprotocol"),
    ],
)
def test_a_url_that_leads_nowhere_is_an_input_error(store: Any, url: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        Corpus.open(url)


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("https://example.org/a.txt", MissingExtra, r"aiohttp: pip install 'relexify\[corpora\]'"),
        ("s3://bucket/a.txt", InputError, r"\(Install s3fs\): install the named package"),
    ],
)
def test_a_missing_package_is_named(monkeypatch: Any, url: str, error: type[Exception], message: str) -> None:
    def fails(url: str) -> None:
        raise ImportError("Install s3fs")

    monkeypatch.setattr("fsspec.core.url_to_fs", fails)
    with pytest.raises(error, match=message):
        Corpus.open(url)


def test_urls_in_recipes_stay_as_they_are(tmp_path: Path) -> None:
    url = "s3://bucket/a.txt"
    assert absolute_text(url, tmp_path) == written_text(url) == url
