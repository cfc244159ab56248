"""Turn text files into token files for training and validation."""

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from warmstart import progress
from warmstart.data.corpus import RowCounts, TextSource
from warmstart.data.fingerprints import CODE_BITS, code_of
from warmstart.data.sentences import SentenceFinder
from warmstart.data.shards import (
    TRAIN,
    VALID,
    LocalWorkers,
    OpenWorkers,
    RayWorkers,
    ShardWriter,
    join_shards,
    write_shards,
)
from warmstart.data.token_file import DocumentWriter, SentenceFile, TokenFile, encode
from warmstart.errors import WarmstartError
from warmstart.files import remove_own, whole_folder
from warmstart.ray_cluster import RayCluster
from warmstart.textfiles import file_facts
from warmstart.tokenization.backends import train_tokenizer
from warmstart.tokenization.tokenizer import Tokenizer

MIN_SAMPLED = 50  # a text is at most one part in this many of a sample
HELD_OUT = (0.01, 0.1, 0.5)  # share for validation; the next one if the corpus is too small


def sample_tokenizer(source: TextSource, kind: str, vocab_size: int, sample_mb: int) -> Tokenizer:
    """Train a tokenizer on a sample of passages, chosen by their content."""
    texts = ("\n".join(passage.rows) for passage in source.passages())
    return train_tokenizer(sample_texts(texts, 1_000_000 * sample_mb), kind, vocab_size)


def sample_texts(texts: Iterable[str], most_bytes: int) -> list[str]:
    """Return a sample of texts of limited total size, chosen by content; long texts are cut."""
    highest, size, longest = 2**CODE_BITS, 0, max(1, most_bytes // MIN_SAMPLED)
    chosen: list[tuple[int, str]] = []
    for whole in texts:
        text = whole[:longest]
        if (code := code_of(text)) < highest:
            chosen.append((code, text))
            size += len(text.encode())
        while size > most_bytes:
            highest //= 2
            chosen = [(code, text) for code, text in chosen if code < highest]
            size = sum(len(text.encode()) for _, text in chosen)
    return [text for _, text in chosen]


@dataclass(frozen=True)
class PreparedText:
    """Tokens for training and validation, and the facts for data.json."""

    train: TokenFile
    valid: TokenFile
    facts: dict[str, Any]
    train_index: SentenceFile | None = None  # where sentences are, for next-sentence pairs
    valid_index: SentenceFile | None = None


def prepare(
    source: TextSource,
    valid: TextSource | None,
    writer: ShardWriter,
    folder: Path,
    open_workers: OpenWorkers | None = None,
) -> dict[str, Any]:
    """Write train and validation tokens to `folder`, whole or not at all; return the facts.

    Finished shards stay in a folder beside it, for a preparation that is interrupted.
    """
    has_index = writer.has_index
    for share in (0.0,) if valid else HELD_OUT:
        remove_own(folder)
        writer, counts = replace(writer, held_out=share), dict[Path, RowCounts]()
        shards = write_shards(source, writer, folder.with_name("shards"), open_workers, counts)
        with whole_folder(folder) as temporary:
            held_out = () if valid else (VALID,)
            fingerprints = join_shards(shards, temporary, (TRAIN, *held_out)).to_json()
            facts = _facts(counts, TokenFile(temporary / TRAIN))
            facts |= {"held_out": share, "fingerprints": fingerprints}
            if valid:
                facts["valid"] = write_tokens(
                    valid, writer.tokenizer, temporary / VALID, writer.finder
                )
            if has_index and share <= HELD_OUT[0]:
                _check_pairs(temporary / TRAIN, source)
            if has_index and valid:
                _check_pairs(temporary / VALID, valid)
        if _is_enough(folder, has_index):
            break
    else:
        raise WarmstartError(
            f"{source.files[0]}: too little text to hold some out for validation; give --valid"
        )
    if TokenFile(folder / TRAIN).num_tokens < 2:
        raise WarmstartError(f"{source.files[0]}: no text is left for training; give more text")
    return facts


@contextmanager
def workers_of(ray: str | None, num_processes: int) -> Iterator[OpenWorkers | None]:
    """Yield a function that opens workers on a Ray cluster or on this machine; None: no workers."""
    if ray is not None:
        with closing(RayCluster(ray)) as cluster:
            yield partial(RayWorkers, cluster)
    else:
        yield partial(LocalWorkers, num_processes) if num_processes > 1 else None


def _is_enough(folder: Path, has_index: bool) -> bool:
    """Tell whether there is text for validation; with an index, pairs there and in training."""
    if not has_index:
        return TokenFile(folder / VALID).num_tokens > 0
    return all(SentenceFile(folder / name).has_pairs for name in (TRAIN, VALID))


def _check_pairs(path: Path, source: TextSource) -> None:
    """Refuse text without positive or without negative next-sentence pairs."""
    index, files = SentenceFile(path), ", ".join(map(str, source.files[:3]))
    if index.num_documents < 2:
        raise WarmstartError(
            f"{files}: there is only one document, so no negative next-sentence pair exists; add "
            "--document line if each line is a document, or leave out --nsp"
        )
    if not index.has_positive_pairs:
        raise WarmstartError(
            f"{files}: every document is a single sentence, so no positive next-sentence pair "
            "exists; add --document blank if blank lines separate documents, or leave out --nsp"
        )


def read_prepared(folder: Path, facts: dict[str, Any], has_index: bool = False) -> PreparedText:
    """Map prepared tokens into memory."""
    train, valid = folder / TRAIN, folder / VALID
    indices = [SentenceFile(path) if has_index else None for path in (train, valid)]
    return PreparedText(TokenFile(train), TokenFile(valid), facts, *indices)


def check_known(file: TokenFile, tokenizer: Tokenizer) -> None:
    """Report the share of unknown tokens; refuse text that the tokenizer cannot read."""
    sample = file.ids[:1_000_000]
    share = float((sample == tokenizer.unk).mean()) if tokenizer.unk is not None else 0.0
    if share > 0.5:
        raise WarmstartError(
            f"the tokenizer does not know {share:.0%} of the text; a vocabulary of pieces reads "
            "only text that is already split into them"
        )
    if share > 0.001:
        progress.say(f"{share:.1%} of the tokens are unknown to the tokenizer")


def write_tokens(
    source: TextSource, tokenizer: Tokenizer, path: Path, finder: SentenceFinder | None = None
) -> dict[str, Any]:
    """Write all text of a source to one token file; return the facts."""
    counts: dict[Path, RowCounts] = {}
    with (
        DocumentWriter(path, tokenizer, finder is not None) as writer,
        progress.bar("tokenizing", source.num_bytes, "B") as bar,
    ):
        passages = source.passages(counts)
        for passage, tokens in encode(passages, tokenizer, finder, advance=bar.advance):
            writer.add(tokens, passage.continues)
    return _facts(counts, writer)


def _facts(counts: dict[Path, RowCounts], tokens: DocumentWriter | TokenFile) -> dict[str, Any]:
    for path, count in counts.items():
        if count.skipped:
            progress.say(f"{path}: skipped {count.skipped:,} empty rows of {count.rows:,}")
    rows = {path: count.rows for path, count in counts.items()}
    return {
        "files": file_facts(rows),
        "rows": sum(rows.values()),
        "skipped": sum(count.skipped for count in counts.values()),
        "tokens": tokens.num_tokens,
        "bytes": tokens.num_bytes,
    }
