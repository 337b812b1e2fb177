"""The model with the TRILayer: config, backbone, encoder, heads; how it is built, and how it lies on disk."""
