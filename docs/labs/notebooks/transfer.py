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
# The six questions of the [lab](../transfer.md) as cells to run. The lab's page has the formulas,
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
import tempfile

import warmstart

os.chdir(tempfile.mkdtemp(prefix="lab-"))  # a new folder for everything that is written
print(os.getcwd())

# %% [markdown]
# More steps make better models and longer coffee breaks. With these values the notebook takes
# a few minutes on one core, most of them in question 5.

# %% tags=["parameters"]
STEPS = 100
SEEDS = (0, 1, 2, 3, 4)

# %%
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
# A causal model predicts each token from those before it. The mask hides the answers, which are in
# the same row.

# %%
warmstart.look_mask(model="lab", text=["un livre", "un très bon livre"], out="mask.png")

# %%
causal = warmstart.pretrain(
    files=["samples/unlabelled.txt"],
    objective="causal",
    preset="tiny",
    steps=STEPS,
    learning_rate=0.01,
    eval_every=max(1, STEPS // 5),
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
    steps=STEPS,
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
# the sentence before the numbers. This start is a masked model, trained five times as long, with
# the two extras that the lab's page explains.

# %%
base = warmstart.pretrain(
    files=["samples/unlabelled.txt"],
    preset="tiny",
    steps=5 * STEPS,
    learning_rate=0.01,
    out="runs/base",
    resume=True,
)
base

# %% [markdown]
# **Predict first:** which arm is best after one epoch, and which after ten?

# %%
comparison = warmstart.compare(
    from_runs=["runs/base"],
    train=["samples/train.tsv"],
    valid="samples/valid.tsv",
    labels=("100",),
    seeds=SEEDS,
    trials=1,
    epochs=10,
    out="comparison",
    resume=True,
)
comparison

# %% [markdown]
# ## 6. What does a masked objective change?
#
# A masked model sees both sides of a gap. Its checkpoints show how words become probable: random
# weights at the left, trained at the right. Document loss and semantic start are extras of a CPU
# that the [lab](../transfer.md) leaves out.

# %%
masked = warmstart.pretrain(
    files=["samples/unlabelled.txt"],
    preset="tiny",
    steps=STEPS,
    learning_rate=0.01,
    document_loss=0,
    semantic_start=False,
    save_every=max(1, STEPS // 5),
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
    parts=("mask", "scale"), steps=max(5, STEPS // 2), seeds=SEEDS[:3], out="ablations.png"
)
