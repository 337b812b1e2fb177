"""The TRILayer model of TreLM."""
