"""TreLM: Li et al., Cross-lingual Transferring of Pre-trained Contextualized Language Models, 2021.

What happens to a sentence pair (X, Y), and where:

1. Both languages share a joint WordPiece vocabulary (`joint_vocabulary`). The rows of its tokens are skip-gram vectors,
   mapped into the model's embedding space (`embedding`; section 3.1). A transfer does this (`method`).
2. A word aligner gives O, for every token of Y the position in X that it is aligned to (`pairs`; Eq. 3). A row of a
   batch has X as input, O, and Y as labels; beside it stands Y with masks (`batches`; Algorithm 1, lines 9 to 13).
3. X and the placeholder [P] are embedded with their language, and run through the lower half of the layers. The states
   are re-ordered by O, [P] for unaligned tokens, get the positions and the language of Y, and run through the TRILayer
   and the upper half (`model.encoder`; section 3.2).
4. The head predicts Y: the CdLM loss. With masked input and the identity as O it is MLM (`model.heads`).
5. In training, the engine stands in for the head (`loss_forward` of `relexify.training.loss.forward`): `output.logits`
   are then the hidden states before the output embedding, and the loss is computed from them chunk by chunk. Even rows
   are the pairs and odd rows the masked sentences, so there is one sum for each of the two objectives. The Trainer
   divides each sum by the number of its labels, and adds them (`StageTrainer.compute_loss`).

Three phases train different parameters (`phases`, `parameters`; section 3.3): commonality (both languages, MLM),
transfer (one model for each direction, CdLM and MLM, then combined), language-specific (target language, MLM). `run`
puts them in a row, `scores` has bits per word and BLEU, `translation` the translations that BLEU is computed of,
`options` all settings; recipes find the system by `recipe`, model loading by `kind`, and the layers of the model are in
`model`.
"""
