"""RAMEN: a model of two languages with one encoder.

    options.py   `BilingualOptions`, and how the paper trains
    model.py     `BilingualModel`: two ordinary models that share everything except their vocabularies
    folder.py    `BilingualBundle`: the model with both tokenizers; save and load it
    training.py  train both languages together
    recipe.py, kind.py   register this system for recipes and for model loading

Paper: Tran (2020), "From English to Foreign Languages: Transferring Pre-trained Language Models". Its initialisation of
the target embeddings is a method of its own, in `relexify.methods.ramen`.
"""
