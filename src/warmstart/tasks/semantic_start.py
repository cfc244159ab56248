"""Embeddings that start from latent semantic analysis of the text (Deerwester et al., 1990).

Tokens that occur in the same documents start with similar embeddings, so the mean vector of a text
says what it is like before the first step.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warmstart.batching.packing import RunningText, read_packed_rows
from warmstart.data.fingerprints import distinct
from warmstart.tasks.latent_semantics import decompose

MAX_TOKENS = 8_000_000  # that are analysed; longer text is sampled in evenly spaced rows
ROWS_PER_BATCH = 1024
RANK_SHARE = 4  # one dimension in this many is set, the others stay random
STRENGTH = 3.0  # spread of these dimensions relative to the random ones


@torch.no_grad()
def start_from_semantics(embedding: Tensor, text: RunningText, seed: int) -> None:
    """Set the first dimensions of an embedding (V, D) by which tokens occur together."""
    V, D = embedding.shape
    occurrences = _occurrences(text, V)
    rank = min(D // RANK_SHARE, min(occurrences.shape) - 1)
    if rank < 1:
        return
    frequencies = np.bincount(occurrences.indices, minlength=V) / occurrences.nnz
    vectors = torch.from_numpy(_semantics(occurrences, rank, seed))  # (V, rank)
    spread = (torch.from_numpy(frequencies)[:, None] * vectors.square()).sum() / rank
    if spread > 0:
        scale = STRENGTH * embedding.std() / spread.sqrt().to(embedding)
        embedding[:, :rank] = scale * vectors.to(embedding)


def _semantics(occurrences: Any, rank: int, seed: int) -> NDArray[np.float64]:
    """Return a vector for each token from the largest singular vectors: (V, rank)."""
    found = decompose(occurrences, rank, seed)
    semantics: NDArray[np.float64] = found.weights[:, None] * found.directions
    return semantics * np.sqrt(found.values)


def _occurrences(text: RunningText, vocab_size: int) -> Any:
    """Return which tokens occur in which document of which row: sparse (documents, V)."""
    from scipy.sparse import csr_array

    documents, tokens, num_documents = [], [], 0
    for batch in read_packed_rows(text, ROWS_PER_BATCH, MAX_TOKENS):
        B, most = len(batch.ids), int(batch.documents.max()) + 1
        numbers = batch.documents.numpy() + most * np.arange(B)[:, None] + num_documents  # (B, T)
        pairs = distinct((numbers * vocab_size + batch.ids.numpy()).ravel())
        documents.append(pairs // vocab_size)
        tokens.append(pairs % vocab_size)
        num_documents += B * most
    rows, columns = np.concatenate(documents), np.concatenate(tokens)
    occurs = np.ones(len(rows))
    matrix = csr_array((occurs, (rows, columns)), shape=(num_documents, vocab_size))
    return matrix[np.diff(matrix.indptr) > 0]  # numbers that no document has are left out
