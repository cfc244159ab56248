# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Lab 1: transfer learning
#
# The seven questions of the [lab](../transfer.md) as cells to run. The lab's page has the formulas,
# the usual mistakes and the solutions; here you predict, run, and look. Everything is made up on
# your machine: no data is downloaded.
#
# Every verb takes the settings of its command as keywords: `help(warmstart.pretrain)` lists them.

# %% [markdown]
# On Colab or Kaggle, first upload the wheel of warmstart beside this notebook.

# %%
import glob
import importlib.util
import subprocess
import sys

if not importlib.util.find_spec("warmstart"):
    package = [*glob.glob("warmstart-*.whl"), "warmstart"][0]
    subprocess.check_call([sys.executable, "-m", "pip", "install", "--quiet", package])

# %%
import math
import os
from pathlib import Path

import warmstart

if Path.cwd().name != "lab":  # run this cell as often as you like
    Path("lab").mkdir(exist_ok=True)
    os.chdir("lab")

# %% [markdown]
# With these steps the scores are about those of the pages, and the notebook takes about eight
# minutes on one core, half of them in question 5. Everything is written to `lab/` beside this
# notebook: after a restart, run all cells again, and finished trainings are not repeated. For other
# steps, delete `lab` first.

# %% tags=["parameters"]
STEPS = 800  # of the first model; the others in proportion
SEEDS = (0, 1, 2, 3, 4)

# %%
if not Path("samples").exists():
    warmstart.make_samples(out="samples")

# %% [markdown]
# ## 1. How many parameters?
#
# A model is a stack of matrices, so its size is a sum of products. **Predict first:** which is
# larger, the four blocks or the output layer?

# %%
warmstart.count_parameters(model="lab")

# %% [markdown]
# ## 2. What does a new head change?
#
# The backbone keeps its weights; the output head is thrown away. **Predict first:** how many
# parameters does a frozen backbone with two classes train?

# %%
warmstart.look_transfer(model="lab", labels=2, frozen=True, out="transfer.png")

# %% [markdown]
# ## 3. Why is there a square mask?
#
# A causal model predicts each token from those before it. The answers are in the same row, so the
# mask covers them.

# %%
warmstart.look_mask(model="lab", text=["un livre", "un très bon livre"], out="mask.png")

# %%
causal = warmstart.pretrain(
    files=["samples/unlabelled.txt"],
    objective="causal",
    preset="tiny",
    steps=STEPS,
    learning_rate=0.01,
    out="runs/causal",
    resume=True,
)
causal

# %% [markdown]
# **Predict first:** without the mask, is the perplexity higher or lower? And what will the model
# write?

# %%
broken = warmstart.pretrain(
    files=["samples/unlabelled.txt"],
    objective="causal",
    preset="tiny",
    steps=max(1, STEPS // 13),
    learning_rate=0.01,
    tokenizer="runs/causal",
    ablate="mask",
    out="runs/no-mask",
    resume=True,
)
broken

# %%
for run in ("runs/causal", "runs/no-mask"):
    print(f"{run}: {warmstart.load(run).generate('The', 20)}")

# %% [markdown]
# ## 4. Why are there positions?
#
# Attention is a weighted mean, and a mean does not know the order of its terms. The figure shows
# the vectors that are added, and how similar two positions are by their distance, seen from several
# positions.

# %%
warmstart.look_positions(model="lab", length=64, out="positions.png")

# %% [markdown]
# ## 5. Does a warm start beat a cold one?
#
# The same data, architecture and tuning budget; several seeds; differences with an interval. Read
# the sentence before the numbers. This start is a causal model again, trained longer.

# %%
long = warmstart.pretrain(
    files=["samples/unlabelled.txt"],
    objective="causal",
    preset="tiny",
    steps=5 * STEPS // 2,
    learning_rate=0.01,
    out="runs/long",
    resume=True,
)
long

# %% [markdown]
# **Predict first:** which arm is best after one epoch, and which after fifteen?

# %%
comparison = warmstart.compare(
    from_runs=["runs/long"],
    train=["samples/train.tsv"],
    valid="samples/valid.tsv",
    labels=("100",),
    seeds=SEEDS,
    trials=1,
    epochs=15,
    out="comparison",
    resume=True,
)
comparison

# %% [markdown]
# ## 6. What does a masked objective change?
#
# A masked model sees both sides of a gap. Its checkpoints show how words become probable: random
# weights at the left, trained at the right. Document loss and semantic start belong to question 7.

# %%
masked = warmstart.pretrain(
    files=["samples/unlabelled.txt"],
    preset="tiny",
    steps=5 * STEPS // 8,
    learning_rate=0.01,
    document_loss=0,
    semantic_start=False,
    save_every=max(1, STEPS // 8),
    keep=5,
    tokenizer="runs/causal",
    out="runs/masked",
    resume=True,
)
masked

# %%
warmstart.look_training(
    run="runs/masked", text="The story is not [MASK] at all.", out="training.png"
)

# %%
warmstart.look_attention(
    run="runs/masked", text="The story is not boring at all.", words=True, out="attention.html"
)

# %% [markdown]
# ## 7. Is a better language model a better start?
#
# **Predict first:** will this masked model beat a cold one? The
# [lab](../transfer.md#7-is-a-better-language-model-a-better-start) says what two extras change.

# %%
warmstart.compare(
    from_runs=["runs/masked"],
    train=["samples/train.tsv"],
    valid="samples/valid.tsv",
    labels=("100",),
    seeds=SEEDS,
    trials=1,
    epochs=10,
    arms=("warm", "cold"),
    out="comparison-tokens",
    resume=True,
)

# %% [markdown]
# ## The maths: perplexity and bits per byte
#
# Perplexity is the exponential of the loss. It depends on the tokens; bits per byte do not.

# %%
loss, bits = causal.valid["loss"], causal.valid["bits_per_byte"]
print(f"loss {loss:.3f} nats = {loss / math.log(2):.3f} bits per token")
print(f"perplexity e^{loss:.3f} = {math.exp(loss):.2f}")
print(f"bytes per token: {loss / math.log(2) / bits:.2f}")

# %% [markdown]
# ## Break it and see
#
# Each part of the model left out, one at a time, on the same text. Which part does this model not
# need? See the [discussion](../transfer.md#break-it-and-see), then try `parts=["positions"],
# objective="masked"`.

# %%
warmstart.look_ablations(
    parts=("mask", "scale"), steps=max(5, STEPS // 13), seeds=SEEDS[:3], out="ablations.png"
)
