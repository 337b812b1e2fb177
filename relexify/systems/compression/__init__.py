"""k-sub-embeddings: store an embedding matrix [N × d] in k small tables that tokens share.

Every token has a code of k digits. Its row in the embedding is the concatenation of one row from each table, selected
by the corresponding digit: with 3 tables of 100 rows, a million tokens can have distinct rows.

    options.py    `Compression`: number of tables, type of codes, … (the table `[compress]` of a recipe)
    codes.py      compute the code of every token: digits of its index, random, or recursive k-means
    equal_size.py clusters with about the same number of tokens
    tables.py     the tables that approximate a given embedding best
    embedding.py  `SubEmbedding` and `FactoredHead` in place of `nn.Embedding` and the output `nn.Linear`
    head.py       the common part of the heads of both forms
    loss.py       the logits of such a head, and its training loss without logits
    low_rank.py   an alternative form: an embedding as two factors, as in OFA
    model.py      any transformers model with sub-embeddings: class, save and load, expand
    compress.py   compress a model, and report the reconstruction error
    folder.py     compress or expand the folder of a model
    recipe.py, kind.py   register this system for recipes and for model loading
    notes.py      the entries that a compression writes into `relexify.json`

Paper: "Reconstructing word embeddings via scattered k-sub-embedding".
"""
