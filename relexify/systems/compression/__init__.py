"""k-sub-embeddings: an embedding matrix [N × d] in k small tables that tokens share.

Every token has a code of k digits, and row n of the embedding becomes the rows of k tables side by side, table i at the
i-th digit: with 3 tables of 100 rows, a million tokens can have distinct rows.

    options.py    `Compression`: how many tables, which codes, and the table `[compress]` of a recipe
    codes.py      which code every token gets: digits of its index, random, or recursive k-means
    equal_size.py clusters that all have about as many tokens
    tables.py     the rows of the tables that keep most of a given embedding
    embedding.py  `SubEmbedding` and `FactoredHead` in place of `nn.Embedding` and the output `nn.Linear`
    head.py       what the heads of both forms share
    loss.py       the logits of such a head, and its training loss without logits
    low_rank.py   an embedding as two factors instead, the factorised form of OFA
    model.py      any model of transformers with sub-embeddings: class, save and load, expand
    compress.py   compress a model, and report what was lost
    folder.py     compress or expand the folder of a model
    recipe.py, kind.py   what recipes and model loading find this system by
    notes.py      what a compression writes into `relexify.json`

Paper: "Reconstructing word embeddings via scattered k-sub-embedding".
"""
