"""A translator in training and validation pairs -> what validation says.

Knows nothing about how it is trained.
"""

from dataclasses import dataclass
from typing import Literal

import torch

from warmstart import progress
from warmstart.batching.pair_batches import EncodedPairs, budgeted_pairs, pad_pairs
from warmstart.data.pairs import Pairs
from warmstart.decoding.beam import Beam
from warmstart.decoding.engines import training_engine
from warmstart.evaluation.bleu import corpus_bleu
from warmstart.evaluation.score import score_pairs
from warmstart.inference.translator import Translating
from warmstart.model.models import Translator
from warmstart.recipes.tongues import Tongues
from warmstart.runtime import Runtime
from warmstart.training.trainer import Evaluation

JUDGED = 2000  # of more validation pairs than this evenly spaced ones are translated
ROOM = 72  # characters of a sample that are shown


@dataclass(frozen=True)
class Judge:
    """Validation pairs, as ids for the loss and as text for BLEU."""

    pairs: EncodedPairs
    texts: Pairs
    tongues: Tongues
    micro_tokens: int
    select: Literal["bleu", "loss"]  # the figure that picks the best
    samples: int  # translations that are shown

    def __call__(self, model: Translator, runtime: Runtime) -> Evaluation:
        """Judge the weights a model has now."""
        loss, accuracy = self._loss(model, runtime)
        bleu = self._bleu(model, runtime)
        figures = {"valid_loss": loss, "valid_bleu": bleu, "valid_accuracy": accuracy}
        # Of equal BLEU, and at the start it is often zero, the lower loss is better.
        score = bleu - 1e-6 * loss if self.select == "bleu" else -loss
        return Evaluation(score, figures, f"valid loss {loss:.3f}, BLEU {bleu:.1f}")

    def _loss(self, model: Translator, runtime: Runtime) -> tuple[float, float]:
        """Return the mean loss of a token, and the share that is predicted right."""
        pads = (self.tongues.source.pad, self.tongues.target.pad)
        rows = budgeted_pairs(range(len(self.pairs)), self.pairs.sizes(), self.micro_tokens)
        batches = (pad_pairs(self.pairs, part, *pads) for part in rows)
        nll, num_tokens, num_right = score_pairs(model, batches, runtime)
        return nll / num_tokens, num_right / num_tokens

    def _bleu(self, model: Translator, runtime: Runtime) -> float:
        """Return the BLEU of greedy translations, and show some."""
        num = len(self.texts)
        chosen = range(0, num, -(-num // JUDGED))
        sources = [self.texts.sources[row] for row in chosen]
        references = [self.texts.targets[row] for row in chosen]
        greedy = Translating(
            training_engine(model, runtime),
            self.tongues.source,
            self.tongues.target,
            Beam(width=1),
            batch_tokens=self.micro_tokens,
        )
        with torch.compiler.set_stance("force_eager"):  # steps grow: none has a shape of before
            found = [best[0].text for best in greedy.translate(sources)]
        for row in range(min(self.samples, len(found))):
            progress.say(f"  {_beginning(sources[row])} -> {_beginning(found[row])}")
        return corpus_bleu(found, references)


def _beginning(text: str) -> str:
    return text if len(text) <= ROOM else f"{text[: ROOM - 1]}…"
