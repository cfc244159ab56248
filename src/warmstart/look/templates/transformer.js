// The Transformer in plain JavaScript: the formula first, then what is built from it.
//
// A matrix is { rows, columns, numbers }, row after row. T is the number of tokens, D the width,
// K the width of a head. A test holds it equal to the model in Python.
"use strict";

// softmax(Q Kᵀ / √K) V: what each query (T, K) reads from the values (T, K).
function attention(q, k, v, sees, isScaled) {
  const scale = isScaled ? 1 / Math.sqrt(q.columns) : 1;
  const weights = matrix(q.rows, k.rows); // (T, T)
  for (let i = 0; i < q.rows; i++) {
    const scores = indexes(k.rows).map((j) => (sees(i, j) ? scale * dot(q, i, k, j) : -Infinity));
    row(weights, i).set(softmax(scores));
  }
  return { weights, mixed: product(weights, v) };
}

// Each head attends with its own columns of Q, K and V; their results stand side by side.
function multiHeadAttention(x, layer, model, switches) {
  const { heads } = model, K = x.columns / heads;
  const projected = linear(x, model, `${layer}.attend.project`); // (T, 3D): Q, K, V
  const mixed = matrix(x.rows, x.columns), weights = [];
  const number = +layer.split(".").at(-1);
  const sees = visibility(model, number, switches), base = isLocal(model, number) ? model.localRopeBase : model.ropeBase;
  for (let head = 0; head < heads; head++) {
    const [q, k, v] = [0, 1, 2].map((part) => columns(projected, part * x.columns + head * K, K));
    const isRotated = model.positions === "rope" && switches.positions;
    const result = attention(isRotated ? rotate(q, base) : q, isRotated ? rotate(k, base) : k, v, sees, switches.scale);
    weights.push(result.weights);
    if (!switches.isOff(number, head)) paste(result.mixed, mixed, head * K); // a head that is off gives zero
  }
  return { output: linear(mixed, model, `${layer}.attend.output`), weights };
}

// Which keys j a query i sees: with the causal mask none that is later.
function visibility(model, layer, switches) {
  const isNear = (i, j) => !isLocal(model, layer) || Math.abs(i - j) <= model.localWindow;
  return (i, j) => (!switches.mask || j <= i) && isNear(i, j);
}

const isLocal = (model, layer) => model.localWindow > 0 && layer % model.globalEvery > 0;

function feedForward(x, layer, model) {
  const inner = linear(x, model, `${layer}.ffn.inner`), activate = ACTIVATIONS[model.activation];
  if (!GATED.includes(model.activation)) return linear(map(inner, activate), model, `${layer}.ffn.outer`);
  const half = inner.columns / 2, gate = columns(inner, 0, half), value = columns(inner, half, half);
  return linear(map(gate, (number, i) => activate(number) * value.numbers[i]), model, `${layer}.ffn.outer`);
}

// norm(x + sublayer(x)), or with norms before the sublayers x + sublayer(norm(x)).
function residual(x, name, model, sublayer) {
  const isPre = model.normPosition === "pre";
  const result = sublayer(isPre ? norm(x, model, name) : x);
  const sum = model.hasResidual ? map(x, (number, i) => number + result.numbers[i]) : result;
  return isPre ? sum : norm(sum, model, name);
}

function block(x, layer, model, switches) {
  let weights;
  const attended = residual(x, `${layer}.norm_attend`, model, (given) => {
    const result = multiHeadAttention(given, layer, model, switches);
    weights = result.weights;
    return result.output;
  });
  return { x: residual(attended, `${layer}.norm_ffn`, model, (given) => feedForward(given, layer, model)), weights };
}

// Ids in; hidden vectors (T, D) and the attention weights of every layer and head out.
function backbone(ids, model, switches) {
  let x = embed(ids, model, switches);
  const weights = [];
  for (let layer = 0; layer < model.depth; layer++) {
    const result = block(x, `backbone.blocks.${layer}`, model, switches);
    x = result.x;
    weights.push(result.weights);
  }
  return { hidden: model.normPosition === "pre" ? norm(x, model, "backbone.norm_final") : x, weights };
}

function embed(ids, model, switches) {
  const table = model.tensors["backbone.embed.weight"], D = table.columns;
  const scale = model.scaleEmbedding ? Math.sqrt(D) : 1;
  const x = matrix(ids.length, D), segment = model.tensors["backbone.embed_segments.weight"];
  ids.forEach((id, position) => {
    const added = switches.positions ? positionVector(position, D, model) : null;
    for (let d = 0; d < D; d++)
      x.numbers[position * D + d] = scale * table.numbers[id * D + d] + (added ? added[d] : 0) + (segment ? segment.numbers[d] : 0);
  });
  return model.embeddingNorm ? norm(x, model, "backbone.norm_embed") : x;
}

// What is added to the embedding at a position; rotary positions turn queries and keys instead.
function positionVector(position, D, model) {
  if (model.positions === "learned") return row(model.tensors["backbone.embed_positions.weight"], position);
  if (model.positions !== "sinusoidal") return null;
  return indexes(D).map((d) => {
    const angle = position * 10000 ** (-Math.floor(d / 2) / (D / 2));
    return d % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}

// Rotate each pair (k, k + K / 2) of a query or key by the angle of its position.
function rotate(x, base) {
  const half = x.columns / 2, turned = matrix(x.rows, x.columns);
  for (let position = 0; position < x.rows; position++)
    for (let k = 0; k < half; k++) {
      const angle = position * base ** (-k / half), cos = Math.cos(angle), sin = Math.sin(angle);
      const at = position * x.columns + k, first = x.numbers[at], second = x.numbers[at + half];
      turned.numbers[at] = first * cos - second * sin;
      turned.numbers[at + half] = second * cos + first * sin;
    }
  return turned;
}

// ---- heads ----------------------------------------------------------------------------------

// Probabilities of all tokens at one position.
function wordProbabilities(hidden, position, model) {
  let x = columns(matrixOf(row(hidden, position)), 0, hidden.columns); // (1, D)
  if (model.hasTransform) {
    x = map(linear(x, model, "head.transform.dense"), ACTIVATIONS[model.activation]);
    x = norm(x, model, "head.transform.norm");
  }
  const tied = model.tensors["head.output.weight"] ?? model.tensors["backbone.embed.weight"];
  const shares = softmax(linearWith(x, tied, model.tensors["head.output.bias"]).numbers);
  for (const id of model.suppressed) shares[id] = 0; // tokens that are never shown
  return shares;
}

// Probabilities of the labels, from one vector for the whole text.
function labelProbabilities(hidden, model) {
  const logits = linear(pool(hidden, model), model, "head.output").numbers;
  return model.output === "label" ? softmax(logits) : Array.from(logits, (logit) => 1 / (1 + Math.exp(-logit)));
}

function pool(hidden, model) {
  const D = hidden.columns;
  if (model.pooling === "last") return matrixOf(row(hidden, hidden.rows - 1));
  if (model.pooling === "cls") {
    const first = matrixOf(row(hidden, 0));
    return model.hasPooler ? map(linear(first, model, "backbone.pooler"), Math.tanh) : first;
  }
  return matrixOf(indexes(D).map((d) => indexes(hidden.rows).reduce((sum, i) => sum + hidden.numbers[i * D + d], 0) / hidden.rows));
}

// ---- layers ---------------------------------------------------------------------------------

const linear = (x, model, name) => linearWith(x, model.tensors[`${name}.weight`], model.tensors[`${name}.bias`]);

// x Wᵀ + b, from W (out, in).
function linearWith(x, weight, bias) {
  const result = matrix(x.rows, weight.rows);
  for (let i = 0; i < x.rows; i++)
    for (let o = 0; o < weight.rows; o++)
      result.numbers[i * weight.rows + o] = dot(x, i, weight, o) + (bias ? bias.numbers[o] : 0);
  return result;
}

// Layer norm, RMS norm, or for a model without norms nothing.
function norm(x, model, name) {
  const gain = model.tensors[`${name}.weight`], bias = model.tensors[`${name}.bias`];
  if (!gain) return x;
  const D = x.columns, result = matrix(x.rows, D);
  for (let i = 0; i < x.rows; i++) {
    const vector = Array.from(row(x, i));
    const mean = model.norm === "layer" ? vector.reduce((sum, number) => sum + number, 0) / D : 0;
    const variance = vector.reduce((sum, number) => sum + (number - mean) ** 2, 0) / D;
    const scale = 1 / Math.sqrt(variance + model.normEps);
    vector.forEach((number, d) => { result.numbers[i * D + d] = (number - mean) * scale * gain.numbers[d] + (bias ? bias.numbers[d] : 0); });
  }
  return result;
}

// The error function by formula 7.1.26 of Abramowitz and Stegun, to 1.5e-7.
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const sum = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  return Math.sign(x) * (1 - sum * Math.exp(-x * x));
}

const gelu = (x) => (x / 2) * (1 + erf(x / Math.SQRT2));
const silu = (x) => x / (1 + Math.exp(-x));
const GATED = ["swiglu", "geglu"];
const ACTIVATIONS = {
  relu: (x) => Math.max(0, x),
  relu2: (x) => Math.max(0, x) ** 2,
  gelu,
  gelu_tanh: (x) => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  silu,
  swiglu: silu,
  geglu: gelu,
};

// ---- matrices -------------------------------------------------------------------------------

const indexes = (num) => Array.from({ length: num }, (_, i) => i);
const matrix = (rows, columns) => ({ rows, columns, numbers: new Float32Array(rows * columns) });
const matrixOf = (vector) => ({ rows: 1, columns: vector.length, numbers: Float32Array.from(vector) });
const map = (x, change) => ({ ...x, numbers: x.numbers.map(change) });
const row = (x, i) => x.numbers.subarray(i * x.columns, (i + 1) * x.columns);

function dot(a, i, b, j) { // row i of a times row j of b
  const num = a.columns, x = a.numbers, y = b.numbers, from = i * num, start = j * num;
  let sum = 0;
  for (let n = 0; n < num; n++) sum += x[from + n] * y[start + n];
  return sum;
}

function product(a, b) { // (T, S) times (S, K)
  const result = matrix(a.rows, b.columns);
  for (let i = 0; i < a.rows; i++)
    for (let j = 0; j < a.columns; j++)
      for (let k = 0; k < b.columns; k++)
        result.numbers[i * b.columns + k] += a.numbers[i * a.columns + j] * b.numbers[j * b.columns + k];
  return result;
}

function columns(x, from, num) {
  const part = matrix(x.rows, num);
  for (let i = 0; i < x.rows; i++) row(part, i).set(row(x, i).subarray(from, from + num));
  return part;
}

function paste(part, whole, from) {
  for (let i = 0; i < part.rows; i++) row(whole, i).set(row(part, i), from);
}

function softmax(scores) {
  const largest = scores.reduce((most, score) => Math.max(most, score), -Infinity);
  const exponentials = Array.from(scores, (score) => Math.exp(score - largest));
  const sum = exponentials.reduce((total, number) => total + number, 0);
  return exponentials.map((number) => number / sum);
}

// ---- weights --------------------------------------------------------------------------------

// The page holds weights as 24-bit integers in base64, and a scale for each row.
function unpackTensors(packed) {
  const tensors = {};
  for (const [name, { columns, integers, scales }] of Object.entries(packed)) {
    const bytes = bytesOf(integers), scale = new Float32Array(bytesOf(scales).buffer);
    const integer = (n) => ((bytes[3 * n] << 8) | (bytes[3 * n + 1] << 16) | (bytes[3 * n + 2] << 24)) >> 8;
    const result = matrix(scale.length, columns);
    for (let n = 0; n < result.numbers.length; n++) result.numbers[n] = integer(n) * scale[Math.floor(n / columns)];
    tensors[name] = result;
  }
  return tensors;
}

const bytesOf = (base64) => Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
