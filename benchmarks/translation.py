"""Translation rate on a CPU: warmstart against `transformers` and CTranslate2, one shape.

All have random weights, read the same sentences sorted by length, and write the same number of
tokens, so that only speed differs. Each has a process of its own, where no threads of another wait
busily; the processes take turns. Needs `transformers` and `ctranslate2`, which the dev extra
installs.

    python benchmarks/translation.py
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path

import torch
from measuring import Ratio, add_json_option, report

from warmstart.decoding.beam import SpecialIds
from warmstart.decoding.engines import fast_engine, translate_ids
from warmstart.interop.ctranslate2_write import translator_spec
from warmstart.model.models import Translator
from warmstart.runtime import choose_runtime
from warmstart.settings.model import PRESETS
from warmstart.settings.using import Beam

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


def ours() -> Translate:
    """Return warmstart's translator."""
    engine = fast_engine(build(), choose_runtime("cpu", "auto", torch.get_num_threads()))

    def translate(sources: list[list[int]], width: int) -> None:
        limits = [LENGTH] * len(sources)
        special = SpecialIds(BOS, EOS, [BOS, PAD])
        found = translate_ids(engine, sources, limits, special, Beam(beam=width))
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


SYSTEMS: dict[str, Callable[[], Translate]] = {
    "warmstart": ours,
    "transformers Marian, fp32": theirs,
}


@torch.inference_mode()
def work(name: str, sources: list[list[int]]) -> None:
    """Translate as often as a line of standard input asks; answer with sentences a second."""
    translate = SYSTEMS[name]()
    for line in sys.stdin:
        first, last, size, width = json.loads(line)
        began = time.perf_counter()
        for start in range(first, last, size):
            translate(sources[start : min(start + size, last)], width)
        print((last - first) / (time.perf_counter() - began), flush=True)


class System:
    """A process that translates when it is its turn."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def rate(self, first: int, last: int, size: int, width: int) -> float:
        """Return its sentences a second in one turn."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([first, last, size, width]), file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


@contextmanager
def started(num_sentences: int) -> Iterator[dict[str, System]]:
    """Yield the processes, which wait for their turns, by their names."""
    sources = draw_sources(num_sentences, PRESETS["translator-small"].vocab_size)
    threads = str(torch.get_num_threads())
    own, peer = __file__, str(Path(__file__).with_name("ctranslate2_worker.py"))
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/sources.json"
        Path(file).write_text(json.dumps(sources), encoding="utf-8")
        save_for_ctranslate2(folder)
        systems = {name: System(own, "--system", name, "--sources", file) for name in SYSTEMS}
        systems["CTranslate2, fp32"] = System(peer, folder, "float32", threads, file)
        systems["CTranslate2, int8"] = System(peer, folder, "int8", threads, file)
        yield systems
        for system in systems.values():
            system.process.communicate()


def main() -> None:
    """Measure every beam and batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=320)
    parser.add_argument("--system", choices=SYSTEMS, help="be the process of this one")
    parser.add_argument("--sources", type=Path, help="the sentences of that process")
    add_json_option(parser)
    given = parser.parse_args()
    if given.system:
        work(given.system, json.loads(given.sources.read_text(encoding="utf-8")))
        return
    num, threads = given.sentences, torch.get_num_threads()
    print(f"{num} sentences, {LENGTH} tokens each, {threads} threads", flush=True)
    ratios = []
    with started(num) as systems:
        for width, size in product((1, 5), BATCHES):
            turns = [(first, min(first + TURN, num)) for first in range(0, num, TURN)]
            rounds = [  # the first one is to warm up
                [each.rate(*turn, size, width) for each in systems.values()]
                for turn in (turns[0], *turns)
            ][1:]
            for number, peer in enumerate(list(systems)[1:], start=1):
                pairs = [(rates[0], rates[number]) for rates in rounds]
                name = f"translation, beam {width}, batch {size}, against {peer}"
                ratios.append(Ratio.of(name, "sentences/s", peer, pairs))
    report(ratios, given.json)


if __name__ == "__main__":
    main()
