"""Translation rate on a CPU: warmstart against the Marian model of `transformers`, one shape.

Both have random weights, read the same sentences sorted by length, and write the same number of
tokens, so that only speed differs. Needs `transformers`, which the dev extra installs.

    python benchmarks/translation.py
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from measuring import Ratio, add_json_option, report

from warmstart.decoding.beam import Beam
from warmstart.decoding.engines import fast_engine, translate_ids
from warmstart.decoding.sample import SpecialIds
from warmstart.model.models import Translator
from warmstart.runtime import choose_runtime
from warmstart.settings.architecture import PRESETS

BOS, PAD, EOS = 0, 1, 2
LENGTH = 20  # tokens of every translation
BATCHES = (1, 16, 64)
TURN = 64  # sentences one system translates before the other has its turn
Translate = Callable[[list[list[int]], int], None]  # sources, beam


def draw_sources(num: int, vocab_size: int) -> list[list[int]]:
    """Return random sentences, the shortest first."""
    draw = torch.Generator().manual_seed(1)
    lengths = torch.randint(5, 26, (num,), generator=draw).tolist()
    texts = [[*torch.randint(5, vocab_size, (n,), generator=draw).tolist(), EOS] for n in lengths]
    return sorted(texts, key=len)


def ours(precision: str, threads: int) -> Translate:
    """Return warmstart's translator."""
    torch.manual_seed(0)
    model = Translator(replace(PRESETS["translator-small"], norm_position="post")).eval()
    with torch.no_grad():
        model.embedding[EOS] = 0.0  # never among the likeliest: every translation has full length
    engine = fast_engine(model, choose_runtime("cpu", precision, threads))

    def translate(sources: list[list[int]], width: int) -> None:
        limits = [LENGTH] * len(sources)
        special = SpecialIds(BOS, EOS, [BOS, PAD])
        found = translate_ids(engine, sources, limits, special, Beam(width=width))
        assert all(len(best[0].ids) == LENGTH for best in found)

    return translate


def theirs() -> Translate:
    """Return the same shape as `transformers` has it."""
    from transformers import MarianConfig, MarianMTModel

    shape = PRESETS["translator-small"]
    config = MarianConfig(
        vocab_size=shape.vocab_size,
        d_model=shape.width,
        encoder_layers=shape.depth,
        decoder_layers=shape.decoder_depth,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        encoder_ffn_dim=shape.ffn_width,
        decoder_ffn_dim=shape.ffn_width,
        max_position_embeddings=shape.max_length,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    torch.manual_seed(0)
    model = MarianMTModel(config).eval()

    def translate(sources: list[list[int]], width: int) -> None:
        longest = max(map(len, sources))
        ids = torch.tensor([s + [PAD] * (longest - len(s)) for s in sources])
        found = model.generate(
            input_ids=ids,
            attention_mask=(ids != PAD).long(),
            num_beams=width,
            do_sample=False,
            min_new_tokens=LENGTH,
            max_new_tokens=LENGTH,
        )
        assert found.shape[1] == LENGTH + 1

    return translate


@torch.inference_mode()
def rounds_of(
    ours: Translate, theirs: Translate, sources: list[list[int]], size: int, width: int
) -> list[tuple[float, float]]:
    """Return sentences a second of both; they take turns, so that a slow moment meets both."""
    for translate in (ours, theirs):
        translate(sources[:size], width)
    rounds = []
    for turn in range(0, len(sources), TURN):
        share = sources[turn : turn + TURN]
        rounds.append(tuple(_rate(translate, share, size, width) for translate in (ours, theirs)))
    return rounds


def _rate(translate: Translate, sources: list[list[int]], size: int, width: int) -> float:
    began = time.perf_counter()
    for start in range(0, len(sources), size):
        translate(sources[start : start + size], width)
    return len(sources) / (time.perf_counter() - began)


def main() -> None:
    """Measure every beam and batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=320)
    parser.add_argument("--precision", default="auto")
    add_json_option(parser)
    given = parser.parse_args()
    sources = draw_sources(given.sentences, PRESETS["translator-small"].vocab_size)
    threads = torch.get_num_threads()
    us, peer = ours(given.precision, threads), theirs()
    print(f"{given.sentences} sentences, {LENGTH} tokens each, {threads} threads", flush=True)
    ratios = []
    for width in (1, 5):
        for size in BATCHES:
            rounds = rounds_of(us, peer, sources, size, width)
            work = f"translation, beam {width}, batch {size}"
            ratios.append(Ratio.of(work, "sentences/s", "transformers Marian, fp32", rounds))
    report(ratios, given.json)


if __name__ == "__main__":
    main()
