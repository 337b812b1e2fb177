"""Tiny real models and tokenizers, built offline in a blink."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForMaskedLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    ModernBertConfig,
    ModernBertForMaskedLM,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
    T5Config,
    T5ForConditionalGeneration,
)

from relexify.tokens.training.wordpiece import train_wordpiece_vocabulary

WIDTH = 32
SMALL = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
"""The size of a tiny model, as most configs spell it."""
_ENGLISH = """
the a old young river house teacher student water bread morning evening walks sees opens closes reads writes
quickly slowly in on under near with and but because never always small large green quiet door window book
letter
""".split()  # noqa: SIM905 (easier to read)


def edit_json(file: Path, **entries: Any) -> None:
    """Change entries of a file, such as the config of a model."""
    file.write_text(json.dumps({**json.loads(file.read_text()), **entries}))


def sentences(count: int = 400, seed: int = 0, words: list[str] | None = None) -> list[str]:
    """Sentences of random words, some digits and punctuation among them."""
    draw = random.Random(seed)
    vocabulary = words or _ENGLISH
    return [
        " ".join(draw.choices(vocabulary, k=draw.randint(4, 12))).capitalize() + f", {draw.randint(0, 999)}."
        for _ in range(count)
    ]


def foreign_words(seed: int = 7) -> list[str]:
    """One invented word, with letters beyond ASCII, for every English one."""
    draw = random.Random(seed)
    return [
        "".join(draw.choice(["šo", "mü", "ra", "ki", "tên", "lo", "ба"]) for _ in range(draw.randint(2, 4)))
        for _ in _ENGLISH
    ]


def byte_level(lines: list[str] | None = None, size: int = 400, **special: str) -> PreTrainedTokenizerFast:
    """Byte-level BPE, as GPT-2 has it."""
    special = special or {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(dict.fromkeys(special.values())),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(lines or sentences(), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


def roberta_tokenizer(lines: list[str] | None = None, size: int = 400) -> PreTrainedTokenizerFast:
    """Byte-level BPE with RoBERTa's special tokens around a text."""
    tokenizer = byte_level(
        lines, size, bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>", mask_token="<mask>"
    )
    tokenizer.cls_token, tokenizer.sep_token = "<s>", "</s>"
    tokenizer.backend_tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def wordpiece(lines: list[str] | None = None, size: int = 200) -> PreTrainedTokenizerFast:
    """WordPiece, as uncased BERT has it; the trainer of `tokenizers` would find other pieces in every process."""
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    text, special = lines or sentences(), list(names.values())
    vocabulary = train_wordpiece_vocabulary(backend, lambda: text, _at_once, size, special=special, alphabet=size)
    backend.model = models.WordPiece(vocabulary, unk_token="[UNK]")
    backend.add_special_tokens(special)
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, **{f"{role}_token": name for role, name in names.items()})


def _at_once(lines: Iterable[str]) -> Iterator[list[str]]:
    yield list(lines)


def unigram(lines: list[str] | None = None, size: int = 200) -> PreTrainedTokenizerFast:
    """SentencePiece's Unigram, as T5 has it."""
    special = ["<pad>", "</s>", "<unk>", "<extra_id_0>", "<extra_id_1>"]
    backend = Tokenizer(models.Unigram())
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=special, unk_token="<unk>", show_progress=False)
    backend.train_from_iterator(lines or sentences(), trainer)
    backend.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        extra_special_tokens=["<extra_id_0>", "<extra_id_1>"],
    )


def byte_fallback(lines: list[str] | None = None, size: int = 500) -> PreTrainedTokenizerFast:
    """SentencePiece's BPE with byte fallback, as Llama 2 and Gemma have it."""
    special = ["<unk>", "<s>", "</s>", "<pad>"]
    trained = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    trained.normalizer = normalizers.Replace(" ", "▁")
    trained.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    trained.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special + bytes_, show_progress=False)
    trained.train_from_iterator(lines or sentences(), trainer)
    state = json.loads(trained.to_str())
    state["added_tokens"] = [token for token in state["added_tokens"] if token["content"] in special]
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)),
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
    )


def _byte_fallback_layout(
    normalizer: Any, pre_tokenizer: Any, decoder: Any, special: list[str], lines: list[str] | None, size: int
) -> Tokenizer:
    """Byte-fallback BPE trained on words cut at spaces, then given the normaliser and pre-tokeniser of a layout."""
    backend = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special + bytes_, show_progress=False)
    backend.train_from_iterator(lines or sentences(), trainer)
    state = json.loads(backend.to_str())
    state["added_tokens"] = [token for token in state["added_tokens"] if token["content"] in special]
    state["normalizer"] = state["pre_tokenizer"] = None
    backend = Tokenizer.from_str(json.dumps(state))
    backend.decoder = decoder
    if normalizer is not None:
        backend.normalizer = normalizer
    if pre_tokenizer is not None:
        backend.pre_tokenizer = pre_tokenizer
    return backend


def _fallback_decoder(*more: Any) -> Any:
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *more])


def _with_bos(backend: Tokenizer, bos: str, **special: str) -> PreTrainedTokenizerFast:
    backend.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1", special_tokens=[(bos, backend.token_to_id(bos))]
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=bos, unk_token="<unk>", **special)


def llama2_layout(lines: list[str] | None = None, size: int = 500) -> PreTrainedTokenizerFast:
    """Llama 2's classic tokenizer.json: the normaliser writes the spaces, nothing cuts the text into words."""
    backend = _byte_fallback_layout(
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        None,
        _fallback_decoder(decoders.Strip(" ", 1, 0)),
        ["<unk>", "<s>", "</s>"],
        lines,
        size,
    )
    return _with_bos(backend, "<s>", eos_token="</s>")


def mistral_layout(lines: list[str] | None = None, size: int = 500) -> PreTrainedTokenizerFast:
    """The layout of newer Llama 2 and Mistral files: a Metaspace that does not split."""
    backend = _byte_fallback_layout(
        None,
        pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
        _fallback_decoder(decoders.Strip(" ", 1, 0)),
        ["<unk>", "<s>", "</s>"],
        lines,
        size,
    )
    return _with_bos(backend, "<s>", eos_token="</s>")


def gemma_layout(lines: list[str] | None = None, size: int = 500) -> PreTrainedTokenizerFast:
    """Gemma's layout: it splits at spaces that its normaliser has already replaced."""
    backend = _byte_fallback_layout(
        normalizers.Replace(" ", "▁"),
        pre_tokenizers.Split(" ", "merged_with_previous"),
        _fallback_decoder(),
        ["<pad>", "<eos>", "<bos>", "<unk>"],
        lines,
        size,
    )
    return _with_bos(backend, "<bos>", eos_token="<eos>", pad_token="<pad>")


_LLAMA3_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+"


def _split_byte_level(special: list[str], lines: list[str] | None, size: int, *, normalizer: Any = None) -> Tokenizer:
    """Byte-level BPE after a regular expression, with special tokens after all others."""
    backend = Tokenizer(models.BPE())
    if normalizer is not None:
        backend.normalizer = normalizer
    words = pre_tokenizers.Split(Regex(_LLAMA3_WORDS), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([words, byte_level])
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(lines or sentences(), trainer)
    backend.add_special_tokens(special)
    return backend


def llama3_layout(lines: list[str] | None = None, size: int = 400) -> PreTrainedTokenizerFast:
    """Llama 3's layout: special tokens after all others, and a sequence of post-processors."""
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    backend = _split_byte_level(special, lines, size)
    bos = special[0]
    frame = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1", special_tokens=[(bos, backend.token_to_id(bos))]
    )
    backend.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), frame])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=bos, eos_token=special[1])


def xglm_layout() -> PreTrainedTokenizerFast:
    """XGLM's layout: a text begins with the end token, though there is a beginning token."""
    tokenizer = byte_level(bos_token="<s>", eos_token="</s>")
    return begin_texts_with(tokenizer, "</s>")


def glm_layout() -> PreTrainedTokenizerFast:
    """GLM's layout: a text begins with two special tokens, neither of which has a role."""
    tokenizer = byte_level(eos_token="</s>")
    tokenizer.add_special_tokens({"extra_special_tokens": ["[gMASK]", "<sop>"]})
    return begin_texts_with(tokenizer, "[gMASK]", "<sop>")


def begin_texts_with(tokenizer: PreTrainedTokenizerFast, *tokens: str) -> PreTrainedTokenizerFast:
    """Make a tokenizer put tokens before every text, in place."""
    ids = [(token, tokenizer.convert_tokens_to_ids(token)) for token in tokens]
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=[*tokens, "$A"], special_tokens=ids
    )
    return tokenizer


def qwen_layout(lines: list[str] | None = None, size: int = 400) -> PreTrainedTokenizerFast:
    """Qwen's layout: NFC, no frame around a text, and tokens for tools that are not special."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    backend = _split_byte_level(special, lines, size, normalizer=normalizers.NFC())
    backend.add_tokens([AddedToken(name, normalized=False) for name in ("<tool_call>", "</tool_call>")])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.chat_template = "<tool_call>{{ messages }}</tool_call>"
    return tokenizer


def _sizes(tokenizer: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }


def gpt2(tokenizer: Any) -> Any:
    return GPT2LMHeadModel(GPT2Config(**_sizes(tokenizer), n_embd=WIDTH, n_layer=2, n_head=2, n_positions=64))


def llama(tokenizer: Any, *, tied: bool = True) -> Any:
    return LlamaForCausalLM(
        LlamaConfig(
            **_sizes(tokenizer),
            **SMALL,
            num_key_value_heads=1,
            max_position_embeddings=64,
            tie_word_embeddings=tied,
        )
    )


def llama_untied(tokenizer: Any) -> Any:
    return llama(tokenizer, tied=False)


def gemma(tokenizer: Any) -> Any:
    return Gemma2ForCausalLM(
        Gemma2Config(
            **_sizes(tokenizer),
            **SMALL,
            num_key_value_heads=1,
            head_dim=16,
            max_position_embeddings=64,
        )
    )


def bert(tokenizer: Any) -> Any:
    return BertForMaskedLM(
        BertConfig(
            vocab_size=len(tokenizer),
            pad_token_id=tokenizer.pad_token_id,
            **SMALL,
            max_position_embeddings=64,
        )
    )


def roberta(tokenizer: Any) -> Any:
    return RobertaForMaskedLM(
        RobertaConfig(
            **_sizes(tokenizer),
            **SMALL,
            max_position_embeddings=66,
        )
    )


def modernbert(tokenizer: Any) -> Any:
    return ModernBertForMaskedLM(
        ModernBertConfig(
            **_sizes(tokenizer),
            cls_token_id=tokenizer.cls_token_id,
            sep_token_id=tokenizer.sep_token_id,
            **SMALL,
            max_position_embeddings=64,
        )
    )


def t5(tokenizer: Any) -> Any:
    return T5ForConditionalGeneration(
        T5Config(
            **_sizes(tokenizer),
            decoder_start_token_id=tokenizer.pad_token_id,
            d_model=WIDTH,
            d_kv=16,
            d_ff=64,
            num_layers=2,
            num_heads=2,
        )
    )


def bart(tokenizer: Any) -> Any:
    return BartForConditionalGeneration(
        BartConfig(
            **_sizes(tokenizer),
            decoder_start_token_id=tokenizer.eos_token_id,
            forced_eos_token_id=tokenizer.eos_token_id,
            d_model=WIDTH,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            max_position_embeddings=64,
        )
    )


FAMILIES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "gpt2": (byte_level, gpt2),
    "llama tied": (byte_level, llama),
    "llama untied": (byte_fallback, llama_untied),
    "gemma": (byte_fallback, gemma),
    "bert": (wordpiece, bert),
    "roberta": (roberta_tokenizer, roberta),
    "modernbert": (wordpiece, modernbert),
    "t5": (unigram, t5),
    "bart": (roberta_tokenizer, bart),
}
"""A tokenizer and a model of every family that is proved to work."""


def pair(family: str, seed: int = 0) -> tuple[Any, Any]:
    """A tiny model with random weights, biases included, and its tokenizer."""
    return copy.deepcopy(_pair(family, seed))


@cache
def _pair(family: str, seed: int) -> tuple[Any, Any]:
    make_tokenizer, make_model = FAMILIES[family]
    tokenizer = make_tokenizer()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = make_model(tokenizer).eval()
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(parameter, std=0.1)
    return model, tokenizer


def saved(family: str, folder: Path) -> Path:
    """The folder, with the model and the tokenizer of `pair` in it."""
    model, tokenizer = pair(family)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def permute_tokens(folder: Path) -> Path:
    """A copy of a model's folder, beside it, whose tokenizer has the same tokens in another order."""
    copied = shutil.copytree(folder, folder.with_name(f"{folder.name}-permuted"))
    file = copied / "tokenizer.json"
    content = json.loads(file.read_text())
    vocabulary = content["model"]["vocab"]
    special = {entry["content"] for entry in content["added_tokens"]}
    tokens = [token for token in vocabulary if token not in special]
    vocabulary.update(zip(tokens, [vocabulary[token] for token in reversed(tokens)], strict=True))
    file.write_text(json.dumps(content))
    return copied


def training_notes(**changes: Any) -> dict[str, Any]:
    """What `relexify.json` says about a training, with some entries changed."""
    return {
        "selected_step": 0,
        "tokens_seen": 640,
        "seconds": 1.0,
        "tokens_per_second": None,
        "length": 64,
        "learning_rate": None,
        "stages": [],
        "snapshots": [],
        **changes,
    }
