"""Loading and saving models shows nothing, and leaves the settings of transformers as they were."""

from __future__ import annotations

from transformers.utils import logging as transformers_logging

from relexify.pretrained.loading import load_model
from relexify.pretrained.runtime.quiet import quiet_transformers, save_model
from tests import pico


def test_bars_are_hidden_while_models_are_loaded_and_saved_and_only_then(tmp_path, capfd):
    transformers_logging.enable_progress_bar()
    try:
        model, _ = pico.pair("gpt2")
        save_model(model, tmp_path)
        load_model(tmp_path)
        assert capfd.readouterr().err == ""
        model.save_pretrained(tmp_path)
        assert "Writing model shards" in capfd.readouterr().err
    finally:
        transformers_logging.disable_progress_bar()


def test_settings_are_restored_after_a_failure():
    level = transformers_logging.get_verbosity()
    try:
        with quiet_transformers():
            assert transformers_logging.get_verbosity() == transformers_logging.ERROR
            raise ValueError
    except ValueError:
        pass
    assert transformers_logging.get_verbosity() == level
    assert transformers_logging.set_tqdm_hook(None) is None
