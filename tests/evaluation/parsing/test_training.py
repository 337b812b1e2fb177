"""Parsing: trees, counts, training, zero-shot."""

from __future__ import annotations

import itertools
import json
import random
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from relexify.errors import EvidenceError, GraftError, InputError, TrainingError, VocabularyError
from relexify.evaluation.data.treebank import ParsedSentence
from relexify.evaluation.options import ParserTraining
from relexify.evaluation.parsing import training
from relexify.evaluation.parsing.biaffine import BiaffineParser
from relexify.evaluation.parsing.inputs import padded_batch, tokenize_sentences
from relexify.evaluation.parsing.training import load_parser
from relexify.evaluation.parsing.trees import NO_HEAD, TREES, Parse, attachment_scores, best_tree, parse
from relexify.evaluation.registry import TASKS
from relexify.grafting.swap import load_lexicon, swap_lexicon
from relexify.pretrained.architecture import IGNORED
from relexify.progress import report_to
from tests import pico

train_parser = partial(training.train_parser, formalism=TREES)

# She read old books , slowly .
GOLD = ParsedSentence(
    ("She", "read", "old", "books", ",", "slowly", "."),
    (2, 0, 4, 2, 6, 2, 2),
    ("nsubj", "root", "amod", "obj", "punct", "advmod:how", "punct"),
    ("PRON", "VERB", "ADJ", "NOUN", "PUNCT", "ADV", "PUNCT"),
)
# Wrong: the head of "old", the relation of "books", the head of ",". Right but for the subtype: "slowly".
FOUND = Parse((2, 0, 2, 2, 2, 2, 2), ("nsubj", "root", "amod", "nsubj", "punct", "advmod", "punct"))


def unparsed(words):
    return ParsedSentence(tuple(words), (0,) * len(words), ("_",) * len(words), ("_",) * len(words))


def test_attachment_counted_by_hand():
    uas, las = attachment_scores([GOLD], [FOUND])
    assert (uas.value, las.value) == (5 / 7, 4 / 7)
    assert (uas.metric, las.metric, uas.examples, las.higher_is_better) == ("UAS", "LAS", 7, True)
    uas, las = attachment_scores([GOLD], [FOUND], punctuation=False)
    assert (uas.value, las.value, las.examples) == (4 / 5, 3 / 5, 5)
    assert las.metric == "LAS without punctuation"
    assert attachment_scores([GOLD], [GOLD]).las.value == 1.0


def test_the_main_score_of_parsing_leaves_out_punctuation_and_the_other_ones_follow():
    main, *others = TASKS["parse"].metric([GOLD], [FOUND], task="parse")
    assert (main.metric, main.value) == ("LAS without punctuation", 3 / 5)
    assert [(score.metric, score.value) for score in others] == [
        ("UAS without punctuation", 4 / 5),
        ("LAS", 4 / 7),
        ("UAS", 5 / 7),
    ]


def test_words_are_counted_not_sentences():
    short = ParsedSentence(("Go",), (0,), ("root",), ("VERB",))
    uas, las = attachment_scores([GOLD, short], [FOUND, Parse((0,), ("root",))])
    assert (uas.value, las.value) == (6 / 8, 5 / 8)


def official(gold: list[ParsedSentence], found: list[Parse]) -> tuple[float, float]:
    """conll18_ud_eval's F1 on gold words, written again: aligned pairs are all pairs, so that F1 is accuracy."""
    pairs = [
        (g.heads[i] == f.heads[i], g.relations[i].split(":")[0] == f.relations[i].split(":")[0])
        for g, f in zip(gold, found, strict=True)
        for i in range(len(g.words))
    ]

    def f1(correct: int) -> float:
        precision, recall = correct / len(pairs), correct / len(pairs)
        return 2 * precision * recall / (precision + recall) if correct else 0.0

    return f1(sum(head for head, _ in pairs)), f1(sum(head and label for head, label in pairs))


def test_the_count_is_the_official_one():
    draw = random.Random(3)
    gold = list(made_up(30))
    found = [
        Parse(
            tuple(draw.choice([head, 0, 1]) for head in sentence.heads),
            tuple(draw.choice([relation, "obj", relation + ":x"]) for relation in sentence.relations),
        )
        for sentence in gold
    ]
    scores = attachment_scores(gold, found)
    assert (scores.uas.value, scores.las.value) == pytest.approx(official(gold, found))


def test_parses_that_do_not_fit():
    with pytest.raises(InputError, match="2 parses of 1 sentences"):
        attachment_scores([GOLD], [FOUND, FOUND])
    with pytest.raises(InputError, match="sentence 1 has 7 words, but its parse has 1 heads"):
        attachment_scores([GOLD], [Parse((0,), ("root",))])
    comma = ParsedSentence((",",), (0,), ("root",), ("PUNCT",))
    with pytest.raises(EvidenceError, match="no words"):
        attachment_scores([comma], [comma], punctuation=False)


def is_tree_with_one_root(heads) -> bool:
    if list(heads).count(0) != 1:
        return False
    for start in range(1, len(heads) + 1):
        seen, word = set(), start
        while word:
            if word in seen:
                return False
            seen.add(word)
            word = heads[word - 1]
    return True


def value(scores, heads) -> float:
    return sum(scores[word, head] for word, head in enumerate(heads))


numbers = st.floats(-50, 50, allow_nan=False, width=32)
squares = st.integers(1, 9).flatmap(lambda words: arrays(np.float64, (words, words + 1), elements=numbers))


@given(squares)
@settings(max_examples=150, deadline=None)
def test_the_best_tree_is_a_tree_with_one_root(scores):
    assert is_tree_with_one_root(best_tree(scores))


@given(st.integers(1, 4), st.integers(0, 10**6), st.booleans())
@settings(max_examples=80, deadline=None)
def test_no_tree_with_one_root_is_better(words, seed, whole):
    scores = np.random.default_rng(seed).normal(size=(words, words + 1)) * 3
    scores = scores.round() if whole else scores  # many of them zero, many alike
    trees = (heads for heads in itertools.product(range(words + 1), repeat=words) if is_tree_with_one_root(heads))
    assert value(scores, best_tree(scores)) == pytest.approx(max(value(scores, heads) for heads in trees))


def test_root_would_like_to_have_every_word():
    scores = np.array([[9.0, 0, 1, 0], [8.0, 1, 0, 0], [7.0, 0, 2, 0]])
    assert best_tree(scores) == [0, 1, 2]
    scores[0] = -np.inf
    with pytest.raises(TrainingError, match="NaN or infinite"):
        best_tree(scores)
    assert best_tree(np.zeros((0, 1))) == []


NOUNS, VERBS, ADJECTIVES = ["teacher", "student", "door", "book"], ["sees", "opens", "reads"], ["old", "small", "green"]


def made_up(count: int, seed: int = 0):
    """Sentences of a small grammar: (adjective) noun verb (adjective) noun, full stop."""
    draw = random.Random(seed)
    for _ in range(count):
        words, relations, heads = [], [], []
        verb = 3 if (first := draw.random() < 0.5) else 2
        second = draw.random() < 0.5
        words = [*([draw.choice(ADJECTIVES)] if first else []), draw.choice(NOUNS), draw.choice(VERBS)]
        words += [*([draw.choice(ADJECTIVES)] if second else []), draw.choice(NOUNS), "."]
        heads = [*([2] if first else []), verb, 0, *([verb + 2] if second else []), verb, verb]
        relations = [*(["amod"] if first else []), "nsubj", "root", *(["amod"] if second else []), "obj", "punct"]
        tags = tuple("PUNCT" if word == "." else "X" for word in words)
        yield ParsedSentence(tuple(words), tuple(heads), tuple(relations), tags)


TRAINING = list(made_up(20))
QUICK = ParserTraining(
    epochs=16, batch=4, learning_rate=3e-3, score_learning_rate=5e-3, arc_size=32, label_size=16, dropout=0.0
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    model, tokenizer = pico.pair("bert")
    folder = tmp_path_factory.mktemp("bert")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def trained(folder, tmp_path_factory):
    output = tmp_path_factory.mktemp("parser") / "runs"
    (run,) = train_parser(folder, TRAINING, TRAINING, QUICK, output)
    parser, tokenizer = load_parser(run.folder)
    return SimpleNamespace(parser=parser, tokenizer=tokenizer, run=run)


def noisy(family: str = "bert"):
    """A parser that was not trained, with scores that are not all zero."""
    model, tokenizer = pico.pair(family)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        parser = BiaffineParser.on_top_of(model, ["nsubj", "obj", "root"], arc_size=16, label_size=8).eval()
        for form in (parser.arc, parser.label):
            torch.nn.init.normal_(form.weight)
    return parser, tokenizer


def test_a_tiny_parser_fits_its_training_data(trained):
    scores = attachment_scores(TRAINING, parse(trained.parser, trained.tokenizer, TRAINING))
    assert scores.las.value > 0.9
    run = trained.run
    assert run.score == scores.las.value
    assert 1 <= run.epoch <= QUICK.epochs
    assert not list(run.folder.parent.glob(".*"))


def test_a_loaded_parser_parses_alike(trained):
    parser, tokenizer = load_parser(trained.run.folder)
    for name, parameter in trained.parser.named_parameters():
        assert torch.equal(parameter, dict(parser.named_parameters())[name])
    assert parse(parser, tokenizer, TRAINING) == parse(trained.parser, trained.tokenizer, TRAINING)


def test_training_is_the_same_again_and_finished_seeds_are_kept(folder, tmp_path, monkeypatch):
    options = replace(QUICK, epochs=1, dropout=0.2)
    state = torch.random.get_rng_state()
    train_parser(folder, TRAINING, TRAINING, options, tmp_path / "a")
    assert torch.equal(state, torch.random.get_rng_state())
    first = (tmp_path / "a" / "seed-0" / "model.safetensors").stat().st_mtime_ns
    both = train_parser(folder, TRAINING, TRAINING, options, tmp_path / "a", seeds=(0, 1))
    assert [run.seed for run in both] == [0, 1]
    assert (tmp_path / "a" / "seed-0" / "model.safetensors").stat().st_mtime_ns == first
    train_parser(folder, TRAINING, TRAINING, options, tmp_path / "b")
    same = [(tmp_path / name / "seed-0" / "model.safetensors").read_bytes() for name in "ab"]
    assert same[0] == same[1]
    assert same[0] != (tmp_path / "a" / "seed-1" / "model.safetensors").read_bytes()
    with pytest.raises(InputError, match="another run: its batch was 4, here it is 5"):
        train_parser(folder, TRAINING, TRAINING, replace(options, batch=5), tmp_path / "a")
    with pytest.raises(InputError, match="another run, whose development data differs"):
        train_parser(folder, TRAINING[1:], TRAINING[:9], options, tmp_path / "a")
    (tmp_path / "b" / "seed-0" / "parser_training.json").unlink()
    with pytest.raises(InputError, match="no finished parser"):
        train_parser(folder, TRAINING, TRAINING, options, tmp_path / "b")


class Killed(BaseException):
    """Not caught by `except Exception`."""


@pytest.mark.parametrize(("patience", "step"), [(None, 12), (1, 17)])
def test_a_killed_run_resumes_and_ends_like_an_uninterrupted_one(folder, tmp_path, patience, step):
    options = replace(QUICK, epochs=5, dropout=0.2, patience=patience)  # five steps an epoch

    @contextmanager
    def reporter(description, total=None):
        done = 0

        def advance(amount):
            nonlocal done
            done += amount
            if description.startswith("training") and done == step:
                raise Killed

        yield advance

    (whole,) = train_parser(folder, TRAINING, TRAINING[:5], options, tmp_path / "whole")
    with pytest.raises(Killed), report_to(reporter):
        train_parser(folder, TRAINING, TRAINING[:5], options, tmp_path / "killed")
    assert list((tmp_path / "killed" / "seed-0.checkpoints").glob("checkpoint-*"))
    (resumed,) = train_parser(folder, TRAINING, TRAINING[:5], options, tmp_path / "killed")
    assert replace(resumed, folder=whole.folder) == whole
    assert (resumed.folder / "model.safetensors").read_bytes() == (whole.folder / "model.safetensors").read_bytes()
    assert sorted(path.name for path in (tmp_path / "killed").iterdir()) == ["run.json", "seed-0"]


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch warns if a CPU is slow at it
def test_it_also_learns_in_bfloat16_with_first_pieces_and_patience(folder, tmp_path):
    options = replace(QUICK, epochs=2, precision="bfloat16", pooling="first", patience=1, weight_decay=0.01)
    (run,) = train_parser(folder, TRAINING, TRAINING, options, tmp_path)
    parser, _ = load_parser(run.folder)
    assert parser.config.pooling == "first"
    assert {parameter.dtype for parameter in parser.parameters()} == {torch.float32}
    assert run.score > 0.3


def test_encoder_and_scorers_have_rates_of_their_own_and_only_matrices_decay():
    parser = BiaffineParser.on_top_of(pico.pair("bert")[0], ["root"])
    names = {id(parameter): name for name, parameter in parser.named_parameters()}
    options = ParserTraining(score_learning_rate=1e-3, weight_decay=0.01)
    for group in training.make_optimiser(parser, options).param_groups:
        assert (group["betas"], group["eps"]) == ((0.9, 0.9), 1e-8)  # Dozat & Manning
        for parameter in group["params"]:
            in_encoder = names.pop(id(parameter)).startswith("encoder.")
            assert group["lr"] == (1e-5 if in_encoder else 1e-3)
            assert group["weight_decay"] == (0.01 if parameter.ndim > 1 else 0.0)
    assert not names, "every parameter is trained"


def test_invalid_treebanks_options_and_folders_are_rejected(folder, tmp_path):
    with pytest.raises(InputError, match="training data has no words: give annotated sentences"):
        train_parser(folder, [], TRAINING, QUICK, tmp_path)
    with pytest.raises(InputError, match="development data has no words"):
        train_parser(folder, TRAINING, [], QUICK, tmp_path)
    with pytest.raises(InputError, match="`batch=0"):
        ParserTraining(batch=0)
    with pytest.raises(InputError, match="different numbers"):
        train_parser(folder, TRAINING, TRAINING, QUICK, tmp_path, seeds=(1, 1))
    with pytest.raises(InputError, match="holds no parser"):
        load_parser(tmp_path)
    (tmp_path / "seed-0").mkdir()
    (tmp_path / "seed-0" / "thesis.txt").write_text("my own")
    with pytest.raises(InputError, match="files that relexify did not write"):
        train_parser(folder, TRAINING, TRAINING, QUICK, tmp_path)


def test_divergence_is_reported_and_leaves_the_folder_free(folder, tmp_path):
    with pytest.raises(TrainingError, match=r"at step \d+ of training, the parser produced NaN"):
        train_parser(
            folder, TRAINING, TRAINING, replace(QUICK, learning_rate=1.0, weight_decay=1e38), tmp_path / "runs"
        )
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize("family", ["gpt2", "bert", "roberta", "modernbert", "llama untied", "t5"])
def test_any_model_parses_anything(family):
    parser, tokenizer = noisy(family)
    # No sentence begins with the same pieces twice: to a decoder they are one word, and several trees are best.
    long = NOUNS * 10
    words = [["the", "old", "river"], [], ["unforeseeable"], ["", "water", " ", "\u200d"], long, ["x"]]
    sentences = [*map(unparsed, words), GOLD]
    parses = parse(parser, tokenizer, sentences, batch=3)
    for sentence, found in zip(sentences, parses, strict=True):
        assert len(found.heads) == len(found.relations) == len(sentence)
        seen = [head for head in found.heads if head != NO_HEAD]
        assert not seen or is_tree_with_one_root(seen)
    assert parses[1] == Parse((), ())
    assert not parser.training
    assert parse(parser, tokenizer, []) == []
    one_by_one = [parse(parser, tokenizer, [sentence])[0] for sentence in sentences]
    assert one_by_one == parses


def test_words_beyond_the_longest_sequence_count_as_wrong():
    parser, tokenizer = noisy("bert")
    words = tuple(random.Random(0).choices(NOUNS, k=100))
    long = ParsedSentence(words, (0, *range(1, 100)), ("root", *["obj"] * 99), ("NOUN",) * 100)
    (tokenized,) = tokenize_sentences(tokenizer, [long], 64)
    assert len(tokenized.ids) == 64
    assert 0 < tokenized.words <= 62
    (found,) = parse(parser, tokenizer, [long])
    assert is_tree_with_one_root(found.heads[: tokenized.words])
    assert set(found.heads[tokenized.words :]) == {NO_HEAD}
    scores = attachment_scores([long], [found])
    assert scores.uas.examples == 100
    assert scores.uas.value <= tokenized.words / 100


def test_words_and_their_pieces():
    _, tokenizer = noisy("bert")
    sentence = ParsedSentence(("the", "doorwindow", "", "door"), (4, 4, 4, 0), ("a", "b", "c", "d"), ("X",) * 4)
    (whole,) = tokenize_sentences(tokenizer, [sentence], None)
    assert whole.ids == tokenizer("the doorwindow door").input_ids
    assert whole.word_of_piece[0] == whole.word_of_piece[-1] == -1
    assert whole.word_of_piece.count(1) > 1
    assert whole.word_of_piece.count(2) == 0
    assert whole.words == 4
    (short,) = tokenize_sentences(tokenizer, [sentence], 5)
    assert (short.words, len(short.ids), short.word_of_piece) == (2, 5, [-1, 0, 1, 1, -1])
    batch = padded_batch([short], [(sentence.heads, (0, 1, 2, 3))])
    assert batch["heads"].tolist() == [[IGNORED, IGNORED]]  # their head was cut off
    with pytest.raises(InputError, match="no room"):
        tokenize_sentences(tokenizer, [sentence], 2)


def test_spaces_are_those_of_the_treebank():
    tokenizer = pico.roberta_tokenizer()
    sentence = replace(GOLD, spaces=(True, True, True, True, False, True, False))
    (tokenized,) = tokenize_sentences(tokenizer, [sentence], None)
    assert tokenized.ids == tokenizer(" She read old books, slowly.").input_ids


@pytest.mark.parametrize("layout", [pico.unigram, pico.llama2_layout])
def test_no_space_is_added_where_the_treebank_has_none(layout):
    tokenizer = layout(["the old house, the door. the house, old door."] * 50)
    words = ("the", "old", "house", ",", "door", ".")
    sentence = ParsedSentence(words, (0, 1, 1, 1, 1, 1), ("a",) * 6, ("X",) * 6, (True, True, True, False, True, False))
    (tokenized,) = tokenize_sentences(tokenizer, [sentence], None)
    tokens = tokenizer.convert_ids_to_tokens(tokenized.ids)
    written = ["".join(tokens[at] for at, word in enumerate(tokenized.word_of_piece) if word == n) for n in range(6)]
    assert written == ["▁the", "▁old", "▁house", ",", "▁door", "."]


def permuted(model, tokenizer, folder, seed=5):
    """A copy of model and tokenizer with the rows and ids of the vocabulary in another order."""
    order = torch.randperm(len(tokenizer), generator=torch.Generator().manual_seed(seed)).tolist()
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    state["model"]["vocab"] = {token: order[id] for token, id in state["model"]["vocab"].items()}
    for token in state["added_tokens"]:
        token["id"] = order[token["id"]]
    for token in state["post_processor"]["special_tokens"].values():
        token["ids"] = [order[id] for id in token["ids"]]
    roles = {name: str(token) for name, token in tokenizer.special_tokens_map.items()}
    moved = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(state)), **roles)
    with torch.no_grad():
        table = model.get_input_embeddings().weight
        table[torch.tensor(order)] = table.clone()
    model.config.pad_token_id = moved.pad_token_id
    model.save_pretrained(folder)
    moved.save_pretrained(folder)
    return moved


def arc_scores(parser, tokenizer, sentences):
    tokenized = tokenize_sentences(tokenizer, sentences, 64)
    with torch.no_grad():
        output = parser(**padded_batch(tokenized))
        return output.arc_scores, parser.label_scores(output, torch.zeros_like(output.arc_scores[..., 0]).long())


def test_with_the_same_lexicon_in_another_order_nothing_changes(trained, tmp_path):
    parser, tokenizer = trained.parser, trained.tokenizer
    model, _ = pico.pair("bert")
    with torch.no_grad():  # its own encoder is another one by now, its embeddings are the parser's
        for parameter in model.bert.encoder.parameters():
            parameter.add_(1.0)
        model.get_input_embeddings().weight.copy_(parser.get_input_embeddings().weight)
    moved = permuted(model, tokenizer, tmp_path)
    assert moved("the old door").input_ids != tokenizer("the old door").input_ids
    before = {name: tensor.clone() for name, tensor in parser.state_dict().items()}
    lexicon = load_lexicon(tmp_path)
    swapped, other = swap_lexicon(parser, lexicon), lexicon.tokenizer
    for mine, theirs in zip(arc_scores(parser, tokenizer, TRAINING), arc_scores(swapped, other, TRAINING), strict=True):
        assert torch.equal(mine, theirs)
    assert parse(swapped, other, TRAINING) == parse(parser, tokenizer, TRAINING)
    assert swapped.config.encoder.pad_token_id == moved.pad_token_id
    assert all(torch.equal(tensor, before[name]) for name, tensor in parser.state_dict().items())
    swapped.save_pretrained(tmp_path / "swapped")
    again = BiaffineParser.from_pretrained(tmp_path / "swapped").eval()
    assert torch.equal(arc_scores(again, other, TRAINING)[0], arc_scores(parser, tokenizer, TRAINING)[0])


def test_the_swapped_vocabulary_may_be_larger(trained, tmp_path):
    lines = pico.sentences(words=pico.foreign_words())
    tokenizer = pico.wordpiece(lines, size=260)
    pico.bert(tokenizer).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    lexicon = load_lexicon(tmp_path)
    swapped, other = swap_lexicon(trained.parser, lexicon), lexicon.tokenizer
    assert swapped.get_input_embeddings().weight.shape[0] == len(tokenizer) != len(trained.tokenizer)
    (found,) = parse(swapped, other, [unparsed(pico.foreign_words()[:5])])
    assert is_tree_with_one_root(found.heads)
    if len(tokenizer) > len(trained.tokenizer):
        with pytest.raises(VocabularyError):
            parse(trained.parser, other, [unparsed(["a"])])


def test_another_encoder_is_rejected(trained, tmp_path):
    pico.saved("modernbert", tmp_path / "other")
    with pytest.raises(GraftError, match="do not share an encoder"):
        swap_lexicon(trained.parser, load_lexicon(tmp_path / "other"))
    parser, _ = noisy("roberta")
    model, tokenizer = pico.pair("roberta")
    model.config.pad_token_id = 3
    model.save_pretrained(tmp_path / "moved")
    tokenizer.save_pretrained(tmp_path / "moved")
    with pytest.raises(GraftError, match="padding id, which is 1 in the trained model, but 3 in"):
        swap_lexicon(parser, load_lexicon(tmp_path / "moved"))
