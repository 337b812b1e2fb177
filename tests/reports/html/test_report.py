"""The HTML report: what it says, that it needs nothing else, and that a browser shows it."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import shlex
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from huggingface_hub import ModelCard

import relexify as rx
from relexify.errors import InputError
from relexify.reports import Comparison, write_report
from relexify.reports.html.atlas import build_atlas, readable_token, script_of
from relexify.reports.html.comparison import render_comparison
from relexify.reports.html.curves import draw_curves
from relexify.reports.html.elements import dots, notice, stacked_bars, table
from relexify.reports.html.model import _sentences, render_model
from relexify.reports.html.page import Section, render
from relexify.reports.model_card import render_card
from relexify.scoring import Score
from relexify.steps import STEPS, ModelChange, Step, StepReport
from relexify.storage.files import record_file
from relexify.storage.notes import read_notes
from relexify.systems.transfer.assessment.samples import SegmentedLine, samples_of, segment_samples
from relexify.text import Corpus
from relexify.training.results.curve import Curve, Measurement
from tests import pico
from tests.reports.html.conftest import MARKUP
from tests.reports.html.examples import big_atlas


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "report.html").read_text()


def copied(page: str) -> str:
    """Return a page without the marks that keep options in one line, as commands are copied from it."""
    return re.sub(r'<span class="option">(.*?)</span>', r"\1", page)


def unpacked(page: str) -> tuple[dict, dict[str, np.ndarray], list[list[str]]]:
    """Read the atlas in a page as the browser does."""
    encoded = re.search(r'<script id="atlas-data"[^>]*>([^<]*)</script>', page)[1]
    content = gzip.decompress(base64.b64decode(encoded))
    (size,) = struct.unpack("<I", content[:4])
    header, offset = json.loads(content[4 : 4 + size]), 4 + size + -size % 4
    arrays = {}
    for name, kind, length in header["arrays"]:
        arrays[name] = np.frombuffer(content, f"<{kind}", length, offset)
        offset += arrays[name].nbytes + -arrays[name].nbytes % 4
    texts = []
    for length in header["texts"]:
        texts.append(content[offset : offset + length].decode().split("\0"))
        offset += length
    return header, arrays, texts


def test_a_transfer_writes_a_report_with_every_section(page, folder):
    for section in ("summary", "next", "sentences", "scores", "origins", "atlas", "evidence", "facts"):
        assert f'<section id="{section}"' in page
        assert f'<a href="#{section}">{section.capitalize()}</a>' in page
    notes = json.loads((folder / "relexify.json").read_text())
    hashes = notes["provenance"]["inputs"]
    assert {"model", "corpus", "tokenizer"} <= set(hashes)
    assert all(digest in page for digest in hashes.values())
    assert "report.html" in notes["files"]
    assert re.search(r"<small>[\d,]+ instead of [\d,]+; fewer is better</small>", page)
    scores = notes["bits_per_byte_before_training"]
    for name, shown in {"fvt": "fvt", "original": "original model and tokenizer", "shuffle": "shuffled rows"}.items():
        assert re.search(rf"<span>{shown}</span><i [^>]*></i><b>{scores[name]:.3f}</b>", page)


def test_a_report_says_what_to_do_next_and_nothing_twice(page, folder, tmp_path):
    text = folder.parent / "text.txt"
    words = ["relexify", "train", "<model>", "<model>-trained", "--corpus", str(text)]
    training = html.escape(shlex.join([*words, "--length", "64", "--steps", "20", "--batch", "8"]))
    assert training in copied(page)
    assert len(re.findall(">[^<]*efore training<", page)) == 2  # the title of the section, a key figure
    assert "divergence" not in page
    assert '<p>Inspect some tokens:</p><pre class="commands" tabindex="0"><code>relexify inspect' in page
    assert "Next, " not in page
    assert "the difference to them is what all of these gain together" in page
    written = datetime.fromtimestamp((folder / "config.json").stat().st_mtime, UTC)
    assert f"{written:%d %B %Y}" in page
    assert page.index('id="facts"') < page.index("sha256 of its content")
    poor = shutil.copytree(folder, tmp_path / "poor")
    notes = json.loads((poor / "relexify.json").read_text())
    notes["verdict"]["start"] = "poor"
    notes["held_out_text"]["whole_bytes"] = 60_000
    (poor / "relexify.json").write_text(json.dumps(notes))
    shown = rx.report(poor).read_text()
    assert "Repair what was found" in shown
    scored = "bytes of held-out text were scored, since scoring takes long: --set held_out_bytes=60000"
    assert copied(shown).count(scored) == 1, "beside the scores, and not with the evidence too"
    assert "relexify train" not in shown


def test_the_verdict_comes_first_and_the_test_of_the_alignment_beside_its_table(folder, tmp_path):
    model = shutil.copytree(folder, tmp_path / "aligned")
    notes = json.loads((model / "relexify.json").read_text())
    quality = {"precision": 3 / 128, "csls_precision": 0.0, "words": 128}
    notes["alignment"] = {"pairs_used": 100, "coverage": 1.0, "quality": quality}
    (model / "relexify.json").write_text(json.dumps(notes))
    page = rx.report(model).read_text()
    assert re.search(r'Summary</h2><p class="notice [a-z]+"><b>This is a poor start\.</b>', page)
    assert "<b>2.3%</b><span>of held-out words are translated</span>" in page
    assert page.index('id="evidence"') < page.index("The nearest word is a listed translation for 3 of 128")


def test_a_remark_that_says_nothing_about_quality_comes_after_the_numbers(folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "other")
    notes = json.loads((other / "relexify.json").read_text())
    (other / "relexify.json").write_text(json.dumps({**notes, "system_prompt": "You are helpful."}))
    summary = render_model(other).partition('id="next"')[0]
    assert summary.index('class="notice') < summary.index('class="figures"') < summary.index("You are helpful.")
    assert "or edit chat_template.jinja" in summary


@pytest.mark.parametrize(
    ("scores", "shown"),
    [
        ({"original": 3.0, "random": 5.0, "shuffle": 4.0}, "original model and tokenizer 3.000; random rows 5.000"),
        ({"shuffle": 4.0}, ""),
    ],
)
def test_a_baseline_is_not_compared_with_itself(scores, shown, folder, tmp_path):
    model = shutil.copytree(folder, tmp_path / "model")
    notes = json.loads((model / "relexify.json").read_text())
    notes |= {"method": "shuffle", "bits_per_byte_before_training": scores}
    (model / "relexify.json").write_text(json.dumps(notes))
    compared = "; ".join(filter(None, ["lower is better", shown]))
    assert f">{compared}<" in rx.report(model).read_text()


def test_a_report_refers_to_nothing_outside_and_escapes_all_text(page):
    assert not re.findall(r"""(?:src|href)\s*=\s*["']?[^"'#]|url\(|@import|https?://""", page)
    assert "default-src 'none'" in page
    assert MARKUP not in page
    assert "<model>" not in page
    assert "&lt;model&gt;" in page


def test_the_summary_says_what_to_do_next_and_lists_many_reasons_one_by_one(page):
    summary = re.search(r'<section id="summary".*?</section>', page, re.DOTALL)[0]
    assert re.search(r'start\.</b> <span class="next">Next: [a-z].*\. <a href="#next">', summary)
    long = notice("good", "A good start.", ("It needs 2.2 bits.", "No <more> than that.", "Done."))
    assert re.findall(r'class="item">(.*?)</span>', long) == [
        "It needs 2.2 bits.",
        "No &lt;more&gt; than that.",
        "Done.",
    ]
    assert "item" not in notice("good", "A good start.", ("It needs 2.2 bits.",))
    assert '(<span class="option">--corpus</span>)' in notice("poor", "A poor start.", ("Give more text (--corpus).",))


def test_one_sentence_is_shown_and_the_others_on_request(page):
    sentences = re.search(r'<section id="sentences".*?</section>', page, re.DOTALL)[0]
    assert sentences.count('class="sentence"') == 3
    assert sentences.partition("<details>")[0].count('class="sentence"') == 1
    assert "<summary>Show 2 more sentences</summary>" in sentences


def test_the_same_folder_gives_the_same_bytes(page, folder):
    assert rx.report(folder).read_text() == page


def test_the_report_of_a_finished_run_does_not_wait_for_torch(folder, tmp_path):
    model = shutil.copytree(folder, tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(
        json.dumps({**config, "n_positions": 1024})
    )  # most models are longer than this one
    points = [Measurement(step, step * 100, "everything", 3 - step / 50, 9.0, 2.0) for step in (0, 10)]
    Curve.of(points).save(record_file(model / "training.json"))
    code = (
        "import sys, relexify as rx\n"
        "rx.reports, rx.report(sys.argv[1])\n"
        "print(sorted({'torch', 'transformers', 'huggingface_hub', 'matplotlib'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, str(model)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_atlas_has_every_token_with_its_sources_and_neighbours(page, folder):
    header, arrays, (tokens, sources) = unpacked(page)
    mixture = rx.Mixture.load(folder / "mixture.safetensors")
    assert tokens == [readable_token(token, mixture.target_spelling) for token in mixture.target_tokens]
    assert np.array_equal(arrays["origins"], mixture.origin)
    starts = np.concatenate([[0], np.cumsum(arrays["sourceCounts"], dtype=np.int64)])
    for id in range(0, len(tokens), 7):
        shown = range(starts[id], starts[id + 1])
        found = {sources[arrays["sourceIds"][entry]]: arrays["sourceWeights"][entry] * 0.001 for entry in shown}
        expected = mixture.sources(id, 5)
        weights = sorted((abs(weight) for _, weight in expected), reverse=True)
        assert sorted(map(abs, found.values()), reverse=True) == pytest.approx(weights, abs=5e-4)
        if len({abs(weight) for _, weight in mixture.sources(id)}) == len(mixture.sources(id)):
            assert set(found) == {readable_token(token, mixture.source_spelling) for token, _ in expected}
    neighbours = arrays["neighbours"].reshape(len(tokens), header["neighboursPerToken"])
    assert not (neighbours == np.arange(len(tokens))[:, None]).any()
    assert neighbours.max() < len(tokens)


def test_neighbours_are_tokens_with_similar_embeddings():
    rng = np.random.default_rng(0)
    source, target = pico.byte_level(), pico.byte_level(pico.sentences(words=pico.foreign_words()))
    mixture = rx.methods.fvt(source, target)
    groups = rng.integers(0, 20, len(mixture))
    embedding = rng.normal(size=(20, 64))[groups] + 0.1 * rng.normal(size=(len(mixture), 64))
    atlas = build_atlas(mixture, embedding)
    assert (groups[atlas.neighbours] == groups[:, None]).mean() > 0.9
    # On the map, a token is nearer to its neighbours than to the rest.
    places = atlas.positions / 65535
    near = np.linalg.norm(places[atlas.neighbours] - places[:, None], axis=2).mean()
    far = np.linalg.norm(places[rng.permutation(len(places))] - places, axis=1).mean()
    assert near < 0.5 * far


def test_a_model_whose_embedding_is_unknown_has_an_atlas_without_a_map():
    tokenizer = pico.byte_level()
    atlas = build_atlas(rx.methods.fvt(tokenizer, tokenizer), None)
    assert atlas.positions.size == atlas.neighbours.size == 0
    assert gzip.decompress(atlas.pack())


@pytest.mark.parametrize("value", [0.0, 1.0, 1e-42])
def test_tokens_with_equal_embeddings_have_an_atlas_without_a_map(value):
    tokenizer = pico.byte_level()
    mixture = rx.methods.fvt(tokenizer, tokenizer)
    atlas = build_atlas(mixture, np.full((len(mixture), 8), value))
    assert atlas.positions.size == atlas.neighbours.size == 0
    assert gzip.decompress(atlas.pack())


@pytest.mark.parametrize("exponent", [-100, 100])
def test_huge_and_tiny_embeddings_have_the_map_of_others(exponent):
    tokenizer = pico.byte_level()
    mixture = rx.methods.fvt(tokenizer, tokenizer)
    embedding = np.random.default_rng(0).normal(size=(len(mixture), 16)).astype(np.float32)
    expected, found = build_atlas(mixture, embedding), build_atlas(mixture, np.ldexp(embedding, exponent))
    assert (found.neighbours == expected.neighbours).mean() > 0.99


def test_an_embedding_with_nan_has_no_map_and_is_called_so():
    tokenizer = pico.byte_level()
    mixture = rx.methods.fvt(tokenizer, tokenizer)
    embedding = np.ones((len(mixture), 16), np.float32)
    embedding[3, 3] = np.nan
    with pytest.raises(InputError, match="the embedding has NaN or infinite values, so it has no map"):
        build_atlas(mixture, embedding)


def test_fifty_thousand_tokens_fit_into_five_megabytes():
    atlas = big_atlas(50_000)
    page = render("big", "", [Section("atlas", "Atlas", "x")], data=atlas.pack())
    assert len(page.encode()) < 5_000_000


def test_the_horizontal_axes_of_plots_are_aligned_whatever_their_numbers_are():
    starts = set()
    for values in ((1.45, 1.35), (5.2, 5.0), (12.0, 3.0), (0.4, 0.2)):
        plot = draw_curves({"loss": list(enumerate(values))})
        starts.add(re.search(r'class="rule" d="M(\d+) ', plot)[1])
    assert len(starts) == 1


@pytest.mark.parametrize("last", [6, 50, 1_000, 250_000])
def test_the_last_number_of_an_axis_is_not_cut_off_on_a_phone(last):
    plot = draw_curves({"loss": [(0, 2.0), (last, 1.0)]})
    width = int(re.search(r'viewBox="0 0 (\d+) ', plot)[1])
    numbers = re.findall(r'class="x" x="([\d.]+)" [^>]*>([\d,]+)<', plot)
    assert numbers[-1][1] == f"{last:,}"
    # A digit is 16.5 wide in the font of 26 that phones have.
    assert all(float(x) + 16.5 / 2 * len(text) <= width for x, text in numbers)


def test_the_start_of_a_short_training_is_not_cut_off():
    scores = [(0, 2.311), (2, 2.201), (4, 2.178), (6, 2.170)]
    assert "upper edge" not in draw_curves({"held-out text": scores})
    assert "upper edge" in draw_curves({"one": scores, "other": scores})


def test_training_adds_curves(folder, tmp_path):
    trained = shutil.copytree(folder, tmp_path / "trained")
    points = [Measurement(step, step * 100, "everything", 3 - step / 50, 9_000.0, 2.0) for step in range(0, 100, 10)]
    Curve.of(points).save(record_file(trained / "training.json"))
    page = rx.report(trained).read_text()
    assert page.count("<svg") == 2
    assert "(selected)" not in page, "it is the last one"
    assert '<p class="notice open"><b>The model has improved, but in too short a training to judge it by.</b>' in page
    assert "<p>Train it further.</p>" in page, "with what is not known"
    notes = json.loads((trained / "relexify.json").read_text())
    command = {"corpus": ["sw.txt"], "held_out": ["h.txt"], "options": {"batch": 4, "held_out_bytes": 2_000}}
    training = pico.training_notes(selected_step=90, command=command)
    (trained / "relexify.json").write_text(json.dumps(notes | {"trained_from": "start", "training": training}))
    again = "--corpus sw.txt --held-out h.txt --set held_out_bytes=2000 --length 64"
    commands = copied(rx.report(trained).read_text())
    assert f"relexify train start trained-1000 {again}" in commands, "with the default steps and batch"
    assert "relexify estimate trained --length 64 --measure" in commands
    Curve.of(replace(point, tokens=1_000 * point.step) for point in points).save(trained / "training.json")
    page = rx.report(trained).read_text()
    assert '<p class="notice good"><b>The model is still improving.</b>' in page
    again = "--corpus sw.txt --held-out h.txt --batch 4 --set held_out_bytes=2000 --steps 360"
    assert f"relexify train start trained-360 {again}" in copied(page)


def test_the_verdict_on_a_training_has_the_score_of_the_model_that_was_kept(folder, tmp_path):
    trained = shutil.copytree(folder, tmp_path / "trained")
    points = [Measurement(step, 100, "everything", bits, 9.0) for step, bits in ((0, 3.0), (10, 2.0), (20, 2.5))]
    Curve.of(points).save(record_file(trained / "training.json"))
    assert "Held-out text takes 2.500 bits per byte" in rx.report(trained).read_text()
    notes = json.loads((trained / "relexify.json").read_text())
    training = pico.training_notes(selected_step=10)
    (trained / "relexify.json").write_text(json.dumps(notes | {"training": training}))
    page = rx.report(trained).read_text()
    assert "Held-out text takes 2.000 bits per byte, 3.000 at step 0" in page
    assert "10 (selected)" in page
    assert "<b>2.000</b><span>bits per byte at step 10</span><small>3.000 at step 0;" in page


def test_small_differences_can_be_seen_but_do_not_look_large():
    def positions(**values):
        found = re.findall(r'<span>(\w+)</span><i style="--at:([\d.]+)"></i><b>([\d.]+)</b>', dots(values, marked="a"))
        assert {name: number for name, _, number in found} == {name: f"{value:.3f}" for name, value in values.items()}
        return {name: float(place) for name, place, _ in found}

    usual = positions(a=2.226, b=2.299, c=2.603, d=3.381)
    assert list(usual) == sorted(usual, key=usual.__getitem__)
    assert usual["b"] - usual["a"] > 0.05
    level = positions(a=2.226, b=2.230)
    assert level["b"] - level["a"] < 0.05
    assert positions(a=2.0) == {"a": pytest.approx(0.5)}
    assert positions(a=0.0) == {"a": pytest.approx(0.5)}
    axis = re.findall(r'<small style="--at:([\d.]+)">([\d.]+)</small>', dots({"a": 2.226, "d": 3.381}))
    assert len(axis) > 3
    assert all(0 <= float(place) <= 1 for place, _ in axis)
    assert "hidden" in dots({"a": 2.0, "lost": float("inf")})


def test_bars_show_every_count_and_no_sum_of_shares():
    drawn = stacked_bars(
        {"Arabic": {"copied": 1}, "Latin": {"copied": 1_200}, "text": {"copied": 1.0}}, {"copied": "x"}
    )
    assert re.findall(r"<b>(.*?)</b>", drawn) == ["1", "1,200", ""]


def test_report_and_card_of_two_languages_have_the_score_of_each_and_that_of_the_target_first(folder, tmp_path):
    trained = shutil.copytree(folder, tmp_path / "trained")
    points = [
        Measurement(step, 100, "all", (source + target) / 2, 9.0, by_language={"en": source, "id": target})
        for step, source, target in ((0, 1.0, 3.0), (10, 1.2, 2.0))
    ]
    Curve.of(points).save(record_file(trained / "training.json"))
    page = rx.report(trained).read_text()
    assert "Held-out text (id) takes 2.000 bits per byte, 3.000 at step 0" in page
    assert "Held-out text (en) takes 1.200, 1.000 at step 0." in page
    assert re.findall(r"<b>([\d.]+)</b><span>bits per byte \((\w+)\) at", page) == [("2.000", "id"), ("1.200", "en")]
    card = render_card(trained)
    for name, value in {"before this training (id)": 3.0, "before this training (en)": 1.0}.items():
        assert re.search(rf"\| {re.escape(name)} +\| +{value:.3f} \|", card)
    results = ModelCard(card).data.eval_results
    assert {each.metric_name.removeprefix("bits per byte, "): each.metric_value for each in results} == {
        "this model (id)": 2.0,
        "this model (en)": 1.2,
    }


def test_the_scores_of_a_training_and_of_the_transfer_are_kept_apart(folder, tmp_path):
    trained = shutil.copytree(folder, tmp_path / "trained")
    Curve.of(Measurement(step, 100, "all", 3 - step / 9, 9_000.0) for step in (0, 9)).save(
        record_file(trained / "training.json")
    )
    notes = json.loads((trained / "relexify.json").read_text())
    training = pico.training_notes(selected_step=9, from_trained=False)
    (trained / "relexify.json").write_text(json.dumps(notes | {"training": training}))
    page = rx.report(trained).read_text()
    summary, training, scores = (
        re.search(rf'<section id="{name}".*?</section>', page, re.DOTALL)[0]
        for name in ("summary", "training", "scores")
    )
    before = f"{notes['bits_per_byte_before_training']['fvt']:.3f}"
    assert "before" not in summary.lower()
    assert before not in summary
    assert f"needs 3.000 bits per byte here, in windows of 64 tokens, and {before} there" in training
    assert "3.000" not in scores
    assert "good start" in scores


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ({"provenance": {"command": {"score": False}}}, "the transfer was run with score=false"),
        (
            {"not_scored": "needs about 9 GB, 2 GB free"},
            "the model does not fit into memory (needs about 9 GB, 2 GB free)",
        ),
        ({}, "the model has no language-modelling head"),
    ],
)
def test_a_report_without_scores_says_why(folder, tmp_path, why, said):
    unscored = shutil.copytree(folder, tmp_path / "unscored")
    notes = json.loads((unscored / "relexify.json").read_text())
    provenance = {**notes["provenance"], **why.get("provenance", {})}
    notes |= {"bits_per_byte_before_training": {}, **why, "provenance": provenance}
    (unscored / "relexify.json").write_text(json.dumps(notes))
    section = re.search(r'<section id="scores".*?</section>', rx.report(unscored).read_text(), re.DOTALL)[0]
    assert f"<p>Not scored: {said}.</p>" in section


def test_a_comparison_has_a_report_too(tmp_path):
    curves = {
        name: (Curve.of(Measurement(step, step, "all", start - step / 9, 5.0) for step in (0, 1, 2)),)
        for name, start in (("fvt", 3.0), ("random", 4.0))
    }
    written = write_report(Comparison("A & B", curves), tmp_path)
    assert tmp_path / "report.html" in written
    page = (tmp_path / "report.html").read_text()
    assert "A &amp; B" in page
    assert page.count('class="line"') == 2
    assert rx.report(tmp_path).read_text() == page


def test_a_folder_of_something_else_is_rejected(tmp_path):
    with pytest.raises(InputError, match="was not written by relexify"):
        rx.report(tmp_path)


@pytest.mark.parametrize(
    ("text", "script"),
    [
        (" shule", "Latin"),
        ("学校", "Chinese characters"),
        ("مەكتەپ", "Arabic"),
        ("школа", "Cyrillic"),
        ("12,", "no letters"),
    ],
)
def test_the_script_of_a_token_is_that_of_its_letters(text, script):
    assert script_of(text) == script


def test_cells_are_escaped_and_bold_ones_marked():
    assert "<b>1</b>" in table([["a", "b"], ["<i>", "**1**"]])
    assert "<i>" not in table([["a", "b"], ["<i>", "**1**"]])
    assert ">foo*</bdi>" in table([["token", "count"], ["foo*", "1"]])


def test_a_step_that_is_added_later_is_in_the_report_and_on_the_card(folder, monkeypatch):
    verdict = re.search(r'<p class="notice.*?</p>', render_model(folder))[0]
    change = ModelChange("dreamed", "which dreams.", [Score("dreams", "depth", 7.5, True, 9)])
    later = Step(
        table="later",
        options=dict,
        order=99,
        summary="…",
        check=lambda options, context: None,
        run=lambda options, context, model, output: None,
        report=StepReport(summarise_notes=lambda notes: ["It has dreamed."], change=lambda notes: change),
    )
    monkeypatch.setattr(STEPS, "_entries", {**STEPS, "later": later})
    page = render_model(folder)
    assert "gpt2, dreamed" in page
    assert "depth ↑" in page
    assert page.index('id="evidence"') < page.index("<p>It has dreamed.</p>")
    assert verdict in page
    assert "gpt2, which dreams." in render_card(folder)


@pytest.mark.parametrize("known", [{}, {"trained_from": "start"}])
def test_the_report_of_trelm_names_the_source_model_if_it_is_known(known, folder, tmp_path):
    model = shutil.copytree(folder, tmp_path / "model")
    notes = {key: value for key, value in read_notes(model).items() if key not in ("provenance", "trained_from")}
    score = {"task": "masked tokens", "metric": "bits per word", "value": 7.5, "higher_is_better": False, "examples": 9}
    notes |= known | {"trelm": {"until": "specific", "phases": [score | {"later": 1}], "translation": []}}
    (model / "relexify.json").write_text(json.dumps(notes))
    page = rx.report(model).read_text()
    assert ("start, transferred with TreLM" if known else "A model transferred with TreLM") in page
    assert "bits per word ↓" in page


def _compared(**values):
    curves = {
        run: (Curve.of(Measurement(step, step * 1000, "all", value, 2**value, 1.0) for step, value in found.items()),)
        for run, found in values.items()
    }
    return render_comparison(Comparison("runs", curves))


def test_a_run_that_diverges_is_named_and_does_not_flatten_the_other_curves():
    calm, close = {0: 3.0, 10: 2.0, 20: 1.5}, {0: 3.2, 10: 2.1, 20: 1.7}
    page = _compared(calm=calm, close=close, wild={0: 3.0, 10: 90.0, 20: 40.0}, lost={0: 3.0, 20: float("nan")})
    assert "<b>calm is the best.</b> Its score is 1.500 bits per byte; the next, close, has 1.700." in page
    assert "<b>wild got worse in training.</b> It starts with 3.000 bits per byte and ends with 40.000" in page
    assert "<b>lost diverged.</b>" in page
    assert "larger values are at the upper edge" in page
    assert "the end of close" in page  # the reference of the training effort
    points = re.findall(r'cy="([\d.]+)" r="3"><title>(\w+: [\d.]+)', page)
    heights = {name: float(y) for y, name in points}
    assert heights["calm: 1.5000"] - heights["calm: 3.0000"] > 100
    assert heights["wild: 90.0000"] < heights["close: 3.2000"]
    assert "larger values" not in _compared(calm=calm, close=close)


def test_only_the_headline_of_a_remark_is_bold_whatever_the_sentences_begin_with():
    curves = {
        run: (Curve.of([Measurement(0, 0, "all", 3.0, 9.0), Measurement(9, 90_000, "all", end, 9.0)]),)
        for run, end in (("v1. Blend", 1.0), ("fvt", 2.0))
    }
    settings = {"v1. Blend": {"transfer.unigram_prior": False}, "fvt": {"transfer.unigram_prior": True}}
    page = render_comparison(Comparison("runs", curves, settings=settings))
    assert '<b>Not all runs have the unigram prior.</b> <span class="item">fvt has it, v1. Blend does not,' in page
    assert "<b>v1. Blend is the best.</b> Its score is 1.000" in page


def test_a_curve_that_falls_is_never_a_flat_line_at_the_upper_edge():
    blend, fvt = {0: 2.431, 1: 2.42, 2: 2.409, 3: 2.374}, {0: 3.038, 1: 2.9, 2: 2.841, 3: 2.75}
    page = _compared(blend=blend, fvt=fvt)
    assert "larger values" not in page
    heights = [float(y) for y in re.findall(r'cy="([\d.]+)" r="3"><title>fvt', page)]
    assert heights == sorted(set(heights))
    assert heights[-1] - heights[0] > 50
    assert re.findall(r'<text class="x"[^>]*>(\d+)<', page) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("end", [90.0, 80.0, 79.9])
def test_a_curve_far_above_the_others_is_left_out_and_named(end):
    page = _compared(calm={0: 3.0, 10: 2.0, 20: 1.5}, close={0: 3.2, 10: 2.1, 20: 1.7}, wild={0: 80.0, 20: end})
    assert "; wild would be above the plot" in page
    assert "<title>wild" not in page


def test_short_curves_are_drawn_whole_and_lines_of_one_colour_can_be_told_apart():
    page = _compared(**{f"run{index}": {0: 3.0 + 0.1 * index, 4: 2.0 + 0.01 * index} for index in range(9)})
    assert "larger values" not in page
    assert page.count('class="line again"') == page.count('<i class="again"') == 2


def test_one_curve_is_named_in_its_caption_and_numbers_of_an_axis_have_the_same_decimals():
    alone = draw_curves({"training loss": [(2, 7.07), (4, 6.5), (6, 7.01)]}, label="nats per token")
    assert "<figcaption>training loss, nats per token</figcaption>" in alone
    assert "legend" not in alone
    assert re.findall(r'class="y"[^>]*>([^<]*)<', alone) == ["6.6", "6.8", "7.0"]
    assert draw_curves({"a": [(0, 1.0)], "b": [(0, 2.0)]}).count("<span>") == 2
    assert 'aria-label="nats per token against steps: training loss"' in alone
    lengths = draw_curves({"text": [(0, 0.4), (500, 0.3)]}, label="tokens per byte", unit="added token")
    assert 'aria-label="tokens per byte against added tokens: text"' in lengths


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1e6, 3e6), ["1000000", "1500000", "2000000", "2500000", "3000000"]),
        ((1e-6, 9e-6), ["0.000002", "0.000004", "0.000006", "0.000008"]),
        ((2e-12, 9e-12), ["0.000000000002", "0.000000000004", "0.000000000006", "0.000000000008"]),
        ((100.0, 100.0002), ["100.00000", "100.00005", "100.00010", "100.00015", "100.00020"]),
        ((1.0, 4.0), ["1", "2", "3", "4"]),
    ],
)
def test_large_and_small_values_have_an_axis_with_numbers_that_differ(values, expected):
    plot = draw_curves({"a": list(enumerate(values))})
    assert re.findall(r'class="y"[^>]*>([^<]*)<', plot) == expected


def test_a_sentence_ends_with_an_ellipsis_if_it_was_cut_and_raised_numbers_are_explained_where_they_are():
    plain, raised = (("Habari", 1), (" ya", 1)), (("Habari", 1), ("؟", 2))
    explained = "A raised number is the number of tokens"
    page = _sentences([SegmentedLine("", plain, plain, is_cut=True), SegmentedLine("", raised, plain)])
    first, others = page.split("<details>")
    assert first.count(" …</p>") == 2
    assert " …</p>" not in others
    assert explained not in first, "it has no raised number"
    assert others.count(explained) == 1
    assert (
        explained
        in _sentences([SegmentedLine("", raised, plain), SegmentedLine("", plain, plain)]).split("<details>")[0]
    )
    assert explained not in _sentences([SegmentedLine("", plain, plain)])
    assert _sentences([]) == ""


def test_a_long_line_is_recorded_as_cut(folder):
    source = pico.byte_level()
    lines = ["neno " * 40, "habari ya asubuhi, rafiki yangu mpendwa sana"]
    samples = segment_samples(Corpus.from_lines(lines), source, source)
    assert {sample.text.startswith("neno"): sample.is_cut for sample in samples} == {True: True, False: False}
    notes = json.loads((folder / "relexify.json").read_text())
    assert all("is_cut" in sample for sample in notes["samples"])
    del notes["samples"][0]["is_cut"]  # of an earlier version
    assert not samples_of(notes)[0].is_cut
