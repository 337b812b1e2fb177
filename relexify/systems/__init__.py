"""One package per paper; each registers its recipe table (`recipe.py`) and the kinds of models it adds (`kind.py`).

transfer/      WECHSEL and every other initialisation: evidence in, a grafted model out
bilingual/     RAMEN: one encoder with the embeddings of two languages
trelm/         TreLM: TRILayer and cross-lingual language modelling, in three phases
compression/   k-sub-embeddings: an embedding as k small tables
distillation/  token distillation: rows fitted to the hidden states of the source pieces
"""
