"""Rate of generating text: warmstart against `transformers`, one shape, one prompt.

Both have random weights, and write the same number of tokens after the same prompt, once and 32
times together, the most probable one each time. Needs `transformers`, which the dev extra installs.

    python benchmarks/generation.py
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from measuring import Ratio, add_json_option, in_turns, report

from warmstart.decoding.beam import SpecialIds, sample_texts
from warmstart.decoding.engines import fast_steps
from warmstart.model.models import LanguageModel
from warmstart.recipes.use import TEXTS_TOGETHER
from warmstart.runtime import Runtime
from warmstart.settings.model import PRESETS
from warmstart.settings.using import Sampling

SHAPE = replace(PRESETS["modern-small"], vocab_size=16_000, attention="causal")
PROMPT = list(range(5, 21))
EOS = SHAPE.vocab_size - 1


def ours(device: torch.device) -> Callable[[int, int], float]:
    """Return what measures tokens a second of warmstart's generation, in bf16."""
    torch.manual_seed(0)
    begin = fast_steps(LanguageModel(SHAPE).eval().to(device), Runtime(device, torch.bfloat16))
    special = SpecialIds(0, EOS, [EOS])

    @torch.inference_mode()
    def rate(num_tokens: int, num_texts: int) -> float:
        began = time.perf_counter()
        generators = [torch.Generator()] * num_texts  # unused: nothing is random at temperature 0
        greedy = Sampling(temperature=0)
        drawn = sample_texts(begin(), PROMPT, num_tokens, special, greedy, generators)
        assert sum(map(len, drawn)) == num_texts * num_tokens
        return num_texts * num_tokens / (time.perf_counter() - began)

    return rate


def theirs(device: torch.device, dtype: torch.dtype) -> Callable[[int, int], float]:
    """Return what measures the same shape as `transformers` has it."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=SHAPE.vocab_size,
            hidden_size=SHAPE.width,
            num_hidden_layers=SHAPE.depth,
            num_attention_heads=SHAPE.heads,
            intermediate_size=SHAPE.ffn_width,
            max_position_embeddings=SHAPE.max_length,
            tie_word_embeddings=True,
        )
    )
    model = model.eval().to(device, dtype)
    fixed = {"do_sample": False, "pad_token_id": 0}

    @torch.inference_mode()
    def rate(num_tokens: int, num_texts: int) -> float:
        ids = torch.tensor([PROMPT] * num_texts, device=device)
        limits = {"min_new_tokens": num_tokens, "max_new_tokens": num_tokens}
        began = time.perf_counter()
        model.generate(ids, attention_mask=torch.ones_like(ids), **fixed, **limits)
        return num_texts * num_tokens / (time.perf_counter() - began)

    return rate


def main() -> None:
    """Measure both in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    add_json_option(parser)
    given = parser.parse_args()
    device = torch.device(given.device)
    name, dtype = ("fp32", torch.float32) if device.type == "cpu" else ("bf16", torch.bfloat16)
    our_rate, their_rate, ratios = ours(device), theirs(device, dtype), []
    together = f"{TEXTS_TOGETHER} texts together"
    for num_texts, work in ((1, "one prompt"), (TEXTS_TOGETHER, together)):
        size = given.tokens, num_texts
        rounds = in_turns(partial(our_rate, *size), partial(their_rate, *size), given.rounds)
        title = f"generation, {work}, {given.tokens} tokens"
        ratios.append(Ratio.of(title, "tokens/s", f"transformers Llama, {name}", rounds))
    report(ratios, given.json)


if __name__ == "__main__":
    main()
