"""TreLM: cross-lingual transfer with a TRILayer and CdLM, in three phases."""
