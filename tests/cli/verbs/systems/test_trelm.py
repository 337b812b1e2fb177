"""relexify trelm, and recipes with [trelm]."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import CharBPETokenizer, processors
from transformers import BertConfig, BertForPreTraining, PreTrainedTokenizerFast, XLMConfig, XLMWithLMHeadModel

from relexify.errors import InputError
from relexify.evidence.vectors import WordVectors
from relexify.pretrained.loading import load_model
from relexify.pretrained.tokenizers import train_joint_tokenizer
from relexify.recipes.file.recipe import read_recipe, recipe_text
from relexify.recipes.run import run_recipe
from relexify.systems.trelm import run as trelm_run
from relexify.systems.trelm.model.building import with_trilayer
from relexify.systems.trelm.options import Trelm
from relexify.systems.trelm.scores import trelm_scores
from relexify.tokens import vocabulary_of
from relexify.training.results.curve import Curve
from tests import pico
from tests.cli.command import assert_error, relexify

PHASES = {"commonality": 2, "transfer": 3, "specific": 2}
"""Steps of each phase."""


def every_phase(**values: object) -> tuple[str, ...]:
    """Settings that all phases have in common."""
    settings = [f"{phase}.{key}={value}" for phase in PHASES for key, value in values.items()]
    return tuple(word for setting in settings for word in ("--set", setting))


SHORT = (
    *(word for phase, steps in PHASES.items() for word in ("--set", f"{phase}.steps={steps}")),
    *every_phase(batch=4, length=32, evaluate_every=2, learning_rate=1e-3),
)


@dataclass(frozen=True)
class Texts:
    root: Path

    @property
    def model(self) -> Path:
        return self.root / "model"

    def options(self, *more: object) -> tuple[object, ...]:
        return (
            "--corpus", self.root / "xx.txt", "--source-corpus", self.root / "en.txt", "--held-out",
            self.root / "held.txt", "--source-held-out", self.root / "held-en.txt", "--bitext",
            self.root / "pairs.tsv", "--set", f"alignment={self.root / 'pairs.links'}",
            "--test-bitext", self.root / "test.tsv",
            "--languages", "en,xx", *SHORT, *more,
        )  # fmt: skip


@pytest.fixture(scope="module")
def texts(tmp_path_factory: Any) -> Texts:
    root = tmp_path_factory.mktemp("trelm")
    english, foreign = pico.sentences(80), pico.sentences(80, words=pico.foreign_words())
    tokenizer = pico.wordpiece(english + foreign, size=400)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertForPreTraining(
            BertConfig(
                vocab_size=len(tokenizer),
                hidden_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=32,
                max_position_embeddings=64,
                pad_token_id=0,
            )
        )
    model.config.architectures = ["BertForMaskedLM"]
    model.save_pretrained(root / "model")
    config = json.loads((root / "model" / "config.json").read_text())
    (root / "model" / "config.json").write_text(json.dumps(config | {"architectures": ["BertForMaskedLM"]}))
    tokenizer.save_pretrained(root / "model")
    for name, lines in (("en", english[:60]), ("xx", foreign[:60]), ("held", foreign[60:]), ("held-en", english[60:])):
        (root / f"{name}.txt").write_text("\n".join(lines))
    pairs = list(zip(english, foreign, strict=True))
    (root / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs[:60]))
    (root / "test.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs[60:65]))
    (root / "pairs.links").write_text("0-0 1-1 2-3\n" * 60)
    return Texts(root)


def parameters(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_model(folder).named_parameters())


def same(one: Path, other: Path) -> bool:
    first, second = parameters(one), parameters(other)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_a_transfer_with_the_tokens_of_another_is_rejected(texts: Texts, tmp_path: Path):
    given = ("--corpus", texts.root / "xx.txt", "--method", "random", "--vocab-size", "300", "--set", "score=false")
    assert relexify("transfer", texts.model, tmp_path / "graft", *given).status == 0
    outcome = relexify("trelm", pico.permute_tokens(tmp_path / "graft"), tmp_path / "out", *texts.options())
    assert_error(outcome, "is not the one that the embeddings were built for")


@pytest.fixture(scope="module")
def whole(texts: Texts, tmp_path_factory: Any) -> tuple[Path, Any]:
    """The result of a run that nobody stopped, and what it said."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELEXIFY_CACHE", str(folder / "cache"))
        patch.setenv("COLUMNS", "160")
        return folder / "out", relexify("trelm", texts.model, folder / "out", *texts.options())


def test_the_command_runs_all_phases_and_reports_scores(texts: Texts, whole: tuple[Path, Any]) -> None:
    output, outcome = whole
    assert outcome.status == 0, outcome.err
    assert "bits per word" in outcome.out
    assert len(re.findall(r"BLEU-\d", outcome.out)) == 8
    assert not (output.with_name("out.trelm")).exists()
    model = load_model(output)
    assert model.config.languages == ["en", "xx"]
    assert model.config.next_sentence  # the weights have the head, though the config does not say so
    notes = json.loads((output / "relexify.json").read_text())
    assert notes["trelm"]["objective"] == "cdlm"
    phases = ("specific", "commonality", "source-to-target", "target-to-source")
    for reported in (f"masked tokens of xx, {phase}" for phase in phases):
        assert reported in outcome.out
    page = (output / "report.html").read_text()
    assert "Further scores" in page
    assert f"{texts.model}, transferred with TreLM, trained for" in page
    assert page.count("BLEU-") == 8
    again = relexify("trelm", texts.model, output, *texts.options())
    assert again.status == 0, again.err
    assert re.findall(r"\d+\.\d{3} ", again.out) == re.findall(r"\d+\.\d{3} ", outcome.out)
    measured = relexify("evaluate", output, "--held-out", texts.root / "held.txt", "--set", "length=32")
    assert measured.status == 0, measured.err
    other = relexify("trelm", texts.model, output, *texts.options("--seed", 1))
    assert other.status == 2


def test_bits_per_word_are_those_of_the_perplexity_of_each_language(whole: tuple[Path, Any]) -> None:
    last, *earlier = trelm_scores(whole[0])
    points = json.loads((whole[0] / "training.json").read_text())
    assert 2**last.value == pytest.approx(points[-1]["perplexity"])
    assert [score.task for score in earlier[:2]] == [f"masked tokens of {name}, commonality" for name in ("en", "xx")]


def test_a_run_until_the_first_phase_needs_no_parallel_text(texts: Texts, tmp_path: Path) -> None:
    options = [*texts.options("--until", "commonality")]
    options[options.index("--test-bitext") + 1] = tmp_path / "missing.tsv"
    options += ["--set", f"alignment={tmp_path / 'missing.links'}"]
    position = options.index("--bitext")
    del options[position : position + 2]
    later = [*options, "--set", "until=specific"]
    needed = relexify("trelm", texts.model, tmp_path / "out", *later)
    assert (needed.status, "TreLM needs --bitext" in needed.err) == (2, True), needed.err
    outcome = relexify("trelm", texts.model, tmp_path / "out", *options)
    assert outcome.status == 0, outcome.err
    assert [score.task for score in trelm_scores(tmp_path / "out")] == [
        f"masked tokens of {name}, commonality" for name in ("en", "xx")
    ]
    assert "source-to-target" not in outcome.out
    before, after = with_trilayer(load_model(texts.model), ("en", "xx")), load_model(tmp_path / "out")
    layers = dict(before.model.backbone.encoder.named_parameters())
    assert all(torch.equal(layers[name], value) for name, value in after.model.backbone.encoder.named_parameters())
    assert not list(tmp_path.glob("out.*"))
    rejected = relexify("trelm", texts.model, tmp_path / "other", *texts.options("--until", "lunch"))
    assert (rejected.status, "lunch" in rejected.err) == (2, True)


TREE = """1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_
2\triver\t_\tNOUN\t_\t_\t3\tnsubj\t_\t_
3\twalks\t_\tVERB\t_\t_\t0\troot\t_\t_

"""


def test_tasks_are_fine_tuned_on_the_result(whole: tuple[Path, Any], tmp_path: Path) -> None:
    texts = {
        "parse": ("conllu", TREE, "LAS"),
        "nli": ("tsv", "the river\tit walks\tentailment\nthe book\tit reads\tneutral\n", "accuracy"),
        "pos": ("conllu", TREE, "accuracy"),
    }
    for task, (end, text, reported) in texts.items():
        files = []
        for name in ("train", "dev", "test"):
            (tmp_path / f"{task}-{name}.{end}").write_text(text * 4)
            files += [f"--{name}", tmp_path / f"{task}-{name}.{end}"]
        common = ("--set", "epochs=1", "--output", tmp_path / f"seeds-{task}", "--device", "cpu")
        measured = relexify("evaluate", whole[0], "--task", task, *files, *common)
        assert measured.status == 0, measured.err
        assert reported in measured.out


def test_a_run_that_is_interrupted_twice_resumes_to_the_same_bits(
    texts: Texts, whole: tuple[Path, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    def stop(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    for moment in ("combine_directions", "train_specific"):
        with monkeypatch.context() as patch:
            patch.setattr(trelm_run, moment, stop)
            assert relexify("trelm", texts.model, tmp_path / "out", *texts.options()).status != 0
        assert (tmp_path / "out.trelm" / "commonality").exists()
        assert (tmp_path / "out.trelm" / "combined").exists() == (moment == "train_specific")
        assert not (tmp_path / "out").exists()
        other = relexify("trelm", texts.model, tmp_path / "out", *texts.options("--objective", "tlm"))
        assert other.status == 2
        assert "unfinished work of another run" in other.err
    assert relexify("trelm", texts.model, tmp_path / "out", *texts.options()).status == 0
    assert same(tmp_path / "out", whole[0])


def test_models_and_options_that_no_phase_can_train_leave_nothing_behind(texts: Texts, tmp_path: Path) -> None:
    long = relexify("trelm", texts.model, tmp_path / "out", *texts.options(*every_phase(length=64)))
    assert (long.status, "more than the 63 tokens" in long.err) == (2, True), long.err
    odd = relexify("trelm", texts.model, tmp_path / "out", *texts.options(*every_phase(batch=3)))
    assert (odd.status, "odd" in odd.err) == (2, True), odd.err
    pico.gpt2(pico.byte_level()).save_pretrained(tmp_path / "gpt2")
    other = relexify("trelm", tmp_path / "gpt2", tmp_path / "out", *texts.options())
    assert (other.status, "type 'gpt2'" in other.err) == (2, True), other.err
    assert not list(tmp_path.glob("out*"))


def test_too_little_text_leaves_nothing_that_would_stop_the_corrected_command(texts: Texts, tmp_path: Path) -> None:
    short, out = tmp_path / "short.txt", tmp_path / "out"
    short.write_text("one line\n", "utf-8")
    command = "trelm", texts.model, out, *texts.options("--until", "commonality")
    index = command.index("--held-out")  # without it and the text after it, a part of the text is held out
    rejected = relexify(
        *(short if each == texts.root / "xx.txt" else each for each in command[:index]), *command[index + 2 :]
    )
    assert (rejected.status, "too few different lines" in rejected.err) == (2, True), rejected.err
    assert not out.with_name("out.trelm").exists()
    assert relexify(*command).status == 0


def test_without_a_trilayer_pairs_are_concatenated(texts: Texts, tmp_path: Path) -> None:
    rejected = relexify("trelm", texts.model, tmp_path / "out", *texts.options("--set", "trilayer=false"))
    assert rejected.status == 2
    assert "CdLM needs a TRILayer" in rejected.err
    options = texts.options("--set", "trilayer=false", "--objective", "tlm", "--set", "embedding_size=8")
    outcome = relexify("trelm", texts.model, tmp_path / "out", *options)
    assert outcome.status == 0, outcome.err
    model = load_model(tmp_path / "out")
    assert model.model.trilayer is None
    assert model.get_input_embeddings().weight.shape[1] == 8


def recipe(texts: Texts, folder: Path, more: str = "") -> Path:
    file = folder / "recipe.toml"
    phases = "".join(
        f"\n[trelm.{name}]\nsteps = 2\nbatch = 4\nlength = 32\nevaluate_every = 2\n"
        for name in ("commonality", "transfer", "specific")
    )
    file.write_text(
        f'output = "out"\nmodel = "{texts.model}"\ncorpus = "{texts.root}/xx.txt"\nheld_out = "{texts.root}/held.txt"\n'
        f'[trelm]\nlanguages = ["en", "xx"]\nsource_corpus = "{texts.root}/en.txt"\n'
        f'source_held_out = "{texts.root}/held-en.txt"\nbitext = "{texts.root}/pairs.tsv"\n'
        f'alignment = "{texts.root}/pairs.links"\n{more}{phases}'
    )
    return file


def test_a_recipe_has_the_options_of_the_command(texts: Texts, tmp_path: Path) -> None:
    read = read_recipe(recipe(texts, tmp_path, 'until = "commonality"\n'))
    assert (read.tables["trelm"].transfer.steps, read.tables["trelm"].transfer.learning_rate) == (2, 3e-5)
    assert (read.tables["trelm"].specific.learning_rate, read.tables["trelm"].specific.warmup) == (2e-5, 0.0)
    again = tmp_path / "again.toml"
    again.write_text(recipe_text(read))
    assert read_recipe(again) == read
    result = run_recipe(read)
    assert result.output == tmp_path / "out"
    assert load_model(tmp_path / "out").config.languages == ["en", "xx"]


def both_languages(texts: Texts) -> list[str]:
    return [line for name in ("en", "xx") for line in (texts.root / f"{name}.txt").read_text().split("\n")]


def with_transfer(file: Path, texts: Texts, joint: PreTrainedTokenizerFast) -> Path:
    """A recipe that first gives the model a joint vocabulary, with random vectors of its tokens."""
    joint.save_pretrained(file.parent / "joint")
    tokens = [token for token in vocabulary_of(joint).tokens if token]
    drawn = np.random.default_rng(0).normal(size=(len(tokens), 16)).astype(np.float32)
    WordVectors(tokens, drawn).save(file.parent / "tokens.safetensors")
    file.write_text(
        file.read_text()
        + f'\n[transfer]\nmethod = "trelm"\ntokenizer = "./joint"\nsource_corpus = "{texts.root}/en.txt"\n'
        + 'target_vectors = "tokens.safetensors"\ninitialisation = "fasttext-align"\naligned_by = "identical"\n'
    )
    return file


def test_one_recipe_gives_the_joint_vocabulary_and_runs_the_phases(texts: Texts, tmp_path: Path) -> None:
    joint = pico.wordpiece(both_languages(texts), size=350)
    file = with_transfer(recipe(texts, tmp_path), texts, joint)
    with pytest.raises(InputError, match="odd"):
        run_recipe(read_recipe(file, ["trelm.transfer.batch=3"]))
    assert not list(tmp_path.glob("out*")), "a graft was made for a run that cannot be"
    run_recipe(read_recipe(file))
    model = load_model(tmp_path / "out")
    assert model.get_input_embeddings().weight.shape == (len(joint), 16)
    start = load_model(texts.model, next_sentence=True)
    assert model.next_sentence.weight.shape == start.cls.seq_relationship.weight.shape
    assert not torch.equal(model.next_sentence.weight, start.cls.seq_relationship.weight), "the last phase trains it"
    notes = json.loads((tmp_path / "out" / "relexify.json").read_text())
    assert notes["graft"]["origins"]["precomputed"] > 200
    assert not list(tmp_path.glob("out.*"))


def xlm_tokenizer(folder: Path, lines: list[str]) -> PreTrainedTokenizerFast:
    """The tokenizer of an XLM, made of the two files that the Hub has, as docs/trelm.md says."""
    special = ["<s>", "</s>", "<pad>", "<unk>", "<special0>", "<special1>"]
    trained = CharBPETokenizer(suffix="</w>", lowercase=True)
    trained.train_from_iterator(lines, vocab_size=300, special_tokens=special, suffix="</w>", show_progress=False)
    trained.save_model(str(folder))
    backend = CharBPETokenizer.from_file(
        str(folder / "vocab.json"), str(folder / "merges.txt"), unk_token="<unk>", suffix="</w>", lowercase=True
    )
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    names = {"bos": "<s>", "cls": "<s>", "sep": "</s>", "eos": "</s>", "pad": "<pad>", "unk": "<unk>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend._tokenizer,
        mask_token="<special1>",
        **{f"{role}_token": name for role, name in names.items()},
    )


def test_an_xlm_gets_a_joint_vocabulary_and_runs_all_phases(texts: Texts, tmp_path: Path) -> None:
    tokenizer = xlm_tokenizer(tmp_path, both_languages(texts))
    sizes = {"emb_dim": 16, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 64, "n_langs": 1}
    special = {"bos_index": 0, "eos_index": 1, "pad_index": 2, "unk_index": 3, "mask_index": 5, "mask_token_id": 5}
    special |= {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = XLMWithLMHeadModel(XLMConfig(vocab_size=len(tokenizer), **sizes, **special))
    model.save_pretrained(tmp_path / "xlm")
    tokenizer.save_pretrained(tmp_path / "xlm")
    corpora = [texts.root / f"{name}.txt" for name in ("en", "xx")]
    joint = train_joint_tokenizer(corpora, like=tokenizer, vocab_size=250)
    file = with_transfer(recipe(texts, tmp_path), texts, joint)
    run_recipe(read_recipe(file, [f"model={tmp_path / 'xlm'}"]))
    result = load_model(tmp_path / "out")
    assert result.get_input_embeddings().weight.shape == (len(joint), 16)
    assert result.config.languages == ["en", "xx"]
    assert not result.config.next_sentence, "XLM has no such head"
    scored = {score.task for score in trelm_scores(tmp_path / "out")}
    assert {f"masked tokens of xx, {phase}" for phase in ("commonality", "source-to-target", "specific")} <= scored


@pytest.mark.parametrize(
    ("table", "names"),
    [
        ('runs = [{name = "a"}, {name = "b", changes.trelm.objective = "tlm"}]', ("a-seed0", "b-seed0")),
        ('seeds = [0, 1]\nruns = [{name = "a", changes.trelm.until = "commonality"}]', ("a-seed0", "a-seed1")),
    ],
)
def test_the_runs_of_a_comparison_have_different_objectives_and_seeds(
    texts: Texts, tmp_path: Path, table: str, names: tuple[str, str]
) -> None:
    file = recipe(texts, tmp_path)
    file.write_text(f"{file.read_text()}\n[compare]\n{table}\n")
    outcome = relexify("compare", file)
    assert outcome.status == 0, outcome.err
    ends = [Curve.load(tmp_path / "out" / "runs" / name / "curve.json").last.bits_per_byte for name in names]
    assert len(set(ends)) == 2, "two runs were the same"
    assert "| a" in (tmp_path / "out" / "comparison.md").read_text()


def test_conflicting_tables_are_rejected(texts: Texts, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"trelm\.objective is 'nmt': choose one of cdlm"):
        read_recipe(recipe(texts, tmp_path, 'objective = "nmt"\n'))
    file = recipe(texts, tmp_path)
    file.write_text(file.read_text() + "\n[training]\nsteps = 3\n")
    with pytest.raises(InputError, match=r"\[trelm\] and \[training\] do not go together"):
        read_recipe(file)
    with pytest.raises(InputError, match="needs `bitext`"):
        trelm_run.run_trelm(texts.model, tmp_path / "o", "x", Trelm(source_corpus="y"))
