"""The settings of `tokenizer`, and of the tokenizer that a model is trained with."""

from dataclasses import dataclass

from warmstart.settings.base import Settings, option
from warmstart.settings.choices import TokenizerKind
from warmstart.settings.input_files import Documents, TextColumn

MIN_VOCAB_SIZE = 261  # the bytes and the special tokens


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(Documents, TextColumn):
    """Text in, tokenizer out."""

    files: tuple[str, ...] = option(help="text files, folders or globs", positional=True)
    out: str = option(help="folder to write", short="-o", recorded=False)
    kind: TokenizerKind = option("bpe", help="algorithm")
    vocab_size: int = option(16_000, help="entries, including special tokens", least=MIN_VOCAB_SIZE)
    sample_mb: int = option(100, help="megabytes of text to learn from, at most", least=1)


@dataclass(frozen=True, kw_only=True)
class ModelTokenizer(Settings, panel="Model"):
    """The tokenizer of a new model."""

    tokenizer: str | None = option(None, help="tokenizer, or run that has one; default: train one")
    vocab_size: int | None = option(
        None, help="size of the trained tokenizer; default: the preset's", least=MIN_VOCAB_SIZE
    )


@dataclass(frozen=True, kw_only=True)
class TrainedTokenizer(ModelTokenizer, panel="Model"):
    """The tokenizer of a new model, of either kind."""

    tokenizer_kind: TokenizerKind = option("bpe", help="kind of tokenizer to train", advanced=True)
