"""Time, memory and first score of every initialisation method on real text: does each run, and what does it cost?

    python benchmarks/methods.py smollm2-135m --corpus sw.txt --held-out held.txt --source-corpus en.txt \
        --dictionary en-sw.tsv --bitext en-sw.tsv --set distillation_steps=5
    python benchmarks/methods.py smollm2-135m --corpus sw.txt --dictionary en-sw.tsv --only blend fvt

Each method runs in a process of its own, twice, unless the first time takes more than a minute: the first time it also
trains vectors, aligns parallel text and so on, as far as earlier methods did not; the second time it finds these in the
cache. `RELEXIFY_CACHE=$(mktemp -d)` starts with an empty one. Then the model is grafted and scored, but not trained;
`--set unigram_prior=true` gives all methods the unigram prior, not only those that have it by default. CPU seconds
count all threads and processes. The peak memory is that of the initialisation, with the source model and its packages:
compare it with that of `random`.

The donor of `clp` and `omp`, which read nothing but its embedding, has vectors of the target tokens that are trained on
the corpus; real ones come from a small model of the language. The rows of FVT stand in for those of `given-rows`, which
therefore has no score.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from relexify.errors import RelexifyError
from relexify.evidence.vectors import WordVectors
from relexify.grafting import graft
from relexify.methods.fvt import fvt
from relexify.methods.parts.vectors import token_vectors
from relexify.methods.registry import METHODS
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.pretrained.parameters.fresh import fresh_twin
from relexify.pretrained.tokenizers import save_tokenizer
from relexify.recipes.file.settings import apply_settings
from relexify.scoring import bits_per_byte, sample_size
from relexify.systems.transfer.checks import check_transfer
from relexify.systems.transfer.initialisation import method_inputs
from relexify.systems.transfer.options import Transfer, with_method
from relexify.systems.transfer.prior import add_prior, prior_text
from relexify.systems.transfer.tokenizer.target import target_tokenizer

DONOR_WIDTH = 300
"""Width of the donor's rows: those of `clp` and `omp` are combinations of shared tokens in so many dimensions."""

PATIENCE = 60
"""CPU seconds of the first time above which there is no second."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model folder, a Hub name, or smollm2-135m")
    parser.add_argument("--corpus", required=True, help="text in the target language")
    parser.add_argument("--held-out", help="text to score on; by default one line in 100 of the corpus")
    parser.add_argument("--source-corpus", help="text in the model's language")
    parser.add_argument("--dictionary", type=Path, help="word and translation")
    parser.add_argument("--bitext", help="parallel text, the model's language first")
    parser.add_argument("--vocab-size", type=int, default=32_000)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of `transfer`")
    parser.add_argument("--only", nargs="+", choices=[*METHODS], default=[*METHODS])
    parser.add_argument("--measure", choices=[*METHODS], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    options = apply_settings(
        "transfer",
        Transfer(
            given.model,
            Path("unused"),
            given.corpus,
            held_out=given.held_out,
            source_corpus=given.source_corpus,
            dictionary=given.dictionary,
            bitext=given.bitext,
            vocab_size=given.vocab_size,
        ),
        given.set,
    )
    if given.measure:
        print(json.dumps(measure(options, given.measure, given.folder)))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_stand_ins(options, Path(folder))
        columns = "| method | bits per byte | first, CPU s | again, CPU s | peak memory, GB |"
        print(f"{columns}\n|---|---|---|---|---|", flush=True)
        failed = []
        for name in given.only:
            command = [sys.executable, __file__, *sys.argv[1:], "--measure", name, "--folder", folder]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            if run.returncode:
                failed.append(name)
                lines = run.stderr.strip().splitlines()
                print(f"| `{name}` | failed: {lines[-1] if lines else run.returncode} | | | |", flush=True)
                continue
            found = json.loads(run.stdout.splitlines()[-1])
            score = "–" if found["score"] is None else f"{found['score']:.3f}"
            first, again = (*(f"{seconds:.1f}" for seconds in found["seconds"]), "–")[:2]
            print(f"| `{name}` | {score} | {first} | {again} | {found['peak_gb']:.2f} |", flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def measure(options: Transfer, method: str, folder: Path) -> dict[str, object]:
    """Build the initialisation of one method twice, graft it, and score the model."""
    stands_in = "token vectors" in METHODS[method].needs
    chosen = replace(with_method(options, method), donor=str(folder / "donor"))
    if stands_in:
        chosen = replace(chosen, target_vectors=folder / "rows.safetensors", tokenizer=str(folder / "donor"))
    evidence = check_transfer(chosen, report_unused=False)
    model, source = load_model(chosen.model), load_tokenizer(chosen.model)
    target = target_tokenizer(chosen, source, evidence)
    seconds: list[float] = []
    while len(seconds) < 2 and sum(seconds) < PATIENCE:
        start = cpu_seconds()
        built = METHODS[method].initialise(method_inputs(chosen, evidence, model, source, target))
        seconds.append(cpu_seconds() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    body = fresh_twin(model, seed=chosen.seed) if METHODS[method].fresh_inner else model
    result = graft(body, target, built.mixture, precomputed=built.precomputed, seed=chosen.seed, copy_inner=False)
    add_prior(chosen, result, prior_text(chosen, model, evidence))
    score = None
    if not stands_in:
        text = evidence.held_out.sample_bytes(sample_size(chosen.held_out_bytes, chosen.device))
        score = bits_per_byte(result.model, target, text).value
    return {"score": score, "seconds": seconds, "peak_gb": peak}


def cpu_seconds() -> float:
    """Return the CPU time of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def write_stand_ins(options: Transfer, folder: Path) -> None:
    """Write a donor whose embedding has vectors of the target tokens, and the rows of FVT by token."""
    fast = with_method(options, "fvt")
    evidence = check_transfer(fast, report_unused=False)
    model, source = load_model(options.model), load_tokenizer(options.model)
    target = target_tokenizer(fast, source, evidence)
    vectors = token_vectors(evidence.corpus, target, replace(options.vectors, width=DONOR_WIDTH))
    shape = {"hidden_size": DONOR_WIDTH, "intermediate_size": 1, "num_hidden_layers": 1, "num_attention_heads": 1}
    donor = LlamaForCausalLM(LlamaConfig(vocab_size=len(target), **shape))
    donor.get_input_embeddings().weight.data = torch.from_numpy(vectors.matrix)
    donor.save_pretrained(folder / "donor")
    save_tokenizer(target, folder / "donor")
    rows = fvt(source, target).apply(model.get_input_embeddings().weight.detach().float().numpy())
    WordVectors(target.convert_ids_to_tokens(range(len(target))), rows).save(folder / "rows.safetensors")


if __name__ == "__main__":
    try:
        main()
    except RelexifyError as error:
        sys.exit(str(error))
