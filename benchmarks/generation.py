"""Rate of generating text on a CPU: warmstart against `transformers`, one shape, one prompt.

Both have random weights, and write the same number of tokens after the same prompt, the most
probable one each time. Needs `transformers`, which the dev extra installs.

    python benchmarks/generation.py
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from measuring import Ratio, add_json_option, in_turns, report

from warmstart.decoding.sample import Sampling, SpecialIds, sample
from warmstart.inference.text_generator import cached_step, packed
from warmstart.model.models import LanguageModel
from warmstart.runtime import Runtime
from warmstart.settings.architecture import PRESETS

SHAPE = replace(PRESETS["modern-small"], vocab_size=16_000, attention="causal")
PROMPT = list(range(5, 21))
EOS = SHAPE.vocab_size - 1


def ours(num_tokens: int) -> Callable[[], float]:
    """Return what measures tokens a second of warmstart's generation, in bf16."""
    torch.manual_seed(0)
    cpu = Runtime(torch.device("cpu"))
    weights = packed(LanguageModel(SHAPE).eval(), torch.bfloat16)
    special = SpecialIds(0, EOS, [EOS])

    @torch.inference_mode()
    def rate() -> float:
        began = time.perf_counter()
        ids = sample(cached_step(*weights, cpu), PROMPT, num_tokens, special, Sampling())
        assert len(ids) == num_tokens
        return num_tokens / (time.perf_counter() - began)

    return rate


def theirs(num_tokens: int) -> Callable[[], float]:
    """Return what measures the same shape as `transformers` has it, in its default fp32."""
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
    ).eval()
    ids = torch.tensor([PROMPT])
    settings = {"do_sample": False, "min_new_tokens": num_tokens, "max_new_tokens": num_tokens}

    @torch.inference_mode()
    def rate() -> float:
        began = time.perf_counter()
        model.generate(ids, attention_mask=torch.ones_like(ids), pad_token_id=0, **settings)
        return num_tokens / (time.perf_counter() - began)

    return rate


def main() -> None:
    """Measure both in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=9)
    add_json_option(parser)
    given = parser.parse_args()
    rounds = in_turns(ours(given.tokens), theirs(given.tokens), given.rounds)
    work = f"generation, one prompt, {given.tokens} tokens"
    report([Ratio.of(work, "tokens/s", "transformers Llama, fp32", rounds)], given.json)


if __name__ == "__main__":
    main()
