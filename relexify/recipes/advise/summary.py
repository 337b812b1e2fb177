"""Advice in words and tables: the ranking, how useful the evidence is, and which evidence to acquire."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from relexify.methods.registry import METHODS
from relexify.progress import count_of
from relexify.recipes.advise.options import BASELINE, DEFAULT
from relexify.recipes.advise.run import Advice
from relexify.reports.command_line import transfer_arguments
from relexify.reports.conclusions import CLOSE_SCORE_DIFFERENCE, is_close
from relexify.steps import ResultTable
from relexify.storage.files import format_size
from relexify.systems.transfer.options import command_of, with_method
from relexify.training.options import Training
from relexify.training.rates import LEAST_BATCH, MOST_EPOCHS
from relexify.training.results.summary import FEWEST_TOKENS

__all__ = ["summarise_advice", "transfer_command"]

LEAST_WORTHWHILE_SHARE = 0.02
"""Share of the text that twice as many dictionary entries must translate in addition to be worth the effort."""


_HELD_OUT_WORDS = (
    "Held-out words: how often the row of a dictionary word that was held out is closer to its own translation than to "
    "another word's. Chance is 50%, higher is better; it is measured for methods with all the evidence (– for others)."
)


def summarise_advice(advice: Advice) -> list[ResultTable | str]:
    """Return the ranking, what the tokenizer and the evidence are worth, and what to acquire."""
    header = ["rank", "method", "before training", f"after {count_of(advice.options.steps, 'step')}", "held-out words"]
    rows = [
        [
            str(rank),
            f"**{run.name}**" if run.name == advice.best else run.name,
            _format_number(run.before, ".3f"),
            _format_number(run.after, ".3f"),
            _format_number(run.held_out_words, ".0%"),
        ]
        for rank, run in enumerate(advice.runs, 1)
    ]
    rows = [header, *rows, *(["–", name, "–", "–", "–"] for name in advice.left_out)]
    title, about = "Bits per byte of held-out text (lower is better)", []
    if not advice.scores:
        title = "Held-out words closer to their own translation than to another's (higher is better, 50% is chance)"
        rows = [[rank, name, words] for rank, name, _, _, words in rows]
    elif all(run.held_out_words is None for run in advice.runs):
        rows = [row[:-1] for row in rows]
    else:
        title, about = f"{title}, and held-out words (higher is better)", [_HELD_OUT_WORDS]
    return [
        ResultTable(title, rows),
        *about,
        *_describe_left_out(advice),
        _recommend(advice),
        _describe_tokenizer(advice),
        _describe_extension(advice),
        *_worth_of_evidence(advice),
        *_worth_acquiring(advice),
    ]


def transfer_command(advice: Advice) -> list[str]:
    """Return the command that transfers the model as the best run did: with its method, and with the unigram prior."""
    transfer = replace(with_method(advice.options.transfer, advice.best), unigram_prior=True)
    output = f"{Path(transfer.model).name}-{advice.best}"
    return ["relexify", "transfer", transfer.model, output, *transfer_arguments(command_of(transfer))]


def _describe_left_out(advice: Advice) -> list[str]:
    """Say which runs were left out, by the reason."""
    names: dict[str, list[str]] = {}
    for name, reason in advice.left_out.items():
        names.setdefault(reason, []).append(name)
    return [f"Left out: {', '.join(each)} ({reason})." for reason, each in names.items()]


def _format_number(number: float | None, form: str) -> str:
    return "–" if number is None else format(number, form)


def _recommend(advice: Advice) -> str:
    after, best = advice.scores, advice.best
    if not after:
        level = [name for name in advice.level_with(best) if not METHODS[name].is_baseline]
        others = f" {', '.join(level)} {'is' if len(level) == 1 else 'are'} level with it." if level else ""
        return (
            f"Use {best}.{others} Nothing was trained: held-out words tell methods that know translations from those "
            "that guess, but do not order the methods of either kind (`steps` does)."
        )
    close = [
        name for name, score in after.items() if name in METHODS and name != best and is_close(score - after[best])
    ]
    sentence = f"Use {best}."
    if after[best] >= after[BASELINE]:
        sentence += " No method was better than random rows yet: train for more steps, or give other evidence."
    if close:
        within = f"within {CLOSE_SCORE_DIFFERENCE:g} bits per byte"
        sentence += f" {', '.join(close)} scored {within}, which another seed may reverse."
    options = advice.options
    if (tokens := options.steps * options.batch * options.length) < FEWEST_TOKENS:
        sentence += (
            f" Each was trained on {tokens:,} tokens at most, too few to rely on: train on {FEWEST_TOKENS:,} at least "
            "(`steps`, `batch`, `length`)."
        )
    return sentence


def _describe_tokenizer(advice: Advice) -> str:
    text = advice.text
    source, target = text.source_tokens / text.bytes, text.target_tokens / text.bytes
    return (
        f"Tokenizer: {target:.3f} tokens per byte of held-out text, the model's own {source:.3f}, so a text has "
        f"{target / source:.0%} as many tokens. The original model with its own tokenizer needs {advice.original:.3f} "
        "bits per byte."
    )


def _describe_extension(advice: Advice) -> str:
    if advice.extended_tokens is None:
        return (
            "Replace or extend? To keep the model's own language, extend its vocabulary instead (--keep-source, which "
            "needs --source-corpus)."
        )
    text, added = advice.text, advice.options.transfer.added_tokens
    extended, replaced = advice.extended_tokens / text.source_tokens, text.target_tokens / text.source_tokens
    return (
        f"Replace or extend? With {added:,} tokens added to the model's own (--keep-source), a text has {extended:.0%} "
        f"as many tokens, against {replaced:.0%} with the new tokenizer, and the model keeps its language."
    )


def _worth_of_evidence(advice: Advice) -> list[str]:
    """Say what the default loses without each kind of translations, unless that is too little to tell."""
    after = advice.scores
    found = []
    for kind, name in (("dictionary", "The dictionary"), ("bitext", "The parallel text")):
        without = after.get(f"{DEFAULT}-without-{kind}")
        if without is not None and DEFAULT in after:
            gain = without - after[DEFAULT]
            scores = f"{after[DEFAULT]:.3f} bits per byte with it, {without:.3f} without it"
            if is_close(gain):
                found.append(
                    f"{name} makes no difference in {DEFAULT} that one seed can show: {scores}, within "
                    f"{CLOSE_SCORE_DIFFERENCE:g}."
                )
            else:
                found.append(f"{name} {'gains' if gain > 0 else 'loses'} {abs(gain):.3f} in {DEFAULT}: {scores}.")
    return found


def _worth_acquiring(advice: Advice) -> list[str]:
    """Say which evidence may be worth acquiring."""
    transfer, evidence = advice.options.transfer, advice.evidence
    found = []
    if evidence.dictionary:
        *_, half, whole = evidence.dictionary
        added = whole.text_share - half.text_share
        sizes = ", ".join(f"{size.entries:,} entries {size.text_share:.1%}" for size in evidence.dictionary)
        worth = "is worth the effort" if added >= LEAST_WORTHWHILE_SHARE else "will hardly help"
        found.append(
            f"Dictionary, share of the text that it translates: {sizes}. The second half added {added:.1%}, so a "
            f"larger one {worth}."
        )
    else:
        sizes = ", ".join(f"{size:,} words {share:.0%}" for size, share in evidence.frequent_words.items())
        found.append(
            f"There is no dictionary. The most frequent words of the vocabulary make up this share of the text: {sizes}"
            ". A list of their translations is the cheapest evidence to acquire (`dictionary`)."
        )
    if evidence.aligned_share is not None:
        found.append(f"Parallel text: it has translations of {evidence.aligned_share:.0%} of the tokens of the text.")
    elif transfer.bitext is None:
        found.append("There is no parallel text (`bitext`), so its use was not measured.")
    if transfer.source_corpus is None and transfer.source_vectors is None and not evidence.dictionary:
        found.append(
            "Without a dictionary, text in the model's language (`source_corpus`) lets methods with word vectors align "
            "the two languages."
        )
    return [*found, _worth_of_more_text(advice)]


def _worth_of_more_text(advice: Advice) -> str:
    """Say for how many steps the text is enough; with little of it, `relexify train` takes smaller steps."""
    tokens = advice.corpus_bytes * advice.text.target_tokens / max(1, advice.text.bytes)
    seen = MOST_EPOCHS * tokens / Training.length
    batch = Training.batch if seen >= Training.batch else LEAST_BATCH
    enough = f"are so few that one step of {batch} × {Training.length} tokens sees them more than {MOST_EPOCHS:g} times"
    if seen >= batch:
        steps = f"{int(seen / batch):,} step{'' if seen < 2 * batch else 's'}"
        enough = f"are enough for {steps} of {batch} × {Training.length} tokens, with {MOST_EPOCHS:g} passes over it"
    return (
        f"Text: {format_size(advice.corpus_bytes)}, about {tokens:,.0f} tokens, {enough}. Models tend to become worse "
        "from text that they see more often, so more text is worth acquiring for a longer training."
    )
