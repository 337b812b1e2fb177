"""Transfer: WECHSEL and every other initialisation. Evidence in, a grafted model out.

    options.py   `Transfer`: everything that one transfer needs
    defaults.py  sizes of vocabularies, without importing the options
    run.py       evidence, tokenizer, mixture, graft, scores, output
    checks.py    validation before any work
    summary.py   the result for people
    recipe.py    the table `[transfer]`
    grid/        which k and τ suit a language, before training

The initialisations themselves are in `relexify.methods`.
"""
