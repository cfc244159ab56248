"""Train the model of transformer.py on the characters of its own source, and let it write."""

from pathlib import Path

import torch
import torch.nn.functional as F
import transformer

LENGTH = 64


def train(ids: torch.Tensor, vocab_size: int, num_steps: int = 300) -> transformer.LanguageModel:
    """Return a language model of these characters."""
    config = transformer.Config(vocab_size, 64, 2, 4, 256, norm_position="pre")
    model = transformer.LanguageModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(num_steps):
        rows = ids[torch.randint(len(ids) - LENGTH, (32, 1)) + torch.arange(LENGTH)]  # (B, T)
        logits = model(rows[:, :-1])  # (B, T - 1, V): each position predicts the next one
        loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0 or step == num_steps - 1:
            print(f"step {step}: loss {loss:.2f}")
    return model.eval()


def main() -> None:
    """Train on the source of the model and print what it writes."""
    text = Path(transformer.__file__).read_text()
    alphabet = sorted(set(text))
    ids = torch.tensor([alphabet.index(character) for character in text])
    model = train(ids, len(alphabet))
    written = transformer.generate(model, ids[None, :8], 208, temperature=0.5)[0]
    print("".join(alphabet[i] for i in written))


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
