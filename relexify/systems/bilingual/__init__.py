"""RAMEN: a model of two languages with one encoder.

    options.py   `BilingualOptions`, and how the paper trains
    model.py     `BilingualModel`: two ordinary models that share all but their vocabularies
    folder.py    `BilingualBundle`: the model with both tokenizers, save and load
    training.py  train both languages together
    recipe.py, kind.py   what recipes and model loading find this system by

Paper: Tran (2020), "From English to Foreign Languages: Transferring Pre-trained Language Models". Its initialisation of
the target embeddings is a method like others, in `relexify.methods.ramen`.
"""
