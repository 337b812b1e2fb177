"""Comparisons and scores as rows of text, for the terminal and for Markdown.

Every function here returns a list of rows, the header first:

    header, *rows = score_rows(comparison)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import fmean

from relexify.progress import count_of
from relexify.reports.comparison import Comparison, step_reaching, steps_to_reach
from relexify.reports.statistics import Statistic
from relexify.reports.task_scores import TaskMean, TaskScores, mean_scores, moments_of
from relexify.scoring import Score, format_perplexity, format_score

__all__ = [
    "effort_note",
    "effort_rows",
    "measured_rows",
    "reach_note",
    "reach_rows",
    "score_note",
    "score_rows",
    "stage_rows",
    "task_result_rows",
    "task_rows",
    "tokens_text",
]

_SHARES = ((0.0, "start"), (0.1, "10 %"), (0.2, "20 %"), (0.4, "40 %"), (1.0, "end"))
_NOTHING = "–"


def score_rows(comparison: Comparison) -> list[list[str]]:
    """Return the bits per byte of every run at the start, at some steps of training, at the end and at best.

    The lowest of a column is between two `**`. Runs with the same training plan follow one another, and the plan is
    shown if there are several. If the runs ended at different steps, each cell has its own step. If runs keep their
    best model, its score is the best, and the perplexity is that model's; otherwise the best is shown only if a run did
    not end with it. Further columns say which settings differ between methods, and how good the evidence of a run was.
    """
    plans = {run: comparison.plans.get(run, _NOTHING) for run in comparison.curves}
    order = list(dict.fromkeys(plans.values()))
    runs = sorted(plans, key=lambda run: order.index(plans[run]))
    ends = [comparison.at(run, 1) for run in runs]
    last_steps = [score.step for score in ends]
    columns = [["run", *runs]]
    if len(order) > 1:
        columns.append(["plan", *(plans[run] for run in runs)])
    for key in comparison.different_settings():
        has = [comparison.settings.get(run, {}).get(key) for run in runs]
        name = key.rpartition(".")[2].replace("_", " ")
        shown_as = {None: _NOTHING, True: "yes", False: "no"}
        columns.append([name, *(shown_as[value] for value in has)])
    shown = [last_steps]
    for share, label in _SHARES[:-1]:
        scores = [comparison.at(run, share) for run in runs]
        steps = [score.step for score in scores]
        if steps not in shown:  # of a short run, several shares may be nearest to the same step
            shown.append(steps)
            columns.append(_score_column(label, scores))
    columns.append(_score_column(_SHARES[-1][1], ends))
    best = [comparison.kept(run) if comparison.keeps_best else comparison.best(run) for run in runs]
    if comparison.keeps_best or [score.step for score in best] != last_steps:
        columns.append(["best, kept" if comparison.keeps_best else "best", *map(_with_step, best)])
    which = "kept" if comparison.keeps_best else "end"
    columns += [
        [f"perplexity ({which})", *(_format_perplexity(comparison.kept(run, metric="perplexity")) for run in runs)],
        ["tokens", *(tokens_text(comparison.mean_curve(run).last.tokens) for run in runs)],
    ]
    quality = comparison.evidence_quality
    for name in dict.fromkeys(name for seeds in quality.values() for shares in seeds for name in shares):
        known = [[shares[name] for shares in quality.get(run, ()) if name in shares] for run in runs]
        columns.append([name, *(f"{fmean(found):.1%}" if found else _NOTHING for found in known)])
    if len({len(seeds) for seeds in comparison.curves.values()}) > 1:
        columns.append(["seeds", *(str(len(comparison.curves[run])) for run in runs)])
    if comparison.costs:
        costs = [comparison.costs.get(run, ()) for run in runs]
        seconds = [[cost.seconds for cost in found if cost.seconds is not None] for found in costs]
        speeds = [[cost.tokens_per_second for cost in found if cost.tokens_per_second is not None] for found in costs]
        columns.append(["time", *(f"{fmean(found):,.0f} s" if found else _NOTHING for found in seconds)])
        columns.append(["tokens/s", *(f"{fmean(found):,.0f}" if found else _NOTHING for found in speeds)])
    return [list(row) for row in zip(*columns, strict=True)]


def score_note(comparison: Comparison) -> str:
    """Return how to read `score_rows`."""
    of_both = ", the mean of both languages" if comparison.languages else ""
    bold = "; the lowest of a column is bold" if len(comparison.curves) > 1 else ""
    several = max(len(seeds) for seeds in comparison.curves.values()) > 1
    seeds = "mean ± sample standard deviation over seeds" if several else "one seed a run"
    return f"Bits per byte of held-out text{of_both}, lower is better{bold}; {seeds}."


def reach_rows(comparison: Comparison) -> list[list[str]]:
    """Return the step at which each run (row) reaches the score of each other run (column).

    The factor is how many times as many tokens the other run has seen.
    """
    runs = list(comparison.curves)
    reaches = {}
    for reach in steps_to_reach(comparison):
        step = _not_reached(comparison, reach.run) if reach.step is None else f"step {_whole_step(reach.step):,}"
        factor = "" if reach.factor is None else f" ({_format_factor(reach.factor)})"
        reaches[reach.run, reach.target] = step + factor
    header = ["run", *(f"{run} ({comparison.kept(run).mean:.3f})" for run in runs)]
    return [header, *([run, *(reaches.get((run, target), _NOTHING) for target in runs)] for run in runs)]


def reach_note(comparison: Comparison) -> str:
    """Return how to read `reach_rows`."""
    when = "at its best" if comparison.keeps_best else "in the end"
    return (
        f"Where the run of a row is as good as the run of a column is {when}, by straight lines between "
        "measurements; in brackets, how many steps the run of the column took for each of these."
    )


def effort_rows(comparison: Comparison) -> list[list[str]]:
    """Return how much training every run needs to reach the score of the worst of them.

    The effort is relative to the run that needs the least training, as in Table 1 of the WECHSEL paper. Runs that got
    worse in training are not the worst one here, because the others have their scores without any training.
    """
    scores = {run: comparison.kept(run).mean for run in comparison.curves}
    improved = [run for run in scores if scores[run] < comparison.at(run, 0).mean]
    reference = max(improved or scores, key=lambda run: scores[run] if math.isfinite(scores[run]) else -math.inf)
    kept = comparison.kept(reference)
    steps = {run: step_reaching(comparison.mean_curve(run), kept.mean) for run in comparison.curves}
    if steps[reference] is None and math.isfinite(kept.mean):  # its seeds are at their best at different steps
        steps[reference] = float(kept.step)
    tokens = {run: None if step is None else step * comparison.tokens_per_step(run) for run, step in steps.items()}
    least = min((count for count in tokens.values() if count), default=None)
    which = "best" if comparison.keeps_best else "end"
    rows = [["run", f"steps to reach {kept.mean:.3f}, the {which} of {reference}", "tokens", "effort"]]
    for run, step in steps.items():
        needed = tokens[run]
        if step is None or needed is None:
            rows.append([run, _not_reached(comparison, run), _NOTHING, _NOTHING])
        else:
            effort = _format_factor(needed / least) if needed and least else "none"
            rows.append([run, f"{_whole_step(step):,}", tokens_text(needed), effort])
    return rows


def effort_note(comparison: Comparison) -> str:
    """Return how to read `effort_rows`."""
    score, worst = ("best", "whose best is worst") if comparison.keeps_best else ("final", "that ends worst")
    return (
        f"How much training each run needs for the {score} score of the run {worst}, of those that got better in "
        "training; the least effort is 1."
    )


def stage_rows(comparison: Comparison) -> list[list[str]]:
    """Return the bits per byte of both languages after each stage, and the change of the source language.

    The source language stays as the model knew it until both are trained together: the encoder was frozen before, and
    its embeddings are its own.

    Args:
        comparison: A comparison of bilingual models, each with another curve for the target language alone.
    """
    source, target = comparison.languages
    header = ["run", f"{target}, initialised", f"{target}, embeddings trained", f"{target}, end"]
    rows = [[*header, f"{source}, start", f"{source}, end", f"{source}, change"]]
    for run, earlier in comparison.earlier.items():
        curves = comparison.curves[run]
        starts = [curve.first.by_language or {} for curve in curves]
        ends = [(curve.best if comparison.keeps_best else curve.last).by_language or {} for curve in curves]
        changes = [100 * (end[source] / start[source] - 1) for end, start in zip(ends, starts, strict=True)]
        cells = [
            [curve.first.bits_per_byte for curve in earlier],
            [start[target] for start in starts],
            [end[target] for end in ends],
            [start[source] for start in starts],
            [end[source] for end in ends],
        ]
        rows.append(
            [run, *(Statistic.of(values).text() for values in cells), f"{Statistic.of(changes).text('+.1f')} %"]
        )
    return rows


def task_rows(comparison: Comparison) -> list[list[str]]:
    """Return every run's score on every task after each step; the best of a row between two `**`.

    The arrow of a measure points to better scores. If there are several tasks, their averages follow, as in Table 2 of
    the WECHSEL paper.
    """
    results = list(chain.from_iterable(comparison.tasks.values()))
    moments = moments_of(results)
    tasks = list(dict.fromkeys(result.task for result in results))
    tests = dict.fromkeys(part.task for result in results for part in result.by_test)
    means = {
        run: mean_scores(part for result in comparison.tasks.get(run, ()) for part in result.by_test)
        for run in comparison.curves
    }
    rows = [(test, step, [found.get((test, step)) for found in means.values()]) for test in tests for step in moments]
    if len(tasks) > 1:
        rows += [("average", step, [_average(found, tasks, step) for found in means.values()]) for step in moments]
    shown = (_task_row(task, step, found) for task, step, found in rows if any(found))
    return [["task", "measure", "step", *means], *shown]


def task_result_rows(results: Sequence[TaskScores]) -> list[list[str]]:
    """Return the mean of every score of a single model, a row for each."""
    rows = [["task", "measure", "value", "measured on"]]
    for result in chain.from_iterable(scores.by_test for scores in results):
        for index in range(len(result.per_seed[0])):
            alone = TaskScores(result.task, result.step, tuple((scores[index],) for scores in result.per_seed))
            ((_, mean),) = mean_scores([alone]).items()
            rows.append([result.task, _name_metric(mean.score), mean.statistic.text(), mean.score.measured_on])
    return rows


def measured_rows(scores: Iterable[Score]) -> list[list[str]]:
    """Return scores, a row for each; the arrow of a metric points to better scores."""
    rows = [["task", "metric", "value", "measured on"]]
    for score in scores:
        rows.append([score.task, _name_metric(score), format_score(score), score.measured_on])
    return rows


def tokens_text(tokens: float) -> str:
    """Return a number of tokens with three digits: `"16.4M"`."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if tokens >= size * 0.9995:
            value = tokens / size
            return f"{value:.{max(0, 2 - int(math.log10(max(1.0, value) * 1.0005)))}f}{letter}"
    return f"{tokens:.0f}"


def _score_column(label: str, scores: Sequence[Statistic]) -> list[str]:
    """Return the column of one share of the steps; the step is in the header if runs share it, else in the cells.

    The lowest of several scores is bold.
    """
    steps = {score.step for score in scores}
    texts = [score.text() if len(steps) == 1 else _with_step(score) for score in scores]
    if len(scores) > 1:
        # Compared as they are shown, so that scores that look equal are all bold.
        lowest = f"{min((score.mean for score in scores if math.isfinite(score.mean)), default=math.nan):.3f}"
        texts = [
            f"**{text}**" if f"{score.mean:.3f}" == lowest else text for text, score in zip(texts, scores, strict=True)
        ]
    return [f"step {min(steps):,}" if len(steps) == 1 else label, *texts]


def _with_step(score: Statistic) -> str:
    return f"{score.text()} (step {score.step:,})"


def _format_perplexity(score: Statistic) -> str:
    texts = [format_perplexity(value) for value in (score.mean, score.deviation) if value is not None]
    return " ± ".join(texts)


def _not_reached(comparison: Comparison, run: str) -> str:
    steps = comparison.mean_curve(run).last.step
    return f"not within {count_of(steps, 'step')}"


def _format_factor(factor: float) -> str:
    return f"{factor:.1f}×" if factor < 100 else f"{factor:,.0f}×"


def _whole_step(step: float) -> int:
    """Return the nearest whole step; at least 1 if any training is needed."""
    return max(1, round(step)) if step > 0 else 0


def _average(
    means: Mapping[tuple[str, int | None], TaskMean], tasks: Sequence[str], step: int | None
) -> TaskMean | None:
    """Return the average over all tasks; None if one was not evaluated, or is better if its score is lower."""
    found = [mean for task in tasks if (mean := means.get((task, step))) is not None]
    if len(found) < len(tasks) or not all(mean.score.higher_is_better for mean in found):
        return None
    value = fmean(mean.score.value for mean in found)
    return TaskMean(Score("average", "all tasks", value, True, len(tasks)), Statistic.of([value]))


def _task_row(task: str, step: int | None, means: Sequence[TaskMean | None]) -> list[str]:
    """Return the scores of all runs on a task after a step; the best of them between two `**`."""
    known = [mean for mean in means if mean is not None]
    best = (max if known[0].score.higher_is_better else min)(mean.score.value for mean in known)
    texts = []
    for mean in means:
        text = _NOTHING if mean is None else mean.statistic.text()
        # Compared as they are shown, so that scores that look equal are all bold.
        is_best = mean is not None and len(means) > 1 and f"{mean.score.value:.3f}" == f"{best:.3f}"
        texts.append(f"**{text}**" if is_best else text)
    return [task, _name_metric(known[0].score), "end" if step is None else f"{step:,}", *texts]


def _name_metric(score: Score) -> str:
    """Return the name of a metric, with an arrow that points to better scores."""
    return f"{score.metric} {'↑' if score.higher_is_better else '↓'}"
