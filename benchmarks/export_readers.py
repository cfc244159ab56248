"""Exported models as each library reads them, asked the same questions as ours."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import tokenizers
import torch

import warmstart
from warmstart.interop.onnx_write import OnnxSession, as_past
from warmstart.model.backbone import Layout
from warmstart.tasks.text_model import TransformerModel

NUM_NEW = 3  # tokens that are written greedily


@dataclass(frozen=True)
class Question:
    """A sentence that no training saw, as the model reads it, and what it is scored on."""

    ids: list[int]
    target: list[int]  # of a model that writes text


class Ours:
    """Our own model; other libraries replace how logits are computed and texts translated."""

    def __init__(self, objective: str, run: Path) -> None:
        self.objective = objective
        self.used = cast(TransformerModel, warmstart.load(run, threads=1))
        self.tokenizer = self.used.tokenizer

    def logits(self, ids: list[int]) -> Any:
        """Return logits of a text: of its label, or of each token."""
        is_token = torch.ones(1, len(ids), dtype=torch.bool)
        return self.used.model(torch.tensor([ids]), Layout(is_token=is_token))[0]

    def target_logits(self, ids: list[int], target: list[int]) -> Any:
        """Return logits of each target token."""
        return self.used.model(torch.tensor([ids]), None, torch.tensor([target]))[0]

    def outputs(self, asked: list[Question]) -> list[Any]:
        """Return numbers to compare: logits, of texts that are generated log-probabilities."""
        if self.objective == "translate":
            start, end = self.tokenizer.bos, self.tokenizer.eos
            return [
                chosen(self.target_logits(q.ids, [start, *q.target]), [*q.target, end])
                for q in asked
            ]
        if self.objective == "causal":
            return [chosen(self.logits(q.ids), q.target) for q in asked]
        return [self.logits(q.ids) for q in asked]

    def decisions(self, asked: list[Question]) -> list[str]:
        """Return what must be equal: labels, tokens or texts."""
        if self.objective == "translate":
            start = [self.tokenizer.bos]
            return [self.continued(partial(self.target_logits, q.ids), start) for q in asked]
        if self.objective == "causal":
            return [self.continued(self.logits, q.ids) for q in asked]
        return [str(self.logits(q.ids).argmax(-1).tolist()) for q in asked]

    def continued(self, logits: Callable[[list[int]], Any], ids: list[int]) -> str:
        """Continue ids greedily; a model of a few steps does not know yet where to end."""
        suppressed = self.tokenizer.suppressed_ids(self.used.config.vocab_size)
        for _ in range(NUM_NEW):
            last = logits(ids)[-1].clone()
            last[[*suppressed, self.tokenizer.eos]] = -torch.inf
            ids = [*ids, int(last.argmax())]
        return str(ids[-NUM_NEW:])


def chosen(logits: Any, ids: list[int]) -> Any:
    """Return the log-probability of each id."""
    return logits[: len(ids)].log_softmax(-1)[range(len(ids)), ids]


class Transformers(Ours):
    """The model as transformers loads it."""

    def __init__(self, objective: str, run: Path, folder: Path) -> None:
        import transformers

        super().__init__(objective, run)
        (name,) = json.loads((folder / "config.json").read_text())["architectures"]
        self.theirs = getattr(transformers, name).from_pretrained(folder).eval()

    def logits(self, ids: list[int]) -> Any:
        return self.theirs(input_ids=torch.tensor([ids])).logits[0]

    def target_logits(self, ids: list[int], target: list[int]) -> Any:
        given = {"input_ids": torch.tensor([ids]), "decoder_input_ids": torch.tensor([target])}
        return self.theirs(**given).logits[0]


class Onnx(Ours):
    """The model as onnxruntime loads it."""

    def __init__(self, objective: str, run: Path, folder: Path) -> None:
        super().__init__(objective, run)
        names = ["encoder_model", "decoder_model"] if objective == "translate" else ["model"]
        self.sessions = [OnnxSession(folder / f"{name}.onnx") for name in names]

    def logits(self, ids: list[int]) -> Any:
        (session,), row = self.sessions, np.array([ids])
        inputs = {"input_ids": row, "attention_mask": np.ones_like(row), **session.empty_cache(1)}
        return torch.from_numpy(session(inputs)["logits"])[0]

    def target_logits(self, ids: list[int], target: list[int]) -> Any:
        (encoder, decoder), row = self.sessions, np.array([ids])
        encoded = encoder({"input_ids": row, "attention_mask": np.ones_like(row)})
        inputs = {"input_ids": np.array([target]), "encoder_attention_mask": np.ones_like(row)}
        caches = decoder.empty_cache(1) | as_past(encoded)
        return torch.from_numpy(decoder({**inputs, **caches})["logits"])[0]


class CTranslate2(Ours):
    """The model as CTranslate2 loads it."""

    def __init__(self, objective: str, run: Path, folder: Path) -> None:
        import ctranslate2

        super().__init__(objective, run)
        self.words = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        engine = ctranslate2.Translator if objective == "translate" else ctranslate2.Generator
        self.engine = engine(str(folder), compute_type="float32", intra_threads=1)
        self.suppressed = self.tokens(self.tokenizer.suppressed_ids(self.tokenizer.vocab_size))

    def tokens(self, ids: list[int]) -> list[str]:
        return [str(self.words.id_to_token(index)) for index in ids]

    def outputs(self, asked: list[Question]) -> list[Any]:
        if self.objective == "translate":
            sources = [self.tokens(q.ids[1:-1]) for q in asked]
            results = self.engine.score_batch(sources, [self.tokens(q.target) for q in asked])
        else:
            results = self.engine.score_batch([self.tokens(q.ids) for q in asked])
        return [torch.tensor(result.log_probs) for result in results]

    def decisions(self, asked: list[Question]) -> list[str]:
        suppressed = [[token] for token in self.suppressed]
        if self.objective == "translate":
            results = self.engine.translate_batch(
                [self.tokens(q.ids[1:-1]) for q in asked],
                beam_size=1,
                max_decoding_length=NUM_NEW,
                min_decoding_length=NUM_NEW,
                suppress_sequences=suppressed,
            )
            written = [result.hypotheses[0] for result in results]
            return [str([*map(self.words.token_to_id, tokens)]) for tokens in written]
        results = self.engine.generate_batch(
            [self.tokens(q.ids) for q in asked],
            beam_size=1,
            max_length=NUM_NEW,
            min_length=NUM_NEW,
            suppress_sequences=suppressed,
            include_prompt_in_result=False,
        )
        return [str(list(result.sequences_ids[0])) for result in results]


READERS = {"hf": Transformers, "onnx": Onnx, "ctranslate2": CTranslate2}
