"""TreLM: Li et al., Cross-lingual Transferring of Pre-trained Contextualized Language Models, 2021.

How a sentence pair (X, Y) is processed, and where:

1. Both languages share a joint WordPiece vocabulary (`joint_vocabulary`). The rows of its tokens are skip-gram vectors,
   mapped into the model's embedding space (`embedding`; section 3.1). This step is a method of a transfer (`method`).
2. A word aligner gives O: for every token of Y, the position in X that it is aligned to (`data.pairs`; Eq. 3). A row of
   a batch has X as input, O, and Y as labels; the next row has Y with masks (`data.batches`; Algorithm 1, lines 9-13).
3. X and the placeholder [P] are embedded with their language, and run through the lower half of the layers. The states
   are re-ordered by O, with [P] for unaligned tokens, the positions and the language of Y are added, and the result
   runs through the TRILayer and the upper half (`model.encoder`; section 3.2).
4. The head predicts Y: the CdLM loss. With masked input and the identity as O it is MLM (`model.heads`).
5. During training, the engine replaces the head (`loss_forward` of `relexify.training.loss.forward`): `output.logits`
   are then the hidden states before the output embedding, and the loss is computed from them chunk by chunk. Even rows
   are pairs and odd rows are masked sentences, so there is one sum of losses for each of the two objectives. The
   Trainer divides each sum by the number of its labels, and adds the results (`StageTrainer.compute_loss`).

Three phases train different parameters (`phases`, `parameters`; section 3.3): commonality (both languages, MLM),
transfer (one model for each direction, CdLM and MLM, then combined), language-specific (target language, MLM). The
files of this package:

    method.py, method_options.py, joint_vocabulary.py, embedding.py
                           the joint vocabulary and its rows, as a method of a transfer
    options.py             all other settings
    data/                  sentence pairs with their word alignment, and the rows of a batch
    parameters.py          the parameters that each phase trains
    phases.py              the three phases, each of which is a training run
    run.py                 all phases, one after another
    scores.py, translation.py   bits per word, and BLEU of translations
    model/                 the layers of the model
    recipe.py, kind.py     register this system for recipes and for model loading
    notes.py               what TreLM writes into `relexify.json`
"""
