"""Transfer: WECHSEL and every other initialisation. Evidence in, a grafted model out.

    options.py      `Transfer`: everything that one transfer needs
    defaults.py     sizes of vocabularies, without importing the options
    checks.py       validation before any work
    run.py          evidence, tokenizer, mixture, graft, scores, output
    extension.py    add tokens to the model's vocabulary instead of replacing it
    start.py        `Start`: what is known about the model before its training
    dictionary.py   test a dictionary against the model and the text
    verdict.py      whether this is a good start, and why
    samples.py      sentences under both tokenizers
    summary.py      the result for people
    recipe.py       the table `[transfer]`
    grid/           which k and τ suit a language, before training

The initialisations themselves are in `relexify.methods`.
"""
