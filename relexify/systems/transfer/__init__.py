"""Transfer: WECHSEL and every other initialisation. Evidence in, a grafted model out.

    options.py        `Transfer`: everything that one transfer needs, and which of it a method uses
    defaults.py       the method, sizes of vocabularies and of the trainings of advice, without importing the options
    checks.py         validation before any work, and opening the evidence
    dry_run.py        what a transfer would do
    cost.py           how long a transfer takes
    run.py            the job: load, build, score, judge, write
    tokenizer/        the target tokenizer: which one, how large, and whether it is trained or extended
    initialisation.py from evidence to a grafted model: inputs of the method, mixture, graft
    prior.py          the unigram prior of a grafted model
    provenance.py     what a transfer was made from, and whether it was made already
    assessment/       how good the model is before its training: tests, scores, verdict, summary
    word_origins.py   which evidence the words of a mixture come from, for `relexify inspect`
    other_text.py     whether a model is trained on text in another language
    recipe.py         the table `[transfer]`
    notes.py          what a transfer writes into `relexify.json`
    grid/             which k and τ suit a language, before training

The initialisations themselves are in `relexify.methods`.
"""
