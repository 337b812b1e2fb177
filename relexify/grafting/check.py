"""Check that the folder of a grafted model is complete, consistent and usable.

The notes of the folder (`relexify.json`) and its mixture describe the graft as it was written. The model and the
tokenizer are compared with this description, and then run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy import sparse
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from relexify.errors import InputError, RelexifyError, first_line
from relexify.grafting.graft import PRECOMPUTED, GraftReport, is_tied, read_report
from relexify.grafting.vocabulary import describe_other_tokens
from relexify.mixture import MIXTURE_FILE, Fallback, Mixture, Origin
from relexify.neighbours import normalise_rows
from relexify.pretrained.architecture import (
    architecture_of,
    declares_tied_embeddings,
    position_padding,
    vocabulary_rows,
)
from relexify.pretrained.kinds import kind_of_folder
from relexify.pretrained.loading import load_config, load_model, load_tokenizer
from relexify.pretrained.parameters.lexical import weight_rows
from relexify.progress import count_of
from relexify.storage.json import read_json
from relexify.storage.notes import read_notes
from relexify.tokens import ROLES, Vocabulary, vocabulary_of

__all__ = ["CheckResult", "check"]

_SAME_WEIGHTS = 0.01
"""Two rows of a mixture whose absolute differences sum to at most this may give the same row in half precision."""
_SAMPLE = 500
"""Number of tokens whose text is encoded and decoded for the round trip."""
_COMPARED, _FEWEST_COMPARED = 1000, 50
"""How many tokens are compared with a token of similar mixture and an unrelated token, at most, and the fewest that
allow a conclusion. In intact grafts to German, Swahili, Uyghur and Chinese, the token of similar mixture has the more
similar row in at least 99 % of cases; with permuted rows, in about half of them."""
_SIMILAR, _UNRELATED = 0.5, 0.1
"""Smallest cosine of similar mixtures, and largest cosine of unrelated mixtures. A random token need not be unrelated:
some methods mix many tokens from the same few source tokens, so that all their rows are similar."""
_CHANCE_Z = 3.0
"""The share of cases in which the similar token has the more similar row must exceed one half by this many standard
errors."""
_TEMPLATE_TOKEN = re.compile(r"<\|[^<>|\s]+\|>")


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Attributes:
        name: What was checked.
        problems: A sentence for each problem; empty if there is none.
    """

    name: str
    problems: tuple[str, ...]


def check(folder: str | Path) -> list[CheckResult]:
    """Check a grafted model, before or after training.

    Args:
        folder: A folder that `transfer` wrote, or that `train` wrote from such a folder.

    Returns:
        One result per check. If the model cannot be loaded, the checks that need it are skipped.

    Raises:
        InputError: The folder does not contain a graft.
    """
    folder = Path(folder)
    if (kind := kind_of_folder(folder)) is not None:
        raise InputError(
            f"{folder} holds a {kind.name}, not a graft: check the folder of the transfer that it was made from"
        )
    report = read_report(folder)
    notes = read_notes(folder)
    is_trained = notes.get("training") is not None
    missing = [name for name in notes.get("files", ()) if not (folder / name).exists()]
    results = [CheckResult("files", tuple(f"{name} is missing" for name in missing))]
    try:
        config, tokenizer = load_config(folder), load_tokenizer(folder)
        mixture = Mixture.load(folder / MIXTURE_FILE)
        vocabulary = vocabulary_of(tokenizer)
        results.append(CheckResult("vocabulary", tuple(_compare_sizes(config, vocabulary, mixture, report))))
        model = load_model(folder)
    except RelexifyError as error:
        return [*results, CheckResult("loading", (str(error),))]
    return [
        *results,
        CheckResult("loading", ()),
        CheckResult("finite values", tuple(_nonfinite(model, vocabulary))),
        CheckResult("zero rows", tuple(_zero_rows(model, mixture))),
        CheckResult("duplicate rows", tuple(_duplicate_rows(model, mixture))),
        # Training may move rows so far that tokens with similar mixtures no longer have similar rows.
        CheckResult("order of rows", () if is_trained else tuple(_misplaced_rows(model, mixture, report))),
        CheckResult("tied embeddings", tuple(_compare_tying(model, report))),
        CheckResult(
            "special tokens",
            (*_compare_special_tokens(model, vocabulary, mixture, report), *_undeclared_tokens(folder, mixture)),
        ),
        CheckResult("chat template", tuple(_unknown_template_tokens(tokenizer, vocabulary))),
        CheckResult("round trip", tuple(_round_trip(tokenizer, vocabulary))),
        CheckResult("inference", tuple(_run(model, tokenizer, vocabulary))),
    ]


def _compare_sizes(
    config: PreTrainedConfig, vocabulary: Vocabulary, mixture: Mixture, report: GraftReport
) -> Iterator[str]:
    rows = vocabulary_rows(config)
    if rows != report.rows:
        yield f"vocab_size in config.json is {rows}, but the graft has {report.rows} rows"
    if len(mixture) != report.tokens:
        yield f"the mixture has {len(mixture)} tokens, but the graft has {report.tokens}"
    if len(vocabulary) != report.tokens:
        yield f"the tokenizer has {len(vocabulary)} tokens, but the graft has {report.tokens}"
    if other := describe_other_tokens(vocabulary.tokens, mixture.target_tokens):
        yield other


def _nonfinite(model: PreTrainedModel, vocabulary: Vocabulary) -> Iterator[str]:
    embedding = model.get_input_embeddings().weight
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        nonfinite = ~torch.isfinite(tensor.detach())
        if not nonfinite.any():
            continue
        rows = ""
        if tensor.data_ptr() == embedding.data_ptr():
            ids = nonfinite.any(dim=1).nonzero().flatten().tolist()
            rows = f", in the rows of {_listed([repr(vocabulary.tokens[id]) for id in ids if id < len(vocabulary)])}"
        yield f"{name} has {count_of(int(nonfinite.sum()), 'NaN or infinite value')}{rows}"


def _zero_rows(model: PreTrainedModel, mixture: Mixture) -> Iterator[str]:
    # Special tokens may be copies of zero rows: architectures such as BERT keep the padding embedding at zero.
    zero = (weight_rows(model.get_input_embeddings())[: len(mixture)] == 0).all(axis=1)
    tokens = [
        repr(mixture.target_tokens[id]) for id in np.flatnonzero(zero).tolist() if mixture.origin[id] != Origin.SPECIAL
    ]
    if tokens:
        yield f"the embedding of {count_of(len(tokens), 'token')} is zero ({_listed(tokens)})"


def _duplicate_rows(model: PreTrainedModel, mixture: Mixture) -> Iterator[str]:
    """Find tokens with identical rows but different mixtures; other checks find rows of zeros or NaN."""
    first_ids: dict[bytes, int] = {}
    pairs = []
    for id, row in enumerate(weight_rows(model.get_input_embeddings())[: len(mixture)]):
        if not np.isfinite(row).all() or not row.any():
            continue
        first = first_ids.setdefault(row.tobytes(), id)
        if first != id and not _may_be_equal(mixture, first, id):
            pairs.append(f"{mixture.target_tokens[first]!r} and {mixture.target_tokens[id]!r}")
    if pairs:
        tokens = count_of(len(pairs), "token has", "tokens have")
        yield f"{tokens} the same embedding as another token, although their mixtures differ ({_listed(pairs)})"


def _may_be_equal(mixture: Mixture, first: int, second: int) -> bool:
    origins = {mixture.origin[first], mixture.origin[second]}
    if Origin.SPECIAL in origins and origins <= {Origin.SPECIAL, Origin.COPIED}:
        return True  # copies of the same row, or of rows that are equal because the source model never trained them
    if mixture.known[first] != mixture.known[second]:
        return False
    if not mixture.known[first]:
        return mixture.fallback in (Fallback.MEAN, Fallback.NEAR_MEAN)  # in bfloat16, NEAR_MEAN is rounded to the mean
    difference = mixture.weights[[first]] - mixture.weights[[second]]
    return bool(abs(difference).sum() <= _SAME_WEIGHTS)


def _misplaced_rows(model: PreTrainedModel, mixture: Mixture, report: GraftReport) -> Iterator[str]:
    """Test whether rows belong to other tokens: tokens with similar mixtures then have unrelated rows."""
    if report.origins.get(PRECOMPUTED):
        return  # precomputed rows do not follow the mixture, and their ids are not recorded
    first, second, others = _similar_and_unrelated(mixture).T
    if len(first) < _FEWEST_COMPARED:
        return
    ids, position = np.unique(np.concatenate([first, second, others]), return_inverse=True)
    rows = weight_rows(model.get_input_embeddings(), ids)
    if not np.isfinite(rows).all():
        return
    rows = rows / max(float(np.abs(rows).max()), float(np.finfo(np.float32).tiny))  # huge values would overflow
    centred = rows - rows.mean(axis=0)
    shares = []
    # A unigram prior moves all rows along one axis, according to token frequency. This axis may hide other similarities
    # of rows, so they are also compared without it. The comparison with it is needed too: if most tokens are mixed from
    # two groups of source tokens, the first axis is the only difference between the groups.
    for compared in (centred, _without_first_axis(centred)):
        own, similar, unrelated = np.split(normalise_rows(compared)[position], 3)
        shares.append(float(((own * similar).sum(axis=1) > (own * unrelated).sum(axis=1)).mean()))
    if max(shares) < 0.5 + _CHANCE_Z * 0.5 / len(first) ** 0.5:
        yield (
            "the embeddings do not belong to their tokens: a token with a similar mixture has a more similar embedding "
            f"than an unrelated token in only {max(shares):.0%} of {len(first)} cases (50% by chance)"
        )


def _without_first_axis(rows: np.ndarray) -> np.ndarray:
    """Remove the first principal axis of centred rows [n × d], found by power iteration."""
    axis = rows[np.square(rows).sum(axis=1).argmax()]
    for _ in range(20):
        axis = axis / max(float(np.linalg.norm(axis)), float(np.finfo(np.float32).tiny))
        axis = rows.T @ (rows @ axis)
    axis = axis / max(float(np.linalg.norm(axis)), float(np.finfo(np.float32).tiny))
    without: np.ndarray = rows - np.outer(rows @ axis, axis)
    return without


def _similar_and_unrelated(mixture: Mixture) -> np.ndarray:
    """Return sampled tokens [tokens × 3], each with the token whose mixture is most similar, and an unrelated token."""
    ids = np.flatnonzero(mixture.known)
    weights = mixture.weights[ids].astype(np.float64)
    lengths = np.sqrt(np.asarray(weights.multiply(weights).sum(axis=1)).ravel())
    weights = sparse.csr_array(sparse.diags_array(1 / np.maximum(lengths, np.finfo(float).tiny)) @ weights)
    transposed = sparse.csr_array(weights.T)
    draw = np.random.default_rng(0)
    found = []
    for token in draw.permutation(len(ids))[:_COMPARED]:
        # One row at a time: if all tokens share a source token, the product of the whole matrix would be dense.
        cosines = (weights[[token]] @ transposed).toarray()[0]
        unrelated = np.flatnonzero(cosines <= _UNRELATED)
        cosines[cosines > 1 - _SAME_WEIGHTS] = 0  # the token itself, and tokens with an equal mixture
        similar = int(cosines.argmax())
        if cosines[similar] >= _SIMILAR and len(unrelated):
            found.append(ids[[token, similar, draw.choice(unrelated)]])
    return np.array(found, np.int64).reshape(-1, 3)


def _compare_tying(model: PreTrainedModel, report: GraftReport) -> Iterator[str]:
    if report.tied and not is_tied(model):
        yield "the input and the output embedding were tied, and are separate now"
    if is_tied(model) and not report.tied:
        yield "the input and the output embedding were separate, and are tied now"
    # transformers does not tie two different tensors, even if the config declares them tied; other programs may.
    declared = declares_tied_embeddings(model.config)
    if model.get_output_embeddings() is not None and declared != is_tied(model):
        tensors = "one tensor" if is_tied(model) else "two tensors"
        yield f"tie_word_embeddings in config.json is {declared}, but input and output embedding are {tensors}"


def _compare_special_tokens(
    model: PreTrainedModel, vocabulary: Vocabulary, mixture: Mixture, report: GraftReport
) -> Iterator[str]:
    for role, id in report.roles.items():
        if vocabulary.special.get(role) != id:
            current = vocabulary.special.get(role)
            state = "has none" if current is None else f"uses {vocabulary.tokens[current]!r} ({current})"
            before = f"{mixture.target_tokens[id]!r} ({id})" if id < len(mixture) else str(id)
            yield f"the {role} token was {before}, but the tokenizer now {state}"
    for id in np.flatnonzero(mixture.origin == Origin.SPECIAL).tolist():
        if id < len(vocabulary) and not vocabulary.forms[id].is_special:
            yield f"{mixture.target_tokens[id]!r} ({id}) was a special token, and is ordinary text now"
    configs = {"config.json": model.config}
    if model.can_generate():
        configs["generation_config.json"] = model.generation_config
    for file, config in configs.items():
        for name, value in sorted(vars(config).items()):
            if not name.endswith("_token_id") or value is None:
                continue
            role = name.removesuffix("_token_id")
            ids = value if isinstance(value, list) else [value]
            if any(not isinstance(id, int) or not 0 <= id < len(vocabulary) for id in ids):
                yield f"{name} in {file} is {value}, but the tokenizer has ids from 0 to {len(vocabulary) - 1}"
            elif role in ROLES and vocabulary.special.get(role, ids[0]) not in ids:
                yield f"{name} in {file} is {value}, but in the tokenizer it is {vocabulary.special[role]}"
    counted_from = position_padding(model)
    if counted_from is not None and counted_from != vocabulary.special.get("pad"):
        yield f"positions are counted from the padding id {counted_from}, which is not the tokenizer's padding id"


def _undeclared_tokens(folder: Path, mixture: Mixture) -> Iterator[str]:
    """Find special tokens that tokenizer.json does not declare; programs that read only this file would split them."""
    file = folder / "tokenizer.json"
    if not file.exists():
        return
    declared = {entry["content"] for entry in read_json(file)["added_tokens"]}
    for id in np.flatnonzero(mixture.origin == Origin.SPECIAL).tolist():
        if mixture.target_tokens[id] not in declared:
            yield f"tokenizer.json does not declare {mixture.target_tokens[id]!r} ({id}) as a special token"


def _unknown_template_tokens(tokenizer: PreTrainedTokenizerFast, vocabulary: Vocabulary) -> Iterator[str]:
    """Find tokens such as `<|im_start|>` in the chat template that the tokenizer would split."""
    for name in sorted(set(_TEMPLATE_TOKEN.findall(str(tokenizer.chat_template or "")))):
        if name not in vocabulary.ids:
            yield f"the chat template writes {name}, which is not a token"


def _round_trip(tokenizer: PreTrainedTokenizerFast, vocabulary: Vocabulary) -> Iterator[str]:
    """Encode and decode words of the vocabulary itself; differences in white space are ignored."""
    words = _sample_words(vocabulary)
    ids = tokenizer.encode(" ".join(words), add_special_tokens=False)
    if (unknown := tokenizer.unk_token_id) is not None and unknown in ids:
        yield f"{ids.count(unknown)} of {len(ids)} tokens of text in its own vocabulary are unknown to the tokenizer"
    decoded = tokenizer.decode(ids)
    before, after = "".join(words), "".join(decoded.split())
    if before != after:
        # If one text is a prefix of the other, they differ at the end of the shorter one.
        differing = next((at for at, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
        excerpt = slice(max(0, differing - 10), differing + 10)
        yield f"the tokenizer encodes …{before[excerpt]}… and decodes it as …{after[excerpt]}…"


def _run(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, vocabulary: Vocabulary) -> Iterator[str]:
    """Generate a few tokens, or compute the outputs of a model that does not generate."""
    text = " ".join(_sample_words(vocabulary)[:8])
    generates = architecture_of(model) in {"decoder", "encoder-decoder"}
    try:
        inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=16, return_token_type_ids=False)
        with torch.no_grad():
            if generates:
                generated = model.generate(**inputs, max_new_tokens=4, do_sample=False)
                tokenizer.decode(generated[0])
            if architecture_of(model) == "encoder-decoder":
                inputs["decoder_input_ids"] = inputs["input_ids"]
            output = model(**inputs)[0]
    except Exception as error:  # users would get the same exception
        yield f"{'generating text' if generates else 'running the model'} fails: {first_line(error)}"
        return
    if not torch.isfinite(output).all():
        yield "its output has NaN or infinite values"


def _sample_words(vocabulary: Vocabulary) -> list[str]:
    """Return the texts of tokens that are words, evenly spread over the vocabulary."""
    words = [form.text for form in vocabulary.forms if form.is_word]
    return words[:: -(-len(words) // _SAMPLE)] if words else ["a"]


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
