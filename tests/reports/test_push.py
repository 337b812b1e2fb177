"""Uploads, against a server that speaks the part of the Hub's protocol that they need."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from huggingface_hub import constants

import relexify as rx
from relexify.errors import InputError, OutputError
from relexify.grafting import graft
from relexify.methods.fvt import fvt
from relexify.storage.documents import write_documents
from relexify.storage.files import record_file
from relexify.tokens import train_tokenizer_like
from tests import pico


class StandIn(BaseHTTPRequestHandler):
    """A Hub with one user, which keeps what it is sent in the server's `files`, `objects` and `created`."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server = self.server
        if self.headers.get("Authorization") != "Bearer hf_test":
            return self.answer({"error": "not logged in"}, 401)
        if self.path == "/api/repos/create":
            server.created.append(json.loads(body))
            return self.answer({"url": f"{server.address}/jane/model", "id": "jane/model"})
        if self.path == "/api/validate-yaml":
            server.cards.append(json.loads(body)["content"])
            return self.answer({"warnings": [], "errors": []})
        if "/preupload/" in self.path:
            names = [entry["path"] for entry in json.loads(body)["files"]]
            modes = [{"path": name, "uploadMode": mode(name), "shouldIgnore": False} for name in names]
            return self.answer({"files": modes})
        if self.path.endswith("/info/lfs/objects/batch"):
            wanted = json.loads(body)["objects"]
            objects = [
                {**each, "actions": {"upload": {"href": f"{server.address}/lfs/{each['oid']}"}}} for each in wanted
            ]
            return self.answer({"transfer": "basic", "objects": objects})
        if "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    server.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
                elif line["key"] == "lfsFile":
                    server.files[line["value"]["path"]] = server.objects[line["value"]["oid"]]
            return self.answer({"commitUrl": f"{server.address}/jane/model/commit/abc", "commitOid": "abc"})
        return self.answer({}, 404)

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.objects[hashlib.sha256(content).hexdigest()] = content
        self.answer({})

    def do_GET(self) -> None:
        self.answer({"name": "jane", "type": "user", "siblings": [], "sha": "abc", "id": "jane/model"})

    do_HEAD = do_GET

    def answer(self, content: dict, status: int = 200) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


def mode(name: str) -> str:
    return "lfs" if name.endswith(".safetensors") else "regular"


@pytest.fixture
def hub(monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    server.files, server.objects, server.created, server.cards = {}, {}, [], []
    server.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(constants, "ENDPOINT", server.address)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # the protocol of a server of its own
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def folder(tmp_path):
    model, source = pico.pair("gpt2")
    lines = pico.sentences(words=pico.foreign_words(), seed=3)
    target = train_tokenizer_like(source, lambda: lines, 350)
    return graft(model, target, fvt(source, target)).save(tmp_path / "model")


def test_a_push_uploads_every_file_with_its_card_and_report(hub, folder):
    assert rx.push(folder, "jane/model", private=True) == f"{hub.address}/jane/model/commit/abc"
    assert hub.created[0]["name"] == "model"
    assert hub.created[0].get("private") or hub.created[0].get("visibility") == "private"
    assert hub.files == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(hub.cards) == {(folder / "README.md").read_text()}
    assert {"README.md", "report.html", "model.safetensors"} <= set(hub.files)


def test_hidden_files_are_not_uploaded(hub, folder):
    (folder / ".cache").mkdir()
    (folder / "notes" / ".git").mkdir(parents=True)
    for name in (".env", ".cache/token", "notes/.netrc", "notes/.git/config", "LICENSE", "notes/data.txt"):
        (folder / name).write_text("hf_secret")
    rx.push(folder, "jane/model")
    assert {name for name, content in hub.files.items() if content == b"hf_secret"} == {"LICENSE", "notes/data.txt"}


def test_the_card_of_an_upload_loads_the_model_by_its_name_on_the_hub_and_a_missing_language_is_reported(
    hub, folder, caplog
):
    rx.push(folder, "jane/model")
    card = hub.files["README.md"].decode()
    assert card.count('from_pretrained("jane/model")') == 2
    assert "names no language" in caplog.text
    notes = json.loads((folder / "relexify.json").read_text())
    (folder / "relexify.json").write_text(json.dumps({**notes, "provenance": {"command": {"language": "sw"}}}))
    caplog.clear()
    rx.push(folder, "jane/model")
    assert "language: sw" in hub.files["README.md"].decode()
    assert not caplog.text


def test_paths_of_this_machine_in_the_notes_are_reported(hub, folder, caplog):
    notes = json.loads((folder / "relexify.json").read_text())
    command = {"language": "sw", "corpus": ["/home/jane/interviews.txt", "public.txt"], "separator": "/"}
    (folder / "relexify.json").write_text(json.dumps({**notes, "provenance": {"command": command}}))
    rx.push(folder, "jane/model")
    assert "name files with their paths on this machine (/home/jane/interviews.txt):" in caplog.text


def test_a_broken_graft_is_not_uploaded(hub, folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": 9}))
    with pytest.raises(InputError, match=r"is broken .*eos_token_id"):
        rx.push(folder, "jane/model")
    assert not hub.created


def test_a_hub_that_rejects_the_upload_is_reported_in_a_sentence(hub, folder, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(OutputError, match=r"could not be uploaded to jane/model .*hf auth login"):
        rx.push(folder, "jane/model")
    for name in ("not a name", "model"):
        with pytest.raises(InputError, match="is not the name of a repository: write it as USER/NAME"):
            rx.push(folder, name)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(OutputError, match="could not be uploaded"):
        rx.push(folder, "jane/model")


def test_an_edited_card_is_kept_and_reported_unless_it_is_to_be_rewritten(hub, folder, caplog):
    rx.push(folder, "jane/model")
    written = (folder / "README.md").read_text()
    edited = written.replace("# model", "# The first model of our language") + "\nWritten by Jane.\n"
    (folder / "README.md").write_text(edited)
    caplog.clear()
    rx.push(folder, "jane/other")
    assert hub.files["README.md"].decode() == edited == (folder / "README.md").read_text()
    assert "was edited since relexify wrote it, and is uploaded unchanged" in caplog.text
    assert "does not contain jane/other, the name by which others load the model" in caplog.text
    caplog.clear()
    rx.push(folder, "jane/model", rewrite_card=True)
    assert hub.files["README.md"].decode() == written == (folder / "README.md").read_text()
    assert "was edited" not in caplog.text
    rx.push(folder, "jane/other")  # unedited again
    assert 'from_pretrained("jane/other")' in hub.files["README.md"].decode()


def test_a_card_that_an_interrupted_push_left_without_its_hash_is_not_called_edited(hub, folder, caplog):
    card = folder / "README.md"
    write_documents(folder)
    record_file(card, sha256="of another card, which was never written")
    rx.push(folder, "jane/model")
    assert "was edited" not in caplog.text
    assert 'from_pretrained("jane/model")' in card.read_text()


def test_a_card_that_cannot_be_written_is_reported_and_one_that_need_not_be_is_uploaded(hub, folder):
    rx.push(folder, "jane/model")
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    rx.push(folder, "jane/model")
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    (folder / "README.md").unlink()
    (folder / "README.md").mkdir()
    with pytest.raises(OutputError, match=r"README\.md could not be written .*upload a copy of it"):
        rx.push(folder, "jane/model")
