"""Time and memory of every initialisation method on real text: does each of them run, and what does it cost?

    python benchmarks/methods.py smollm2-135m --corpus sw.txt --source-corpus en.txt --dictionary en-sw.tsv \
        --bitext en-sw.tsv --vocab-size 8000 --set distillation_steps=5
    python benchmarks/methods.py smollm2-135m --corpus sw.txt --dictionary en-sw.tsv --only blend fvt

Each method runs in a process of its own, twice: the first time it also trains vectors, aligns parallel text and so on,
as far as earlier methods did not; the second time it finds these in the cache. `RELEXIFY_CACHE=$(mktemp -d)` starts
with an empty one. Rows are computed, but no model is grafted, scored or trained. A graft with FVT stands in for the
donor of `clp` and `omp`, and its rows for those of `given-rows`, since only time and memory are measured. The peak
memory includes the source model and its packages: compare it with that of `random`.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from relexify.errors import RelexifyError
from relexify.evidence.vectors import WordVectors
from relexify.grafting import graft
from relexify.methods.fvt import fvt
from relexify.methods.registry import METHODS
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.recipes.settings import apply_settings
from relexify.systems.transfer.checks import check_transfer, with_method
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.run import method_inputs, target_tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model folder, a Hub name, or smollm2-135m")
    parser.add_argument("--corpus", required=True, help="text in the target language")
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
        print("| method | first, s | again, s | peak memory, GB |\n|---|---|---|---|", flush=True)
        for name in given.only:
            command = [sys.executable, __file__, *sys.argv[1:], "--measure", name, "--folder", folder]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            if run.returncode:
                lines = run.stderr.strip().splitlines()
                print(f"| `{name}` | failed: {lines[-1] if lines else run.returncode} | | |", flush=True)
                continue
            found = json.loads(run.stdout.splitlines()[-1])
            first, again = (f"{seconds:.1f}" for seconds in found["seconds"])
            print(f"| `{name}` | {first} | {again} | {found['peak_gb']:.2f} |", flush=True)


def measure(options: Transfer, method: str, folder: Path) -> dict[str, object]:
    """Build the initialisation of one method twice."""
    chosen = with_method(replace(options, donor=str(folder / "donor")), method)
    if "token vectors" in METHODS[method].needs:
        chosen = replace(chosen, target_vectors=folder / "rows.safetensors", tokenizer=str(folder / "donor"))
    evidence = check_transfer(chosen)
    model, source = load_model(chosen.model), load_tokenizer(chosen.model)
    target = target_tokenizer(chosen, source, evidence)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        METHODS[method].initialise(method_inputs(chosen, evidence, model, source, target))
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def write_stand_ins(options: Transfer, folder: Path) -> None:
    """Write a model with the target tokenizer, and its rows by token."""
    fast = with_method(options, "fvt")
    evidence = check_transfer(fast, shared=True)
    model, source = load_model(options.model), load_tokenizer(options.model)
    target = target_tokenizer(fast, source, evidence)
    result = graft(model, target, fvt(source, target), copy_inner=False)
    result.save(folder / "donor")
    rows = result.model.get_input_embeddings().weight.detach().float().numpy()
    WordVectors(target.convert_ids_to_tokens(range(len(target))), rows[: len(target)]).save(folder / "rows.safetensors")


if __name__ == "__main__":
    try:
        main()
    except RelexifyError as error:
        sys.exit(str(error))
