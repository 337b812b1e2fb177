"""A transfer end to end from Python: its cache, its step in a run, and its result read again."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers import normalizers

from relexify.errors import EvidenceError, InputError, OutputError, VocabularyError
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors import VectorTraining
from relexify.grafting import check
from relexify.methods.baselines import random
from relexify.methods.registry import METHODS, Initialisation
from relexify.mixture import PrecomputedRows
from relexify.pretrained.loading import load_tokenizer
from relexify.pretrained.runtime import runnable
from relexify.progress import Advance, report_to
from relexify.steps import STEPS, RunContext, Variant
from relexify.storage.arrays import load_arrays, save_arrays
from relexify.storage.fingerprint import fingerprint
from relexify.storage.notes import read_notes
from relexify.systems.transfer import checks, initialisation
from relexify.systems.transfer import prior as prior_module
from relexify.systems.transfer import recipe as recipe_module
from relexify.systems.transfer import run as run_module
from relexify.systems.transfer.assessment import scores as scores_module
from relexify.systems.transfer.assessment.start import BASELINES
from relexify.systems.transfer.assessment.summary import summarise_transfer
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.run import load_transfer, run_transfer
from relexify.text import Corpus
from relexify.training import recipe as training_recipe
from relexify.training.options import Training
from relexify.training.run import train
from tests import pico


@pytest.fixture
def options(tmp_path, cache):
    pico.saved("gpt2", tmp_path / "model")
    (tmp_path / "source.txt").write_text("\n".join(pico.sentences(200)))
    text = [*pico.sentences(400, words=pico.foreign_words()), *pico.sentences(40)]
    (tmp_path / "target.txt").write_text("\n".join(text))
    return Transfer(
        model=str(tmp_path / "model"),
        output=tmp_path / "out",
        corpus=tmp_path / "target.txt",
        source_corpus=tmp_path / "source.txt",
        method="wechsel",
        vocab_size=300,
        vectors=VectorTraining(width=8, epochs=1, minimum_count=1),
        score=False,
    )


def test_a_tokenizer_with_more_tokens_than_the_model_has_rows_is_rejected_before_any_work(options, cache, tmp_path):
    tokenizer = pico.pair("gpt2")[1]
    tokenizer.add_tokens(["added"])
    tokenizer.save_pretrained(tmp_path / "model")
    with pytest.raises(VocabularyError, match="has 401 tokens, the model only 400 embeddings"):
        run_transfer(options)
    assert not list(cache.glob("tokenizer/*"))


@pytest.mark.parametrize("keep_source", [False, True])
@pytest.mark.parametrize("family", ["gpt2", "llama untied"])
@pytest.mark.parametrize("share", [0.005, 0.5, 1.0])
def test_an_embedding_that_is_partly_or_all_zero_gives_a_warning_or_an_error(
    options, tmp_path, caplog, family, share, keep_source
):
    model, tokenizer = pico.pair(family)
    with torch.no_grad():
        model.get_input_embeddings().weight[: int(share * len(tokenizer))] = 0
    model.save_pretrained(tmp_path / "zeros")
    tokenizer.save_pretrained(tmp_path / "zeros")
    options = replace(options, model=str(tmp_path / "zeros"), method="blend", keep_source=keep_source, added_tokens=30)
    if share == 1:
        with pytest.raises(InputError, match=r"the embedding of .* is zero for every token"):
            run_transfer(options)
        return
    result = run_transfer(options)
    assert all(values.isfinite().all() for values in result.graft.model.state_dict().values())
    assert ("have an embedding of zeros" in caplog.text) == (share > 0.01)


def test_a_tokenizer_that_cannot_be_loaded_is_rejected_before_the_model_is_read(options, tmp_path):
    (tmp_path / "model" / "model.safetensors").unlink()
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="given holds no tokenizer"):
        run_transfer(replace(options, tokenizer=str(tmp_path / "given")))


def test_a_tokenizer_that_a_model_cannot_use_is_rejected_before_the_weights_are_read(options, tmp_path):
    pico.saved("bert", tmp_path / "bert")
    (tmp_path / "bert" / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(VocabularyError, match="no mask token"):
        run_transfer(replace(options, model=str(tmp_path / "bert"), tokenizer=options.model, method="fvt"))


@pytest.mark.parametrize("template", ["{% for %}", "{% for a in range(10**9) %}x{% endfor %}", "{{ messages[7].x.y }}"])
def test_a_damaged_chat_template_does_not_stop_a_transfer(options, tmp_path, template):
    (tmp_path / "model" / "chat_template.jinja").write_text(template)
    run_transfer(replace(options, method="fvt"))
    assert read_notes(tmp_path / "out")["system_prompt"] is None


def test_a_corrupt_mixture_in_the_cache_is_rebuilt(options, cache, tmp_path):
    first = run_transfer(options)
    (path,) = (cache / "mixture").rglob("mixture.safetensors")
    arrays, metadata = load_arrays(path, "mixture")
    changed = {name: array.copy() for name, array in arrays.items()}
    changed["indices"][0] |= 1 << 30
    save_arrays(path, changed, metadata)
    again = run_transfer(replace(options, output=tmp_path / "again"))
    assert (again.graft.mixture.weights != first.graft.mixture.weights).nnz == 0
    assert again.rotation is not None


def test_tokens_that_are_mixed_from_the_same_few_ones_are_not_called_misplaced(options, tmp_path):
    pairs = zip(pico._ENGLISH, pico.foreign_words(), strict=True)
    (tmp_path / "words.tsv").write_text("\n".join(map("\t".join, pairs)))
    run_transfer(replace(options, method="ofa", vocab_size=350, dictionary=tmp_path / "words.tsv"))
    assert not any(result.problems for result in check(tmp_path / "out"))


def test_a_cached_initialisation_keeps_its_rotation_and_its_precomputed_rows(options, tmp_path):
    target = pico.byte_level(pico.sentences(words=pico.foreign_words()))
    rows = PrecomputedRows(np.array([3, 1]), np.ones((2, 4), np.float32))
    built = Initialisation(random(target, target), precomputed=rows)
    (tmp_path / "entry").mkdir()
    initialisation._save_initialisation(built, tmp_path / "entry")
    loaded = initialisation._load_initialisation(tmp_path / "entry")
    assert loaded.rotation is None
    assert loaded.precomputed is not None
    assert loaded.precomputed.ids.tolist() == [3, 1]
    assert np.array_equal(loaded.precomputed.vectors, rows.vectors)
    assert loaded.mixture.fallback == built.mixture.fallback


def test_the_result_of_a_transfer_is_read_again(options):
    result = run_transfer(replace(options, score=True, held_out_bytes=200))
    again = load_transfer(options.output)
    assert again.scores == result.scores
    assert again.graft.report == result.graft.report
    assert (again.graft.mixture.weights != result.graft.mixture.weights).nnz == 0
    with pytest.raises(InputError, match="not the result of a transfer"):
        load_transfer(options.output.parent / "model")


def test_an_output_of_other_code_with_the_same_version_is_not_up_to_date(options, monkeypatch, caplog):
    options = replace(options, method="fvt")
    run_transfer(options)
    with caplog.at_level(logging.INFO, "relexify"):
        run_transfer(options)
    assert "is up to date" in caplog.text
    monkeypatch.setattr(checks, "TRANSFER_REVISIONS", {**checks.TRANSFER_REVISIONS, "evidence": 99})
    with pytest.raises(OutputError, match=r"out was made by another version .*\(changed: evidence\): .*`overwrite`"):
        run_transfer(options)
    run_transfer(replace(options, overwrite=True))
    run_transfer(options)
    monkeypatch.setitem(METHODS._entries, "fvt", replace(METHODS["fvt"], revision=99))
    with pytest.raises(OutputError, match=r"\(changed: method\)"):
        run_transfer(options)


@pytest.mark.parametrize("part", ["config", "generation options", "tokenizer", "chat template"])
def test_an_output_is_not_up_to_date_if_anything_but_the_weights_of_its_model_has_changed(options, part):
    options = replace(options, method="fvt")
    run_transfer(options)
    folder = Path(options.model)
    if part == "chat template":
        (folder / "chat_template.jinja").write_text("{{ messages }}")
    elif part == "tokenizer":
        tokenizer = load_tokenizer(folder)
        tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
        tokenizer.save_pretrained(folder)
    else:
        file, changes = {
            "config": ("config.json", {"activation_function": "relu"}),
            "generation options": ("generation_config.json", {"max_new_tokens": 7}),
        }[part]
        pico.edit_json(folder / file, **changes)
    with pytest.raises(OutputError, match=r"out was made from other inputs \(changed: model_settings\): .*`overwrite`"):
        run_transfer(options)


def test_only_outputs_from_several_texts_depend_on_how_texts_are_sampled(options, tmp_path, monkeypatch):
    options = replace(options, method="fvt")
    other = tmp_path / "more.txt"
    other.write_text("ra ki lo mü\n" * 20)
    several = replace(options, corpus=[options.corpus, other], output=tmp_path / "several")
    for each in (options, several):
        run_transfer(each)
        run_transfer(each)
    monkeypatch.setattr("relexify.text.corpus.SAMPLES", 99)
    run_transfer(options)
    with pytest.raises(OutputError, match=r"several was made by another version .*\(changed: samples\)"):
        run_transfer(several)


def test_a_finished_step_is_not_run_again_and_the_runs_of_a_comparison_are_not_scored(options, tmp_path, monkeypatch):
    step = STEPS["transfer"]
    assert step.run is recipe_module.run_transfer_step
    assert STEPS["training"].run is training_recipe.run_training_step
    context = RunContext(options.model, Corpus.open(options.corpus), None, {"transfer": options, "training": object()})
    step.check(options, context)
    scored = replace(options, score=True, held_out_bytes=200)
    variant = Variant(scored.seed, context.corpus, context.corpus, method="wechsel")
    compared = step.comparison.vary(scored, variant)
    assert step.run(compared, context, options.model, tmp_path / "step").scores == {}
    monkeypatch.setattr(run_module, "initialise", None)
    assert step.run(compared, context, options.model, tmp_path / "step").scores == {}
    monkeypatch.undo()
    alone = step.run(scored, context, options.model, tmp_path / "alone")
    assert list(alone.scores) == ["original", "random", "shuffle", "wechsel"]
    notes = read_notes(tmp_path / "alone")
    assert notes["verdict"] == asdict(alone.verdict)
    assert notes["held_out_text"]["target_tokens"] == alone.start.text.target_tokens > 0


def test_a_comparison_learns_how_precise_the_vector_alignment_of_a_transfer_is(options, tmp_path):
    lexicon = BilingualLexicon(tuple(zip(pico._ENGLISH, pico.foreign_words(), strict=True)))
    shares = STEPS["transfer"].comparison.evidence_quality
    for aligned_by in ("dictionary", "random"):
        output = tmp_path / aligned_by
        result = run_transfer(replace(options, dictionary=lexicon, aligned_by=aligned_by, output=output))
        quality = result.rotation.quality
        assert shares(output) == ({} if quality is None else {"P@1 of the vectors": quality.precision})
    assert quality is not None
    assert (quality.words, result.rotation.pairs_used) == (len(set(pico._ENGLISH)), 0)
    run_transfer(replace(options, method="fvt", output=tmp_path / "fvt"))
    assert shares(tmp_path / "fvt") == {}


def test_text_too_short_to_hold_out_lines_can_be_transferred_to_without_scores(options, tmp_path):
    (tmp_path / "short.txt").write_text("\n".join(pico.sentences(8, words=pico.foreign_words()) * 10))
    result = run_transfer(replace(options, corpus=tmp_path / "short.txt", method="fvt"))
    assert result.start.text.target_tokens > 0
    assert result.verdict.start == "poor"
    assert "has only 6.8 kB, which is too little" in load_transfer(options.output).verdict.reason


@pytest.mark.parametrize("family", ["gpt2", "bert", "t5", "llama untied"])
def test_a_vocabulary_that_is_smaller_than_requested_is_reported_also_from_the_cache(options, tmp_path, caplog, family):
    pico.saved(family, tmp_path / "source")
    options = replace(options, model=str(tmp_path / "source"), method="fvt")
    for name in ("first", "cached"):
        caplog.clear()
        found = run_transfer(replace(options, vocab_size=30_000, output=tmp_path / name)).graft.tokenizer
        assert f"the text gives only {len(found):,} tokens, not 30,000" in caplog.text
    caplog.clear()
    run_transfer(replace(options, output=tmp_path / "enough"))
    assert "the text gives only" not in caplog.text


def test_a_dictionary_is_checked_against_text_and_model(options, tmp_path, caplog):
    lexicon = BilingualLexicon(tuple(zip(pico._ENGLISH, pico.foreign_words(), strict=True)))
    checked = run_transfer(replace(options, method="blend", dictionary=lexicon)).start.dictionary
    assert checked.tokens > 0
    assert 0 < checked.text_share <= 1
    foreign = BilingualLexicon(tuple((word, f"zzzz{word}") for word in pico._ENGLISH))
    assert "poor start" not in caplog.text
    useless = run_transfer(replace(options, method="blend", dictionary=foreign, output=tmp_path / "useless"))
    assert useless.start.dictionary.tokens == 0
    assert useless.verdict.start == "poor"
    (early,) = [
        message for message in caplog.messages if message.startswith("this will be a poor start. The dictionary")
    ]
    assert "translates 0 tokens" in early
    assert early.endswith("or has mostly rare words. Interrupt the command to repair this first.")
    assert "as they were read" not in early
    assert "as they were read" in useless.verdict.reason


@pytest.mark.parametrize(("method", "is_said"), [("fvt", True), ("random", False)])
def test_text_that_needs_no_new_vocabulary_is_reported_before_anything_is_scored(
    options, tmp_path, method, is_said, caplog
):
    own, held_out = options.source_corpus, tmp_path / "held.txt"  # in the language of the model
    held_out.write_text("\n".join(pico.sentences(50, seed=7)))

    @contextmanager
    def log(description: str, total: int | None = None) -> Iterator[Advance]:
        logging.getLogger("relexify").info(description)
        yield lambda amount, status="": None

    with caplog.at_level(logging.INFO, "relexify"), report_to(log):
        result = run_transfer(
            replace(options, method=method, corpus=own, held_out=held_out, vocab_size=262, score=True)
        )
    assert result.verdict.start == "poor"
    before, _, after = caplog.text.partition("measuring bits per byte")
    assert after
    assert is_said == ("a transfer is probably not needed. The model seems to know the language of this" in before)


def test_a_vocabulary_that_is_only_extended_is_not_called_too_long(options, tmp_path, caplog):
    (tmp_path / "held.txt").write_text("\n".join(pico.sentences(50, seed=7)))  # which the added tokens do not shorten
    changes = {"method": "fvt", "keep_source": True, "added_tokens": 5, "score": True}
    result = run_transfer(replace(options, held_out=tmp_path / "held.txt", **changes))
    assert result.start.text.target_tokens == result.start.text.source_tokens
    assert "needs no fewer tokens" not in caplog.text


def test_text_alone_suffices_if_the_languages_write_no_word_alike(options, tmp_path, caplog):
    (tmp_path / "target.txt").write_text("\n".join(pico.sentences(400, words=pico.foreign_words())))
    with caplog.at_level(logging.INFO, "relexify"):
        result = run_transfer(replace(options, method="blend", source_corpus=None))
    assert "no dictionary: tokens are built from their spelling and from tokens in both vocabularies" in caplog.text
    assert "(aligning word vectors failed: the two languages write no word alike);" in caplog.text
    assert result.graft.report.origins["mixed"] > 0


def test_text_alone_gives_one_line_of_information_and_no_warning(options, caplog):
    with caplog.at_level(logging.INFO, "relexify"):
        run_transfer(replace(options, method="blend", source_corpus=None, dictionary=None))
    assert caplog.text.count("no dictionary: tokens are built from their spelling") == 1
    about = ("dictionary", "vectors", "rotation")
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert not [message for message in warnings if any(word in message for word in about)]
    caplog.clear()
    run_transfer(replace(options, method="blend", dictionary=None, output=options.output.with_name("aligned")))
    assert "no dictionary given: falling back on" in caplog.text, "text of both languages was given, and could fail"
    assert "a larger dictionary" not in caplog.text, "there is none to be larger"


@pytest.mark.parametrize(("method", "change"), [("fvt", {"unigram_prior": True}), ("fullrand", {"seed": 1})])
def test_after_an_interruption_while_writing_only_other_parameters_are_scored(options, method, change, monkeypatch):
    options = replace(options, method=method, score=True)
    scored: list[str] = []
    measure = scores_module._measure
    monkeypatch.setattr(scores_module, "_measure", lambda title, *rest: scored.append(title) or measure(title, *rest))

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as writing:
        writing.setattr(run_module, "write_folder", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_transfer(options)
    assert [*dict.fromkeys(scored)] == ["original model", BASELINES["random"], BASELINES["shuffle"], method]
    scored.clear()
    again = run_transfer(options)
    assert scored == []
    fresh = scores_module.bits_per_byte(again.graft.model, again.graft.tokenizer, again_text(options)).value
    assert again.scores[method] == pytest.approx(fresh, rel=1e-5)
    run_transfer(replace(options, output=options.output.with_name("other"), **change))
    assert method in scored


def again_text(options):
    evidence = checks.prepare_transfer(replace(options, output=options.output.with_name("unused")))
    return evidence.held_out.sample_bytes(scores_module.sample_size(options.held_out_bytes, options.device))


def test_only_methods_with_slow_evidence_are_cached(options, cache, tmp_path):
    run_transfer(replace(options, method="fvt"))
    assert not (cache / "mixture").exists()
    pairs = zip(pico.sentences(50), pico.sentences(50, words=pico.foreign_words()), strict=True)
    (tmp_path / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    (tmp_path / "links.txt").write_text("0-0\n" * 50)
    evidence = {"bitext": str(tmp_path / "pairs.tsv"), "alignment": tmp_path / "links.txt"}
    run_transfer(replace(options, output=tmp_path / "aligned", method="ramen", source_corpus=None, **evidence))
    assert [*(cache / "mixture").rglob("mixture.safetensors")]


@pytest.mark.parametrize(("method", "has_dictionary"), [("ramen", False), ("blend", True)])
def test_what_parallel_text_contributes_is_measured_on_the_text(options, tmp_path, method, has_dictionary):
    words = pico.foreign_words()
    pairs = zip(pico.sentences(50, seed=5), pico.sentences(50, seed=5, words=words), strict=True)
    (tmp_path / "pairs.tsv").write_text("\n" + "".join(f"{source}\t{target}\n" for source, target in pairs))
    (tmp_path / "links.txt").write_text("\n" + "0-0\n" * 50)
    evidence = {"bitext": str(tmp_path / "pairs.tsv"), "alignment": tmp_path / "links.txt"}
    if has_dictionary:
        evidence["dictionary"] = BilingualLexicon(tuple(zip(pico._ENGLISH, words, strict=True)))
    aligned = replace(options, method=method, source_corpus=None, score=False, unigram_prior=False, **evidence)
    result = run_transfer(aligned)
    check = result.start.bitext
    assert check.pairs == 50
    assert 0 < check.tokens <= 50, "one token of each pair is aligned"
    assert 0 < check.text_share <= result.start.text.origins["mixed"], "copied tokens are not built from it"
    assert 0.5 < check.overlap <= 1
    assert (check.shared is not None) == has_dictionary
    assert load_transfer(result.output).start.bitext == check
    assert "Parallel text (50 pairs) gives meanings to" in result.verdict.reason


@pytest.mark.parametrize("method", ["ramen", "trans-tokens", "blend"])
def test_pairs_in_text_to_score_on_are_left_out(options, tmp_path, method, caplog):
    pairs = [("first sentence", "kwanza sentensi"), ("second sentence", "pili sentensi")]
    # Other sentences than those of the corpus, a part of which is held out unless text to score on is given.
    pairs += zip(pico.sentences(50, seed=5), pico.sentences(50, seed=5, words=pico.foreign_words()), strict=True)
    (tmp_path / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    (tmp_path / "links.txt").write_text("0-0\n" * 52)
    (tmp_path / "held.txt").write_text("Before it. Kwanza sentensi! After it.\nno sentence of a pair\n")
    (tmp_path / "source.held.txt").write_text("Second sentence.\n")
    evidence = {"bitext": str(tmp_path / "pairs.tsv"), "alignment": tmp_path / "links.txt"}
    aligned = replace(options, method=method, source_corpus=None, unigram_prior=False, **evidence)

    def weights(name, **changes):
        return run_transfer(replace(aligned, output=tmp_path / name, **changes)).graft.mixture.weights

    everything, one = weights("everything"), weights("one", held_out=tmp_path / "held.txt")
    assert "1 of 52 sentence pairs are in text to score on and are left out" in caplog.text
    assert read_notes(tmp_path / "everything")["pairs_left_out"] == 0
    assert read_notes(tmp_path / "one")["pairs_left_out"] == 1
    both = weights("both", held_out=tmp_path / "held.txt", source_held_out=tmp_path / "source.held.txt")
    assert read_notes(tmp_path / "both")["pairs_left_out"] == 2

    (tmp_path / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs[2:]))
    (tmp_path / "links.txt").write_text("0-0\n" * 50)
    expected = weights("expected")
    assert (both != expected).nnz == 0, "the rows are those of the other pairs alone"
    assert (one != expected).nnz
    assert (everything != one).nnz

    (tmp_path / "held.txt").write_text("\n".join(target for _, target in pairs))
    with pytest.raises(EvidenceError, match="all pairs of parallel text are in text to score on"):
        weights("nothing", held_out=tmp_path / "held.txt")


def test_a_unigram_prior_is_added_where_the_method_or_the_option_says_so(options, tmp_path):
    def notes(name, **changes):
        run_transfer(replace(options, output=tmp_path / name, **changes))
        return read_notes(tmp_path / name)["unigram_prior"]

    assert notes("paper") is None
    assert notes("without", method="blend", unigram_prior=False) is None
    added = notes("default", method="blend")
    assert added["changed"] == "tied embedding"
    assert added["bits_after"] < added["bits_before"]
    assert notes("requested", method="fvt", unigram_prior=True)["changed"] == "tied embedding"
    # The mixture stays a map from source rows, and the inner parameters stay those of the source model.
    plain, prior = load_transfer(tmp_path / "without").graft, load_transfer(tmp_path / "default").graft
    assert (plain.mixture.weights != prior.mixture.weights).nnz == 0
    different = [
        name
        for name, value in prior.model.state_dict().items()
        if not torch.equal(value, plain.model.state_dict()[name])
    ]
    assert set(different) == {"transformer.wte.weight", "lm_head.weight"}


def test_baselines_get_the_unigram_prior_of_the_method(options, tmp_path):
    def scores(prior):
        changes = {"method": "fvt", "unigram_prior": prior, "score": True, "held_out_bytes": 500}
        return run_transfer(replace(options, output=tmp_path / str(prior), **changes)).scores

    with_prior, without = scores(True), scores(False)
    assert scores(None) == without
    assert with_prior["shuffle"] < without["shuffle"]
    assert with_prior["fvt"] < without["fvt"]


def test_a_second_method_reuses_the_scores_of_the_original_model_and_of_the_baselines(options, tmp_path, monkeypatch):
    measured = []
    count = scores_module.bits_per_byte
    monkeypatch.setattr(
        scores_module, "bits_per_byte", lambda *args, **own: measured.append(args[1]) or count(*args, **own)
    )

    def scores(name, **changes):
        measured.clear()
        changed = replace(options, output=tmp_path / name, method="fvt", score=True, held_out_bytes=200)
        return run_transfer(replace(changed, **changes)).scores

    first = scores("first")
    assert len(measured) == 4
    second = scores("second", method="mean-resizing")
    assert len(measured) == 1
    assert {name: first[name] for name in BASELINES} == {name: second[name] for name in BASELINES}
    scores("seed", seed=1)  # random rows and shuffled ones are others; the original model and rows of fvt are the same
    assert len(measured) == 2
    scores("prior", unigram_prior=True)
    assert len(measured) == 3
    scores("text", held_out_bytes=50)
    assert len(measured) == 4
    model, tokenizer = pico.pair("gpt2")
    model.config.layer_norm_epsilon *= 10
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "changed")
    scores("config", model=str(tmp_path / "changed"))
    assert len(measured) == 4


def test_the_source_model_is_hashed_once_for_all_scores(options, monkeypatch):
    hashed = []
    monkeypatch.setattr(prior_module, "fingerprint", lambda value: hashed.append(value) or fingerprint(value))
    assert len(run_transfer(replace(options, method="fvt", score=True, held_out_bytes=200)).scores) == 4
    assert len(hashed) == 1


@pytest.mark.usefixtures("cache")
def test_a_score_is_not_reused_on_another_kind_of_device(monkeypatch):
    devices = []  # the meta device stands for a GPU, but cannot score
    score = SimpleNamespace(value=1.0)
    monkeypatch.setattr(
        scores_module, "bits_per_byte", lambda model, *_, **__: devices.append(model.device.type) or score
    )
    for device in ("cpu", "cpu:0", "meta"):
        scores_module.score_original(*pico.pair("gpt2"), "text", device=device)
    assert devices == ["cpu", "meta"]


def test_training_starts_with_the_score_of_the_transfer(options, tmp_path):
    scored = run_transfer(replace(options, method="fvt", score=True)).scores
    curve = train(options.output, tmp_path / "trained", options.corpus, Training(steps=1, batch=2, length=64)).curve
    assert curve.first.bits_per_byte == pytest.approx(scored["fvt"], abs=1e-6)


def test_the_log_says_which_model_gets_a_prior(options, caplog):
    descriptions: list[str] = []

    @contextmanager
    def reporter(description, total):
        descriptions.append(description)
        yield lambda amount, status="": None

    with caplog.at_level(logging.INFO, "relexify"), report_to(reporter):
        run_transfer(replace(options, unigram_prior=True, score=True))
    added = [description for description in descriptions if description.startswith("adding token frequencies")]
    assert added == [
        f"adding token frequencies (unigram prior){model}" for model in ("", ": random rows", ": shuffled rows")
    ]
    assert caplog.text.count("the unigram prior, how often the text has each token, changes the") == 1


def test_a_model_without_a_head_gets_no_unigram_prior(options, tmp_path, caplog):
    model, tokenizer = pico.pair("gpt2")
    model.transformer.save_pretrained(tmp_path / "headless")
    tokenizer.save_pretrained(tmp_path / "headless")
    run_transfer(replace(options, model=str(tmp_path / "headless"), method="fvt", unigram_prior=True))
    assert read_notes(options.output)["unigram_prior"] is None
    assert "gets no unigram prior" in caplog.text


def test_a_model_that_does_not_fit_into_memory_is_grafted_but_not_scored(options, tmp_path, monkeypatch, caplog):
    changes = {"method": "fvt", "unigram_prior": True, "score": True, "held_out_bytes": 200}
    monkeypatch.setattr(runnable, "free_memory", lambda device: 0)
    result = run_transfer(replace(options, **changes))
    assert result.scores == {}
    assert "no unigram prior is added" in caplog.text
    notes = read_notes(options.output)
    assert notes["unigram_prior"] is None
    assert re.fullmatch(r"needs about [\d.]+ kB, 0 bytes free", notes["not_scored"])
    for found in (result, load_transfer(options.output)):
        assert f"The model was not scored: {notes['not_scored']}." in summarise_transfer(found)[-1]
    monkeypatch.undo()
    scored = run_transfer(replace(options, output=tmp_path / "scored", **changes))
    assert scored.scores
    assert scored.start.not_scored is None


def test_a_transfer_links_the_files_of_the_source_model(options, tmp_path):
    model, tokenizer = pico.pair("gpt2")
    model.save_pretrained(tmp_path / "sharded", max_shard_size="20KB")
    tokenizer.save_pretrained(tmp_path / "sharded")
    sharded = replace(options, model=str(tmp_path / "sharded"), method="fvt")
    run_transfer(sharded)
    files = [path.name for path in (tmp_path / "sharded").glob("*.safetensors")]
    linked = [name for name in files if (options.output / name).samefile(tmp_path / "sharded" / name)]
    assert len(linked) == len(files) - 1  # without the one that holds the embedding
    run_transfer(replace(sharded, method="fullrand", output=tmp_path / "fresh"))
    assert [path.name for path in (tmp_path / "fresh").glob("model*.safetensors")] == ["model.safetensors"]


def test_a_disk_without_room_for_the_model_is_rejected_before_any_work(options, cache, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(total=10**9, free=50_000))
    with pytest.raises(OutputError, match=r"needs about [\d.]+ kB, and its disk has 50 kB free: free some space"):
        run_transfer(options)
    assert not cache.exists()
