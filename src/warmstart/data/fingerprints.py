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
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from warmstart.data.shingles import CODE_BITS, Codes, Shingles, ShingleSampler, join_shingles
from warmstart.errors import WarmstartError

AnyNumber = TypeVar("AnyNumber", bound=np.integer[Any])

CAPACITY = 1 << 24  # texts; of more than that, every second one is kept, and so on
_CODE_BYTES = CODE_BITS // 8
_TAG = re.compile(r"</?[a-z][^<>]{0,200}>", re.IGNORECASE)
_SPACES_AND_MARKS = r"\s!-/:-@\[-`{-~\x7f-\xbf\u2000-\u206f\u3000-\u303f،؛؟۔।॥։"
_WORD = re.compile(f"[^{_SPACES_AND_MARKS}]+")  # faster than excluding Unicode categories


def normalise(text: str) -> str:
    """Return the words of a text in one case, without markup and punctuation."""
    if "&" in text:
        text = _unescaped(text)
    if "<" in text:
        text = _TAG.sub(" ", text)
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_WORD.findall(folded)) or " ".join(folded.split())


def _unescaped(text: str) -> str:
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

    def unpacked(self) -> "Fingerprints":
        """Return the set of texts."""
        try:
            texts, codes = _unpacked(self.texts), _unpacked(self.shingles)
        except ValueError as error:
            raise WarmstartError(f"fingerprints cannot be read: {error}") from None
        if not 0 <= self.halvings <= CODE_BITS:
            raise WarmstartError(f"fingerprints: halvings={self.halvings} must be 0 to {CODE_BITS}")
        shingles = Shingles(codes, np.zeros(len(codes), np.int64), self.halvings)
        return Fingerprints(texts, np.empty(0, np.uint64), shingles)


@dataclass(frozen=True)
class Fingerprints:
    """What is kept of texts."""

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
        """Return the set of the texts and documents as data.json records it."""
        packed = PackedFingerprints(
            texts=_packed(self.known),
            shingles=_packed(distinct(self.shingles.codes)),
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
    """The codes of any number of texts: all of them, or half or a quarter of those there are."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity, self._halvings = capacity, 0
        self._parts: list[Codes] = []

    def add(self, codes: Codes) -> None:
        """Add the codes of more texts."""
        self._parts.append(self._thinned(codes))
        if sum(map(len, self._parts)) > 2 * self._capacity:
            self._parts = [self.codes()]

    def codes(self) -> Codes:
        """Return the codes that are kept, sorted and each once."""
        codes = distinct(np.concatenate(self._parts))
        while len(codes) > self._capacity:
            self._halvings += 1
            codes = self._thinned(codes)
        return codes

    def _thinned(self, codes: Codes) -> Codes:
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
    """Return codes sorted and each once; `np.unique` takes many times as long for so many."""
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


def _packed(codes: Codes) -> str:
    octets = codes.astype("<u8").view(np.uint8).reshape(-1, 8)
    return base64.b64encode(octets[:, :_CODE_BYTES].tobytes()).decode("ascii")


def _unpacked(text: str) -> Codes:
    packed = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
    packed = packed.reshape(-1, _CODE_BYTES)
    octets = np.zeros((len(packed), 8), np.uint8)
    octets[:, :_CODE_BYTES] = packed
    return octets.view("<u8").astype(np.uint64).ravel()
