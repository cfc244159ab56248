"""Fingerprints of texts: enough to recognise a text or a near-copy, too little to recover it.

Texts are the same when they differ only in markup, punctuation, case, spacing or equivalent Unicode
forms.
"""

import base64
import html
import re
import unicodedata
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import WarmstartError

Codes = NDArray[np.uint64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
CODE_BITS = 48  # of a hash that is kept: enough to distinguish millions of texts
WINDOW = 32  # characters; a power of two
WINDOW_CAPACITY = 1 << 20  # windows kept, at most twice as many while text is added
CAPACITY = 1 << 24  # texts; of more than that, every second one is kept, and so on
LEAST_WINDOWS = 3  # a text with fewer kept windows is not judged
NEAR_COPY = 0.5  # least share of the windows of a near-copy that also occur elsewhere
_CHUNK_CHARS = 1 << 16  # hashed together
_BASE, _SPREAD, _MIX = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
AnyNumber = TypeVar("AnyNumber", bound=np.integer[Any])
_CODE_BYTES = CODE_BITS // 8
_TAG = re.compile(r"</?[a-z][^<>]{0,200}>", re.IGNORECASE)
_SPACES_AND_MARKS = r"\s!-/:-@\[-`{-~\x7f-\xbf\u2000-\u206f\u3000-\u303f،؛؟۔।॥։"
_WORD = re.compile(f"[^{_SPACES_AND_MARKS}]+")  # faster than excluding Unicode categories


@dataclass(frozen=True)
class Shingles:
    """Sampled windows of texts."""

    codes: Codes  # (N,) below 2 ** (CODE_BITS - halvings)
    rows: Ints  # (N,) the number of each window's text, rising
    halvings: int = 0  # how often the share that is kept was halved

    def thin(self, halvings: int) -> "Shingles":
        """Return what a sample with more halvings would have kept."""
        is_kept = self.codes >> np.uint64(CODE_BITS - halvings) == 0
        return Shingles(self.codes[is_kept], self.rows[is_kept], max(halvings, self.halvings))

    def near_copies(self, known: "Shingles", num_rows: int) -> Flags:
        """Tell which of the texts share at least half of their windows with the known texts."""
        own, known = _same_sample(self, known)
        return own._near_rows(np.isin(own.codes, known.codes), num_rows)

    def near_repeats(self, num_rows: int) -> Flags:
        """Tell which of the texts share at least half of their windows with earlier ones."""
        _, first, numbers = np.unique(self.codes, return_index=True, return_inverse=True)
        return self._near_rows(self.rows[first[numbers]] < self.rows, num_rows)

    def _near_rows(self, is_known: Flags, num_rows: int) -> Flags:
        num_windows = np.bincount(self.rows, minlength=num_rows)
        num_known = np.bincount(self.rows[is_known], minlength=num_rows)
        return (num_windows >= LEAST_WINDOWS) & (num_known >= NEAR_COPY * num_windows)

    def nearest(self, row: int, known: "Shingles") -> int:
        """Return the known text that has most windows in common with a text."""
        own, known = _same_sample(self, known)
        is_common = np.isin(known.codes, own.codes[own.rows == row])
        return int(np.bincount(known.rows[is_common]).argmax())


class ShingleSampler:
    """Collects the windows of passages, given one after the other."""

    def __init__(self) -> None:
        self._shingles = Shingles(np.empty(0, np.uint64), np.empty(0, np.int64))
        self._new: list[Shingles] = []
        self._chunk = _Chunk()

    def add(self, paragraphs: Sequence[str], first_row: int) -> None:
        """Add the windows of a passage, of which each paragraph is a row."""
        filled = [item for item in enumerate(paragraphs, first_row) if item[1]]
        for row, paragraph in filled:
            self._chunk.texts.append(f"{paragraph} ")
            self._chunk.rows.append(row)
            self._chunk.num_chars += len(paragraph) + 1
        self._chunk.stops += [self._chunk.num_chars - 1] * len(filled)
        if self._chunk.num_chars > _CHUNK_CHARS:
            self._hash()

    def sample(self) -> Shingles:
        """Return the windows kept so far."""
        self._hash()
        self._merge()
        return self._shingles

    def _hash(self) -> None:
        if self._chunk.texts:
            self._new.append(self._chunk.windows(self._shingles.halvings))
        self._chunk = _Chunk()
        if sum(len(part.codes) for part in self._new) > WINDOW_CAPACITY:
            self._merge()

    def _merge(self) -> None:
        self._shingles = join_shingles([self._shingles, *self._new])
        self._new = []


@dataclass
class _Chunk:
    """Paragraphs that are hashed together."""

    texts: list[str] = field(default_factory=list)  # each with a space after it
    rows: list[int] = field(default_factory=list)  # number of each paragraph
    stops: list[int] = field(default_factory=list)  # where the passage of each ends
    num_chars: int = 0

    def windows(self, halvings: int) -> Shingles:
        """Return the windows that the sample keeps, with the row where each begins."""
        joined = "".join(self.texts).encode("utf-32-le", "surrogatepass")
        codes = _hash_windows(np.frombuffer(joined, "<u4"))
        positions = np.flatnonzero(codes >> np.uint64(CODE_BITS - halvings) == 0)
        ends = np.cumsum([len(text) for text in self.texts])
        paragraphs = np.searchsorted(ends, positions, "right")
        is_inside = positions + WINDOW <= np.asarray(self.stops)[paragraphs]
        rows = np.asarray(self.rows, np.int64)[paragraphs[is_inside]]
        return Shingles(codes[positions[is_inside]], rows, halvings)


def join_shingles(parts: Sequence[Shingles]) -> Shingles:
    """Return the windows of several samples as one, thinned until they fit."""
    halvings = max(part.halvings for part in parts)
    thinned = [part.thin(halvings) for part in parts]
    joined = Shingles(
        np.concatenate([part.codes for part in thinned]),
        np.concatenate([part.rows for part in thinned]),
        halvings,
    )
    while len(joined.codes) > WINDOW_CAPACITY:
        joined = joined.thin(joined.halvings + 1)
    return joined


def _same_sample(first: Shingles, second: Shingles) -> tuple[Shingles, Shingles]:
    halvings = max(first.halvings, second.halvings)
    return first.thin(halvings), second.thin(halvings)


def _hash_windows(characters: NDArray[np.uint32]) -> Codes:
    """Return a hash of every window: a polynomial of its characters, then mixed."""
    codes = characters.astype(np.uint64) * np.uint64(_SPREAD)
    size, power = 1, _BASE
    while size < WINDOW:  # two windows of half the size make one
        codes = codes[:-size] * np.uint64(power) + codes[size:]
        size, power = 2 * size, power * power % 2**64
    codes ^= codes >> np.uint64(29)
    codes *= np.uint64(_MIX)
    return codes >> np.uint64(64 - CODE_BITS)


def normalise(text: str) -> str:
    """Return the words of a text in one case, without markup and punctuation."""
    if "&" in text:
        text = _unescape(text)
    if "<" in text:
        text = _TAG.sub(" ", text)
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_WORD.findall(folded)) or " ".join(folded.split())


def _unescape(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # a character number of thousands of digits
        return text


def code_of(normalised: str) -> int:
    """Return a stable 48-bit hash of a normalised text."""
    return _number(_hash_of(normalised))


def fingerprint(text: str) -> int:
    """Return a stable 48-bit hash of a text, the same for copies of it."""
    return code_of(normalise(text))


@dataclass(frozen=True, kw_only=True)
class PackedFingerprints:
    """Fingerprints as data.json records them: sets of codes as base64, six bytes for each."""

    texts: str
    shingles: str
    halvings: int

    def unpack(self) -> "Fingerprints":
        """Return the fingerprints; the codes of documents are among those of texts."""
        try:
            texts, codes = _unpack(self.texts), _unpack(self.shingles)
        except ValueError as error:
            raise WarmstartError(f"fingerprints cannot be read: {error}") from None
        if not 0 <= self.halvings <= CODE_BITS:
            raise WarmstartError(f"fingerprints: halvings={self.halvings} must be 0 to {CODE_BITS}")
        shingles = Shingles(codes, np.zeros(len(codes), np.int64), self.halvings)
        return Fingerprints(texts, np.empty(0, np.uint64), shingles)


@dataclass(frozen=True)
class Fingerprints:
    """The fingerprints of texts, and of the documents that they form."""

    texts: Codes  # (R,) the code of every text, in order
    documents: Codes  # the codes of documents that consist of several texts
    shingles: Shingles  # sampled windows, by the number of their text

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def known(self) -> Codes:
        """Return the codes of all texts and documents, sorted."""
        return distinct(np.concatenate([self.texts, self.documents]))

    def to_json(self) -> dict[str, Any]:
        """Return the codes of texts, documents and windows as data.json records them."""
        packed = PackedFingerprints(
            texts=_pack(self.known),
            shingles=_pack(distinct(self.shingles.codes)),
            halvings=self.shingles.halvings,
        )
        return asdict(packed)


def join_fingerprints(sets: Iterable[Fingerprints]) -> Fingerprints:
    """Return the fingerprints of the texts of several sets, of which one is read at a time."""
    texts = TextSample()
    shingles = Shingles(np.empty(0, np.uint64), np.empty(0, np.int64))
    for fingerprints in sets:
        texts.add(fingerprints.known)
        shingles = join_shingles([shingles, fingerprints.shingles])
    return Fingerprints(texts.codes(), np.empty(0, np.uint64), shingles)


class TextSample:
    """The codes of any number of texts: all of them, or a half, a quarter and so on."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity, self._halvings = capacity, 0
        self._parts: list[Codes] = []

    def add(self, codes: Codes) -> None:
        """Add the codes of more texts."""
        self._parts.append(self._thin(codes))
        if sum(map(len, self._parts)) > 2 * self._capacity:
            self._parts = [self.codes()]

    def codes(self) -> Codes:
        """Return the codes that are kept, sorted and each once."""
        codes = distinct(np.concatenate(self._parts))
        while len(codes) > self._capacity:
            self._halvings += 1
            codes = self._thin(codes)
        return codes

    def _thin(self, codes: Codes) -> Codes:
        return codes[codes >> np.uint64(CODE_BITS - self._halvings) == 0]


class FingerprintWriter:
    """Takes fingerprints of documents, passage by passage; keeps none of their text."""

    def __init__(self) -> None:
        self._texts, self._documents = array("Q"), array("Q")
        self._sampler = ShingleSampler()
        self._document = _hash_of("")  # of the open document
        self._num_paragraphs = 0  # of the open document

    def add(self, paragraphs: Sequence[str], continues: bool = False) -> None:
        """Add the normalised paragraphs of a document, or of the next part of the open one."""
        if not continues:
            self.end_document()
        first = len(self._texts)
        for paragraph in paragraphs:
            self._texts.append(code_of(paragraph))
            if paragraph:
                separator = " " if self._num_paragraphs else ""
                self._document.update(f"{separator}{paragraph}".encode("utf-8", "surrogatepass"))
                self._num_paragraphs += 1
        self._sampler.add(paragraphs, first)

    def finish(self) -> Fingerprints:
        """Return the fingerprints of every paragraph and every document."""
        self.end_document()
        texts, documents = (np.array(codes, np.uint64) for codes in (self._texts, self._documents))
        return Fingerprints(texts, documents, self._sampler.sample())

    def end_document(self) -> None:
        """End the open document, if there is one."""
        if self._num_paragraphs > 1:
            self._documents.append(_number(self._document))
        self._document, self._num_paragraphs = _hash_of(""), 0


def distinct(codes: NDArray[AnyNumber]) -> NDArray[AnyNumber]:
    """Return codes sorted and each once; for millions, `np.unique` takes many times as long."""
    ordered = np.sort(codes)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]


def fingerprints_of(texts: Iterable[str]) -> Fingerprints:
    """Return the fingerprints of texts, each of which is one paragraph."""
    writer = FingerprintWriter()
    for text in texts:
        writer.add([normalise(text)])
    return writer.finish()


def _hash_of(normalised: str) -> blake2b:
    return blake2b(normalised.encode("utf-8", "surrogatepass"), digest_size=_CODE_BYTES)


def _number(hashed: blake2b) -> int:
    return int.from_bytes(hashed.digest(), "big")


def _pack(codes: Codes) -> str:
    octets = codes.astype("<u8").view(np.uint8).reshape(-1, 8)
    return base64.b64encode(octets[:, :_CODE_BYTES].tobytes()).decode("ascii")


def _unpack(text: str) -> Codes:
    packed = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
    packed = packed.reshape(-1, _CODE_BYTES)
    octets = np.zeros((len(packed), 8), np.uint8)
    octets[:, :_CODE_BYTES] = packed
    return octets.view("<u8").astype(np.uint64).ravel()
