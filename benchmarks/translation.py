"""Translation rate on a CPU: warmstart against `transformers` and CTranslate2, one shape.

All have random weights, read the same sentences sorted by length, and write the same number of
tokens, so that only speed differs. Needs `transformers` and `ctranslate2`, which the dev extra
installs.

    python benchmarks/translation.py
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import torch
from measuring import Ratio, add_json_option, report

from warmstart.decoding.beam import Beam
from warmstart.decoding.engines import fast_engine, translate_ids
from warmstart.decoding.sample import SpecialIds
from warmstart.interop.ctranslate2_spec import translator_spec
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


def build() -> Translator:
    """Return the model that warmstart and CTranslate2 run."""
    torch.manual_seed(0)
    model = Translator(replace(PRESETS["translator-small"], norm_position="post")).eval()
    with torch.no_grad():
        model.embedding[EOS] = 0.0  # never among the likeliest: every translation has full length
    return model


def ours(precision: str, threads: int) -> Translate:
    """Return warmstart's translator."""
    model = build()
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


def ctranslate2(folder: str, compute_type: str, threads: int) -> Translate:
    """Return CTranslate2's translator, with warmstart's weights."""
    import ctranslate2 as library

    translator = library.Translator(folder, compute_type=compute_type, intra_threads=threads)

    def translate(sources: list[list[int]], width: int) -> None:
        found = translator.translate_batch(
            [[str(index) for index in source] for source in sources],
            beam_size=width,
            min_decoding_length=LENGTH,
            max_decoding_length=LENGTH,
        )
        assert all(len(each.hypotheses[0]) == LENGTH for each in found)

    return translate


def save_for_ctranslate2(folder: str) -> None:
    """Write the model as CTranslate2 reads it; its tokens are the numbers of the ids."""
    spec = translator_spec(build())
    names = [str(index) for index in range(PRESETS["translator-small"].vocab_size)]
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = map(str, (BOS, EOS, PAD))
    spec.config.decoder_start_token = spec.config.bos_token
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.validate()
    spec.optimize()
    spec.save(folder)


@torch.inference_mode()
def rounds_of(
    systems: Sequence[Translate], sources: list[list[int]], size: int, width: int
) -> list[list[float]]:
    """Return sentences a second of all; they take turns, so that a slow moment meets all."""
    for translate in systems:
        translate(sources[:size], width)
    return [
        [_rate(translate, sources[turn : turn + TURN], size, width) for translate in systems]
        for turn in range(0, len(sources), TURN)
    ]


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
    print(f"{given.sentences} sentences, {LENGTH} tokens each, {threads} threads", flush=True)
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        save_for_ctranslate2(folder)
        systems = {
            "warmstart": ours(given.precision, threads),
            "transformers Marian, fp32": theirs(),
            "CTranslate2, fp32": ctranslate2(folder, "float32", threads),
            "CTranslate2, int8": ctranslate2(folder, "int8", threads),
        }
        for width, size in product((1, 5), BATCHES):
            rounds = rounds_of(list(systems.values()), sources, size, width)
            for number, peer in enumerate(list(systems)[1:], start=1):
                pairs = [(rates[0], rates[number]) for rates in rounds]
                work = f"translation, beam {width}, batch {size}, against {peer}"
                ratios.append(Ratio.of(work, "sentences/s", peer, pairs))
    report(ratios, given.json)


if __name__ == "__main__":
    main()
