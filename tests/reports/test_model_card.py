"""The model card: metadata that the Hub accepts, scores that were measured, and no path of this machine."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import shutil

import pytest
from huggingface_hub import ModelCard

import relexify as rx
from relexify.training.results.curve import Curve, Measurement
from tests import pico

CHATML = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A transfer of an instruct model, whose card names a license."""
    root = tmp_path_factory.mktemp("card")
    model, tokenizer = pico.llama(pico.qwen_layout()), pico.qwen_layout()
    tokenizer.chat_template = CHATML
    model.save_pretrained(root / "instruct")
    tokenizer.save_pretrained(root / "instruct")
    (root / "instruct" / "README.md").write_text("---\nlicense: mit\n---\n# Instruct\n")
    (root / "text.txt").write_text("\n".join(pico.sentences(300, seed=3, words=pico.foreign_words())))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELEXIFY_CACHE", str(root / "cache"))
        rx.transfer(
            rx.Transfer(
                model=str(root / "instruct"),
                output=root / "swahili",
                corpus=str(root / "text.txt"),
                method="fvt",
                vocab_size=350,
                held_out_bytes=300,
                language="sw",
            )
        )
    return root / "swahili"


def scores_in(card):
    """The table of scores of a card."""
    table = card.partition("## Scores")[2].partition("##")[0]
    return {name: float(value) for name, value in re.findall(r"^\| ([^|]*?) +\| +([\d.]+) \|$", table, re.MULTILINE)}


def test_the_metadata_is_what_the_hub_reads(folder):
    card = ModelCard.load(folder / "README.md")
    assert card.data.language == "sw"
    assert card.data.license == "mit"
    assert card.data.library_name == "transformers"
    assert card.data.pipeline_tag == "text-generation"
    assert {"relexify", "relexify:fvt"} <= set(card.data.tags)
    assert card.data.base_model is None  # a folder of this machine
    notes = json.loads((folder / "relexify.json").read_text())
    measured = notes["bits_per_byte_before_training"]
    # The Hub shows them as results of this model, so those of the source model and of baselines are not among them.
    assert [each.metric_value for each in card.data.eval_results] == [round(measured["fvt"], 4)]
    assert "README.md" in notes["files"]


def test_the_text_has_the_scores_and_no_path(folder):
    text = (folder / "README.md").read_text()
    notes = json.loads((folder / "relexify.json").read_text())
    assert f"{notes['bits_per_byte_before_training']['fvt']:.3f}" in text
    size = notes["held_out_text"]["bytes"]
    assert f"Bits per byte of {size:,} bytes of held-out text; lower is better. Random rows: the same tokenizer" in text
    assert "shuffled rows: the same tokenizer with the embeddings of the source model at random tokens." in text
    assert f"Written by relexify {rx.__version__}, with the seed 0." in text
    assert "Train it before use" in text
    assert str(folder.parent) not in text
    weights = hashlib.sha256((folder.parent / "instruct" / "model.safetensors").read_bytes()).hexdigest()
    assert re.search(rf"\| weights of the source model +\| `{weights}` \|", text)


def test_the_system_prompt_of_the_source_language_is_reported_and_the_template_kept(folder):
    assert "“You are a helpful assistant.”" in (folder / "README.md").read_text()
    tokenizer = rx.load_tokenizer(folder)
    written = tokenizer.apply_chat_template([{"role": "user", "content": "habari"}], tokenize=False)
    assert written.endswith("<|im_start|>user\nhabari<|im_end|>\n")
    start = tokenizer.convert_tokens_to_ids("<|im_start|>")
    assert tokenizer.encode(written, add_special_tokens=False).count(start) == 2
    assert not [result for result in rx.check(folder) if result.problems]


def test_names_make_no_markdown_and_no_python(folder, tmp_path):
    from relexify.reports.model_card import render_card

    hostile = shutil.copytree(folder, tmp_path / 'x"); import os #\n```\n# <img src=x>')
    text = render_card(hostile)
    assert '# x"); import os # \\`\\`\\` # \\<img src=x\\>\n' in text
    code = text.partition("```python\n")[2].partition("\n```\n")[0]
    names = [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)]
    assert names == [hostile.name] * 2


def test_a_trained_model_has_the_score_of_the_selected_step(folder, tmp_path):
    from relexify.reports.model_card import render_card

    trained = shutil.copytree(folder, tmp_path / "trained")
    notes = json.loads((trained / "relexify.json").read_text())
    (trained / "relexify.json").write_text(json.dumps({**notes, "training": pico.training_notes(selected_step=5)}))
    Curve.of(Measurement(step, step * 64, "all", 3 - step / 10, 9.0) for step in (0, 5, 9)).save(
        trained / "training.json"
    )
    text = render_card(trained)
    assert "Trained for 9 steps on 576 tokens." in text
    assert "2.500" in text
    assert "Train it before use" not in text


def test_scores_have_the_names_of_the_report_and_a_baseline_is_this_model_if_it_is_the_method(folder, tmp_path):
    from relexify.reports.model_card import render_card

    shuffled = shutil.copytree(folder, tmp_path / "shuffled")
    notes = json.loads((shuffled / "relexify.json").read_text())
    notes |= {"method": "shuffle", "bits_per_byte_before_training": {"original": 3.0, "random": 5.0, "shuffle": 4.0}}
    (shuffled / "relexify.json").write_text(json.dumps(notes))
    text = render_card(shuffled)
    assert scores_in(text) == {"original model and tokenizer": 3.0, "random rows": 5.0, "this model": 4.0}
    assert [each.metric_value for each in ModelCard(text).data.eval_results] == [4.0]
    assert "Random rows: " in text
    assert "shuffled rows: " not in text, "which are this model"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "held-out text"),
        ({"bits_per_byte_before_training": {}}, "the corpus"),
        ({"bits_per_byte_before_training": {}, "not_scored": "too large"}, "held-out text"),
    ],
)
def test_the_card_says_which_text_the_length_was_measured_on(folder, tmp_path, changes, text):
    from relexify.reports.model_card import render_card

    model = shutil.copytree(folder, tmp_path / "model")
    notes = json.loads((model / "relexify.json").read_text())
    (model / "relexify.json").write_text(json.dumps(notes | changes))
    measured = notes["held_out_text"]
    sentence = f"On {measured['bytes']:,} bytes of {text}, it needs {measured['target_tokens']:,} tokens, "
    assert sentence + f"the source model {measured['source_tokens']:,}." in render_card(model)


def test_a_packaged_model_is_described_exactly(folder, tmp_path):
    from relexify.reports.model_card import render_card

    packaged = shutil.copytree(folder, tmp_path / "packaged")
    notes = json.loads((packaged / "relexify.json").read_text())
    notes["provenance"]["command"]["model"] = "smollm2-135m"
    (packaged / "relexify.json").write_text(json.dumps(notes))
    text = render_card(packaged)
    assert "base_model: HuggingFaceTB/SmolLM2-135M-Instruct" in text
    assert "license: apache-2.0" in text
    assert "SmolLM2-135M-Instruct, dequantised from 4 bits" in text


def test_a_model_that_was_compressed_and_never_transferred_is_described(folder, tmp_path):
    from relexify.reports.model_card import render_card

    report = rx.compress(folder.parent / "instruct", tmp_path / "small", rx.Compression(rank=4))
    text = render_card(tmp_path / "small")
    assert (
        f"instruct, with a compressed embedding. relexify replaced its {report.embedding_before:,} parameters by "
        f"{report.embedding_after:,}, with a relative error of {report.error:.2g}." in text
    )
    assert "rained" not in text  # no training, and no language that it should be trained on
    assert "language" not in text
    assert "report.html" not in text


@pytest.mark.usefixtures("cache")
def test_a_trained_model_that_was_compressed_and_expanded_is_described_by_what_was_done_last(folder, tmp_path):
    from relexify.reports.html.model import render_model
    from relexify.reports.model_card import render_card

    training = rx.Training(steps=2, batch=2, length=16, held_out_bytes=300)
    result = rx.train(folder, tmp_path / "trained", folder.parent / "text.txt", training)
    rx.compress(tmp_path / "trained", tmp_path / "small", rx.Compression(rank=4))
    rx.expand(tmp_path / "small", tmp_path / "plain")
    rx.compress(tmp_path / "plain", tmp_path / "again", rx.Compression(rank=2))
    expanded = "relexify expanded its compressed one; the logits are the same."
    for name, title, beginning in (
        ("small", "trained, compressed", "trained, with a compressed embedding."),
        ("plain", "small, expanded", f"small, with an ordinary embedding. {expanded}"),
        ("again", "plain, compressed", "plain, with a compressed embedding."),
    ):
        assert title in render_model(tmp_path / name)
        text = render_card(tmp_path / name)
        assert f"# {name}\n\n{beginning}" in text
        assert "trained was made by relexify from instruct for the language sw with the method fvt." in text
        assert f"The model that it was made from was trained on {result.tokens:,} tokens." in text
        assert "with a new language" not in text
        assert "not been trained" not in text
        assert "Train it before use" not in text
        assert ModelCard(text).data.language == "sw"
