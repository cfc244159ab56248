// The page: one card for each model. A card holds its switches and draws what the model computes.
"use strict";

const TOP = 8; // words that are shown
const NAMED = 40; // up to this many tokens have their names beside the map
const $ = (id) => document.getElementById(id);
const page = JSON.parse($("data").textContent);
const root = document.documentElement;
const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
const percent = (share) => (share > 0 && share < 0.001 ? "<0.1%" : `${(100 * share).toFixed(1)}%`);
const quoted = (piece) => `“${piece.trim() || "␣"}”`;

function made(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// ---- computing ------------------------------------------------------------------------------

const models = page.models.map((model) => ({ ...model, tensors: unpackTensors(model.tensors), encode: makeTokenizer(model.tokenizer) }));

const wholeModel = (model) => ({ mask: model.isCausal, scale: model.isScaled, positions: true, isOff: () => false });

// What a model gives for a text: ids, attention weights, and probabilities of words or labels.
// `query` is the token whose row predicts a word; by default the last one, or the first mask.
function compute(model, text, switches = wholeModel(model), query = null) {
  const { ids, numCut } = readText(text, model);
  const at = Math.min(query ?? predictingToken(ids, model), ids.length - 1);
  const { hidden, weights } = backbone(ids, model, switches);
  const probabilities = model.classes.length ? labelProbabilities(hidden, model) : wordProbabilities(hidden, at, model);
  return { ids, numCut, at, weights, probabilities };
}

function predictingToken(ids, model) {
  const masked = ids.indexOf(model.mask);
  return model.masks.length && masked >= 0 ? masked : ids.length - 1 - model.end.length;
}

// ---- a card ---------------------------------------------------------------------------------

class Card {
  constructor(model) {
    this.model = model;
    this.section = $("model").content.cloneNode(true).firstElementChild;
    this.off = new Set(); // heads, as "layer,head"
    this.layer = model.depth - 1;
    this.head = 0;
    this.query = null; // null: the one that predicts
    this.find("h2").textContent = `${model.name}: ${model.description}`;
    this.find(".facts").append(...model.facts.map((fact) => made("li", {}, fact)));
    this.buildSwitches();
    this.buildGrid();
    this.find(".reset").addEventListener("click", () => this.reset());
    this.find(".hide").addEventListener("click", hideLastWord);
    this.find(".tokens").addEventListener("click", (event) => this.ask(event.target.closest(".tok")));
    this.find(".tokens").addEventListener("keydown", (event) => this.step(event));
    this.find(".map canvas").setAttribute("role", "img");
  }

  find(selector) { return this.section.querySelector(selector); }

  get switches() {
    const isOn = (name) => this.boxes[name].checked;
    return { mask: isOn("mask"), scale: isOn("scale"), positions: isOn("positions"), isOff: (layer, head) => this.off.has(`${layer},${head}`) };
  }

  get isWhole() {
    const { mask, scale, positions } = this.switches, own = wholeModel(this.model);
    return !this.off.size && mask === own.mask && scale === own.scale && positions === own.positions;
  }

  buildSwitches() {
    const { model } = this, K = model.tensors["backbone.embed.weight"].columns / model.heads;
    const names = { mask: "causal mask", scale: `scale 1/√${K}`, positions: `${model.positions === "rope" ? "rotary" : model.positions ?? "no"} positions` };
    this.boxes = {};
    for (const [name, label] of Object.entries(names)) {
      const box = this.boxes[name] = made("input", { type: "checkbox", name });
      const isMissing = name === "positions" && !model.positions;
      box.disabled = isMissing;
      box.addEventListener("change", () => this.show());
      this.find(".boxes").append(made("label", isMissing ? { class: "none" } : {}, box, label));
    }
    this.setBoxes();
  }

  setBoxes() {
    const own = wholeModel(this.model);
    for (const name in this.boxes) this.boxes[name].checked = name === "positions" ? this.model.positions !== null : own[name];
  }

  buildGrid() {
    const { depth, heads } = this.model, grid = this.find(".grid");
    grid.style.gridTemplateColumns = `repeat(${heads}, max-content)`;
    for (let layer = 0; layer < depth; layer++)
      for (let head = 0; head < heads; head++) {
        const name = `layer ${layer + 1}, head ${head + 1}`;
        const button = made("button", { type: "button", "aria-label": `show ${name}` }, made("canvas", {}));
        const box = made("input", { type: "checkbox", "aria-label": `${name} is on`, "data-head": `${layer},${head}` });
        button.addEventListener("click", () => { this.layer = layer; this.head = head; this.draw(); });
        box.addEventListener("change", () => { this.off[box.checked ? "delete" : "add"](`${layer},${head}`); this.show(); });
        grid.append(made("div", { class: "cell" }, button, made("label", { title: name }, box, `${layer + 1}.${head + 1}`)));
      }
  }

  reset() {
    this.off.clear();
    this.setBoxes();
    this.show();
  }

  ask(token) { // choose the query; once more: the one that predicts
    if (!token) return;
    this.query = this.query === +token.dataset.i ? null : +token.dataset.i;
    this.show();
    this.find('.tok[aria-selected="true"]').focus();
  }

  step(event) { // the arrows move between tokens
    const turn = { ArrowLeft: -1, ArrowRight: 1 }[event.key], token = event.target.closest(".tok");
    if (!turn || !token) return;
    event.preventDefault();
    this.query = Math.max(0, Math.min(this.result.ids.length - 1, +token.dataset.i + turn));
    this.show();
    this.find('.tok[aria-selected="true"]').focus();
  }

  read(text) { // a new text: the query that predicts
    this.text = text;
    this.query = null;
    this.show();
  }

  show() { // compute with the switches, and once as trained
    const { model, text, query } = this;
    this.result = compute(model, text, this.switches, query);
    this.whole = this.isWhole ? this.result : compute(model, text, wholeModel(model), query);
    this.draw();
  }

  draw() {
    this.drawSwitches();
    this.drawTokens();
    this.drawBars();
    this.drawMap();
    this.drawGrid();
  }

  // ---- drawing ------------------------------------------------------------------------------

  drawSwitches() {
    const { mask, scale } = this.switches, part = (isOn, ...inside) => made("span", isOn ? {} : { class: "off" }, ...inside);
    const letter = (name) => made("i", {}, name);
    this.find(".formula").replaceChildren("softmax( ", letter("QK"), made("sup", {}, "⊤"), part(scale, " / √", letter("d")), ...(mask || this.model.isCausal ? [part(mask, " + mask")] : []), " ) ", letter("V"));
    this.find(".formula").setAttribute("aria-label", `softmax of Q K transposed${scale ? " divided by the root of d" : ""}${mask ? " plus mask" : ""}, times V`);
    this.find(".reset").disabled = this.isWhole;
  }

  label(i) { return this.model.pieces[this.result.ids[i]]; }

  drawTokens() {
    const { ids, at, weights, numCut } = this.result, own = row(weights[this.layer][this.head], at);
    const { begin, end, mask } = this.model, specials = new Set([...begin, ...end, mask]);
    this.find(".tokens").replaceChildren(...ids.map((id, i) => {
      const piece = this.label(i), isSpecial = specials.has(id);
      const token = made("button", { type: "button", role: "option", "data-i": i, "aria-selected": i === at, tabindex: i === at ? 0 : -1,
        class: `tok${piece.startsWith(" ") ? " starts" : ""}${isSpecial ? " special" : ""}` }, piece.trim() || "␣");
      token.style.background = `color-mix(in srgb, var(--warm) ${Math.round(70 * Math.sqrt(own[i]))}%, transparent)`;
      return token;
    }));
    const best = indexes(ids.length).sort((a, b) => own[b] - own[a]).slice(0, 3).map((i) => `${quoted(this.label(i))} ${percent(own[i])}`);
    const cut = numCut ? ` The text is too long: ${numCut} tokens are left out.` : "";
    this.find(".read").textContent = `In layer ${this.layer + 1}, head ${this.head + 1}, ${quoted(this.label(at))} attends to ${best.join(", ")}.${cut}`;
  }

  drawBars() {
    const { model, whole, result } = this, now = result.probabilities, before = whole.probabilities;
    const names = model.classes.length ? model.classes : model.pieces;
    const order = model.classes.length ? indexes(names.length) : indexes(names.length).sort((a, b) => now[b] - now[a]).slice(0, TOP);
    const largest = model.classes.length ? 1 : Math.max(...order.map((i) => Math.max(now[i], before[i])));
    const bar = (kind, share) => {
      const span = made("span", { class: kind });
      span.style.width = `${(100 * share) / largest}%`;
      return span;
    };
    this.find(".asked").textContent = this.question();
    this.find(".hide").hidden = !model.masks.length || result.ids.includes(model.mask);
    this.find(".bars").replaceChildren(...order.flatMap((i) => [
      made("span", { class: "word" }, names[i].trim() || "␣"),
      made("span", { class: "track", "aria-hidden": "true" }, bar("now", now[i]), bar("whole", before[i])),
      made("span", { class: "share", title: `whole model: ${percent(before[i])}` }, percent(now[i]))]));
    const moved = now.reduce((sum, share, i) => sum + Math.abs(share - before[i]), 0) / (model.output === "labels" ? now.length : 2);
    this.find(".change").textContent = this.isWhole ? "Every part is on: this is the model as trained." : `The switches move ${percent(moved)} of the probability.`;
  }

  question() {
    const { model, result } = this;
    if (model.classes.length) return "Label of the text";
    if (model.output === "next word") return `Next word after ${quoted(this.label(result.at))}`;
    const isMasked = result.ids[result.at] === model.mask;
    return isMasked ? "The masked word" : `Word at ${quoted(this.label(result.at))}, which the model sees`;
  }

  drawMap() { // the chosen head with the names of its tokens
    const { ids, at, weights } = this.result, T = ids.length, canvas = this.find(".map canvas"), context = canvas.getContext("2d");
    const font = "11px system-ui, sans-serif", ratio = window.devicePixelRatio || 1, hasNames = T <= NAMED;
    context.font = font;
    const names = ids.map((_, i) => this.label(i).trim() || "␣"), widest = Math.max(...names.map((name) => context.measureText(name).width));
    const edge = hasNames ? Math.ceil(Math.min(widest, 90)) + 8 : 4, room = this.find(".map").clientWidth || 400;
    const cell = Math.max(4, Math.min(30, Math.floor((Math.min(room, 520) - edge - 1) / T))), size = edge + cell * T + 1;
    canvas.width = canvas.height = size * ratio;
    canvas.style.width = canvas.style.height = `${size}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.translate(edge, edge);
    this.paint(context, this.layer, this.head, cell);
    context.strokeStyle = colour("--mark");
    context.lineWidth = 1.5;
    context.strokeRect(0, at * cell, T * cell, cell);
    if (hasNames) this.drawNames(context, names, at, cell, font);
    this.find(".chosen").textContent = `Attention weights of layer ${this.layer + 1}, head ${this.head + 1}`;
    canvas.setAttribute("aria-label", `attention weights between ${T} tokens`);
  }

  drawNames(context, names, at, cell, font) {
    context.font = font;
    context.textBaseline = "middle";
    names.forEach((name, i) => {
      context.fillStyle = i === at ? colour("--mark") : colour("--ink");
      context.textAlign = "right";
      context.fillText(name, -5, (i + 0.5) * cell, 90);
      context.save();
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(name, 5, (i + 0.5) * cell, 90);
      context.restore();
    });
  }

  paint(context, layer, head, cell) { // one square for each weight; masked ones are grey
    const weights = this.result.weights[layer][head], T = weights.rows;
    const isSeen = visibility(this.model, layer, this.switches), grey = colour("--line"), warm = colour("--warm");
    for (let i = 0; i < T; i++)
      for (let j = 0; j < T; j++) {
        context.fillStyle = isSeen(i, j) ? warm : grey;
        context.globalAlpha = isSeen(i, j) ? Math.sqrt(weights.numbers[i * T + j]) : 1;
        context.fillRect(j * cell, i * cell, cell, cell);
      }
    context.globalAlpha = 1;
  }

  drawGrid() {
    this.section.querySelectorAll(".cell").forEach((cell, number) => {
      const layer = Math.floor(number / this.model.heads), head = number % this.model.heads, isOff = this.off.has(`${layer},${head}`);
      const canvas = cell.querySelector("canvas"), T = this.result.ids.length, square = Math.ceil(144 / T);
      canvas.width = canvas.height = square * T;
      this.paint(canvas.getContext("2d"), layer, head, square);
      cell.classList.toggle("off", isOff);
      cell.querySelector("input").checked = !isOff;
      cell.querySelector("button").setAttribute("aria-pressed", layer === this.layer && head === this.head);
    });
  }
}

// ---- putting it together --------------------------------------------------------------------

const cards = models.map((model) => new Card(model));
const dress = (theme) => { root.dataset.theme = theme; cards.forEach((card) => card.result && card.draw()); };

function hideLastWord() {
  write($("sentence").value.replace(/[\p{L}\p{N}]+(?=[^\p{L}\p{N}]*$)/u, "[MASK]"));
  $("sentence").focus();
}

function write(text) {
  if ($("sentence").value !== text) $("sentence").value = text;
  cards.forEach((card) => card.read(text));
}

$("models").append(...cards.map((card) => card.section));
$("sentence").addEventListener("input", () => write($("sentence").value));
$("theme").addEventListener("click", () => dress(root.dataset.theme === "dark" ? "light" : "dark"));
addEventListener("resize", () => cards.forEach((card) => card.drawMap()));
dress(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
write(page.text);
