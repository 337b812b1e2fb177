"""Transfer: WECHSEL and every other initialisation. Evidence in, a grafted model out.

    options.py          `Transfer`: everything that one transfer needs, and which of it a method uses
    defaults.py         sizes of vocabularies, and of the trainings of advice, without importing the options
    checks.py           validation before any work, and opening the evidence
    run.py              the job: load, build, score, judge, write
    initialisation.py   from evidence to a grafted model: tokenizer, mixture, graft, unigram prior
    extension.py        add tokens to the model's vocabulary instead of replacing it
    scores.py           bits per byte before training, and those of baselines
    dictionary.py       test a dictionary against the model and the text
    start.py            `Start`: all that is known about the model before its training
    verdict.py          whether this is a good start, and why
    samples.py          sentences under both tokenizers
    summary.py          the result for people
    word_origins.py     which evidence the words of a mixture come from, for `relexify inspect`
    other_text.py       whether a model is trained on text in another language
    recipe.py           the table `[transfer]`
    grid/               which k and τ suit a language, before training

The initialisations themselves are in `relexify.methods`.
"""
