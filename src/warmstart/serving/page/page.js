// The page of a server: one text, every run that can answer, side by side. No library, no network
// but this server.
"use strict";

const find = (id) => document.getElementById(id);
const percent = (share) => `${(100 * share).toFixed(1)}%`;

let token = "";
let models = [];
let task = null;
let running = null; // an AbortController while answers are awaited

// ---- small helpers -------------------------------------------------------------------------

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

async function request(path, body) {
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  const options = { headers, signal: running?.signal };
  if (body) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  const answer = await fetch(path, options);
  if (answer.ok) return answer;
  if (answer.status === 401) find("token-form").hidden = false;
  const problem = await answer.json().catch(() => null);
  throw new Error(problem?.error?.message ?? `the server answered ${answer.status}`);
}

const ask = async (path, body) => (await request(path, body)).json();

function numberOption(name, label, value, rest) {
  return element("label", {}, label,
    element("input", { type: "number", id: name, value, ...rest }));
}

const option = (name) => Number(find(name).value);

// The second text, for a run that was trained on pairs.
const second = (name) =>
  models.find((model) => model.id === name).reads_pairs ? find("text2").value : null;

// Words in a row that arrow keys walk through; the chosen one is pressed.
function tokenRow(label, words, choose) {
  const buttons = words.map((word, index) =>
    element("button", { type: "button", "aria-pressed": "false", onclick: () => pick(index),
                        onfocus: () => pick(index), onmouseenter: () => pick(index) }, word));
  const row = element("div", { class: "tokens", role: "group", "aria-label": label }, ...buttons);
  function pick(index) {
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(at === index)));
    choose(index);
  }
  row.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = buttons[buttons.indexOf(document.activeElement) + (step ?? NaN)];
    if (next) { next.focus(); event.preventDefault(); }
  });
  return { row, buttons, pick };
}

function shade(button, share, kind = "for") {
  button.style.background = `rgba(var(--${kind}), ${Math.min(1, share).toFixed(3)})`;
}

function bar(name, share, isBest) {
  return element("div", { class: isBest ? "bar best" : "bar" },
    element("span", {}, name),
    element("meter", { min: 0, max: 1, value: share, "aria-label": name }),
    element("output", {}, percent(share)));
}

// ---- what each task shows in the card of a run -----------------------------------------------

function labelBars({ label, labels = [label], probabilities }) {
  const shares = Object.entries(probabilities).sort((a, b) => b[1] - a[1]);
  return shares.map(([name, share]) => bar(name, share, labels.includes(name)));
}

async function labels(model, texts) {
  const text2 = second(model);
  const texts2 = text2 === null ? null : texts.map(() => text2);
  return (await ask("classify", { model, texts, texts2 })).predictions;
}

// The text with its entities marked; a colour stands for a label.
function entityText(text, entities) {
  const names = [...new Set(entities.map((entity) => entity.label))].sort();
  const characters = Array.from(text); // offsets count characters, not UTF-16 units
  const written = element("p", { class: "written" });
  let end = 0;
  for (const entity of entities) {
    written.append(characters.slice(end, entity.start).join(""),
      element("mark", { class: `entity-${names.indexOf(entity.label) % 6}`,
                        title: percent(entity.probability) },
        entity.text, element("small", {}, entity.label)));
    end = entity.end;
  }
  written.append(characters.slice(end).join(""));
  return written;
}

// A number with the interval that holds nine of ten such numbers, if there is one.
function numberText({ number, low, high }) {
  const shown = (value) => Number(value.toPrecision(4)).toLocaleString("en");
  const interval = low === null ? "Too few validation texts for an interval."
    : `90% interval ${shown(low)} to ${shown(high)}`;
  return [element("p", { class: "number" }, shown(number)),
          element("p", { class: "note" }, interval)];
}

async function classify(card, model, text) {
  const [whole] = await labels(model, [text]);
  if (whole.entities) {
    card.append(entityText(text, whole.entities));
    if (!whole.entities.length) card.append(element("p", { class: "note" }, "No entities found."));
    return;
  }
  if (whole.number !== undefined) {
    card.append(...numberText(whole));
    return;
  }
  card.append(...labelBars(whole));
  if (whole.labels) return; // what a word changes is said of one label
  await explain(card, model, whole, text);
}

async function answer(card, model, text) {
  const passage = find("text2").value;
  const body = { model, questions: [text], passages: [passage] };
  const { answers: [found], truncated } = await ask("answer", body);
  if (truncated) {
    card.append(element("p", { class: "note" }, "The question is too long: a part is not read."));
  }
  const said = found.answer ? `“${found.answer}”` : "The passage has no answer";
  const marked = found.answer
    ? [{ text: found.answer, label: "answer", ...found }] : [];
  card.append(element("p", { class: "note" }, `${said}, ${percent(found.probability)}`),
              entityText(passage, marked));
}

// What each word changes: the server labels the text again without it. A model whose words add up
// tells what each contributes, without a label for the rest.
async function explain(card, model, whole, text) {
  const text2 = second(model);
  const body = { model, texts: [text], texts2: text2 === null ? null : [text2], explain: true };
  const [{ words = [], sentences = [] }] = (await ask("classify", body)).predictions;
  if (words.length < 2) return;
  const largest = Math.max(...words.map(({ weight }) => Math.abs(weight)), 1e-9);
  const seen = element("div", { class: "without" });
  const { row, buttons } = tokenRow("Words of the text", words.map((word) => word.text), (at) => {
    const { text: word, weight, without } = words[at];
    if (!without) {
      seen.replaceChildren(element("p", { class: "note" }, `“${word}” adds ${weight.toFixed(2)}`));
      return;
    }
    const { label } = without;
    const outcome = label === whole.label ? `still ${label}` : `${label} instead of ${whole.label}`;
    seen.replaceChildren(element("p", { class: "note" }, `Without “${word}”: ${outcome}`),
                         ...labelBars(without));
  });
  words.forEach(({ weight, without }, at) => {
    shade(buttons[at], 0.75 * Math.abs(weight) / largest, weight > 0 ? "for" : "against");
    buttons[at].classList.toggle("decides", Boolean(without) && without.label !== whole.label);
  });
  const isOmitted = Boolean(words[0].without);
  const limit = sentences.length ? " The text is long: these are the words of the sentences that " +
    "change most." : "";
  card.append(
    element("h3", {}, isOmitted ? "Each word left out" : "What each word adds"), row,
    element("p", { class: "note" }, `Choose a word to see ` +
      `${isOmitted ? "the labels without it" : "its part of the log-odds"}. Blue words speak ` +
      `for ${whole.label}, orange ones against it` +
      `${isOmitted ? "; without an underlined word the label changes" : ""}.${limit}`), seen);
}

async function fillMask(card, model, text) {
  const { texts } = await ask("fill-mask", { model, texts: [text], top_k: option("top-k") });
  card.append(element("p", { class: "written" }, texts[0].text));
  texts[0].masks.forEach((choices, at) => {
    if (texts[0].masks.length > 1) card.append(element("h3", {}, `Mask ${at + 1}`));
    card.append(...choices.map((one, rank) => bar(one.word, one.probability, rank === 0)));
  });
}

async function generate(card, model, text) {
  const written = element("span");
  card.append(element("p", { class: "written" },
    element("span", { class: "prompt" }, text), written));
  const body = { model, prompt: text, max_tokens: option("max-tokens"),
                 temperature: option("temperature"), stream: true };
  const reader = (await request("generate", body)).body
    .pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const events = (held + part.value).split("\n\n");
    held = events.pop();
    for (const event of events) {
      const piece = JSON.parse(event.slice("data: ".length));
      if (piece.error) throw new Error(piece.error.message);
      written.append(piece.text);
      if (piece.end === "length") card.append(element("p", { class: "note" }, "Stopped at the limit of tokens."));
    }
  }
}

async function translate(card, model, text) {
  const sentences = text.split("\n").filter((line) => line.trim());
  const beam = option("beam");
  const body = { model, texts: sentences, beam, n_best: Math.min(beam, option("n-best")) };
  const { translations } = await ask("translate", body);
  translations.forEach((best, at) => {
    if (translations.length > 1) card.append(element("h3", {}, sentences[at]));
    for (const one of best) {
      card.append(element("p", { class: "written" }, one.text || "(nothing)"),
        element("p", { class: "note" }, `score ${one.score.toFixed(3)}`));
    }
  });
}

async function attention(card, model, text) {
  const body = { model, text, text2: second(model), words: find("words").checked };
  const { maps, truncated } = await ask("attention", body);
  if (truncated) {
    card.append(element("p", { class: "note" }, "The text is too long: a part of it is not read."));
  }
  const choices = (name, values) => element("select", { "aria-label": name, onchange: show },
    ...values.map((value, at) => element("option", { value: at }, value)));
  const numbered = (name, num) => Array.from({ length: num }, (_, at) => `${name} ${at + 1}`);
  const part = choices("Part", maps.map((map) => map.part));
  part.value = maps.length - 1;
  const [layers, heads] = [maps[0].weights.length, maps[0].weights[0].length];
  const layer = choices("Layer", numbered("layer", layers));
  layer.value = layers - 1;
  const head = choices("Head", [...numbered("head", heads), "mean of heads"]);
  head.value = heads;
  const view = element("div");
  card.append(element("div", { class: "row" }, ...(maps.length > 1 ? [part] : []), layer, head),
              view);

  function show() {
    const map = maps[part.value];
    const matrices = map.weights[layer.value];
    const chosen = Number(head.value) < heads ? [matrices[head.value]] : matrices;
    const weight = (query, key) =>
      chosen.reduce((sum, matrix) => sum + matrix[query][key], 0) / chosen.length;
    const note = element("p", { class: "note" });
    const isCross = map.part === "cross";
    const keys = isCross ? tokenRow("Keys", map.keys, () => {}) : null;
    const queries = tokenRow("Tokens", map.queries, (query) => {
      const row = map.keys.map((_, key) => weight(query, key));
      (keys ?? queries).buttons.forEach((button, key) => shade(button, Math.sqrt(row[key])));
      const seen = row.map((share, key) => [share, map.keys[key]]).filter(([share]) => share > 0);
      const best = seen.sort((a, b) => b[0] - a[0]);
      const said = best.slice(0, 3).map(([share, name]) => `${name} ${percent(share)}`).join(", ");
      note.textContent = `${map.queries[query]} attends to ${said}`;
    });
    view.replaceChildren(element("p", { class: "note" }, map.title), queries.row,
                         ...(keys ? [element("h3", {}, "Source"), keys.row] : []), note);
    queries.pick(map.queries.length > 1 ? 1 : 0);
  }
  show();
}

const TASKS = [
  { ability: "classify", name: "Classify", label: "Text to label", show: classify, pairs: true,
    example: "A fine book, but far too long." },
  { ability: "answer", name: "Answer", label: "Question", show: answer, pairs: true,
    example: "Where was the book published?", secondLabel: "Passage",
    secondExample: "Anna Keller wrote it in Oslo. It was published in Lyon in March 1999." },
  { ability: "fill-mask", name: "Fill mask", label: "Text with [MASK] where words are missing",
    show: fillMask, example: "A [MASK] book, but far too long.",
    options: () => [numberOption("top-k", "words", 5, { min: 1, max: 50 })] },
  { ability: "generate", name: "Complete", label: "Text to continue", show: generate,
    example: "This book",
    options: () => [numberOption("max-tokens", "tokens", 40, { min: 1 }),
                    numberOption("temperature", "temperature", 0.8, { min: 0, step: 0.1 })] },
  { ability: "translate", name: "Translate", label: "Sentences to translate, one per line",
    show: translate, example: "The book is good.",
    options: () => [numberOption("beam", "beam", 5, { min: 1, max: 64 }),
                    numberOption("n-best", "translations", 1, { min: 1, max: 10 })] },
  { ability: "attention", name: "Attention", label: "Text to look into", show: attention,
    pairs: true,
    example: "A fine book, but far too long.",
    options: () => [element("label", {},
      element("input", { type: "checkbox", id: "words", checked: true }), "whole words")] },
];

// Not of one ability: files can be labelled by hand without any run. See tables.js.
const TABLES = { ability: "tables", name: "Table", panel: "tables" };

// ---- the frame --------------------------------------------------------------------------------

const SHOWN_LABELS = 12;

// What each run tells apart: a run keeps no texts, so its labels are what the page knows of it.
function knownLabels() {
  const lines = able().filter((model) => model.labels.length).map(({ id, labels: names }) => {
    const more = names.length > SHOWN_LABELS ? ` and ${names.length - SHOWN_LABELS} more` : "";
    return `${id} tells apart ${names.slice(0, SHOWN_LABELS).join(", ")}${more}`;
  });
  return task.ability === "classify" ? lines.join("; ") : "";
}

const able = () => models.filter((model) => model.abilities.includes(task.ability));

function openTask(chosen) {
  running?.abort();
  running = null;
  find("ask").hidden = Boolean(chosen.panel);
  find("tables").hidden = !chosen.panel;
  for (const tab of find("tabs").children) {
    const isOpen = tab.id === `tab-${chosen.ability}`;
    tab.setAttribute("aria-selected", String(isOpen));
    tab.tabIndex = isOpen ? 0 : -1;
  }
  find("results").replaceChildren();
  if (chosen.panel) return;
  const text = find("text");
  const isExample = !text.value || TASKS.some((other) => other.example === text.value);
  task = chosen;
  if (isExample) text.value = task.example;
  const text2 = find("text2");
  const isOther = !text2.value || TASKS.some((other) => other.secondExample === text2.value);
  if (isOther) text2.value = task.secondExample ?? "";
  find("prompt2").textContent = task.secondLabel ?? "Second text, for runs trained on pairs";
  find("ask").setAttribute("aria-labelledby", `tab-${task.ability}`);
  find("prompt").textContent = task.label;
  find("known").textContent = knownLabels();
  find("known").hidden = !find("known").textContent;
  find("options").replaceChildren(...(task.options?.() ?? []));
  find("second").hidden = !(task.pairs && able().some((model) => model.reads_pairs));
  const boxes = able().flatMap(({ id }) => [element("label", {},
    element("input", { type: "checkbox", value: id, checked: true }), id)]);
  find("runs").replaceChildren(find("runs").firstElementChild, ...boxes);
  find("runs").hidden = boxes.length < 2;
}

async function run(event) {
  event.preventDefault();
  running?.abort();
  const mine = (running = new AbortController());
  const names = [...find("runs").querySelectorAll("input:checked")].map((box) => box.value);
  const chosen = able().filter((model) => names.includes(model.id));
  const cards = chosen.map((model) => element("article", { class: "card" },
    element("h2", {}, model.id), element("p", {}, model.description)));
  find("results").replaceChildren(...cards);
  find("stop").hidden = false;
  const text = find("text").value;
  await Promise.all(chosen.map((model, at) => task.show(cards[at], model.id, text)
    .catch((error) => {
      if (error.name !== "AbortError") {
        cards[at].append(element("p", { class: "wrong", role: "alert" }, error.message));
      }
    })));
  if (running === mine) find("stop").hidden = true;
}

function moveTab(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const tabs = [...find("tabs").children];
  const next = tabs[tabs.indexOf(document.activeElement) + (step ?? NaN)];
  if (next) { next.focus(); next.click(); }
}

async function start() {
  const problem = find("problem");
  problem.hidden = true;
  try {
    models = (await ask("v1/models")).data;
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
    find("ask").hidden = true;
    return;
  }
  find("token-form").hidden = true;
  const tasks = TASKS.filter((one) => models.some((model) => model.abilities.includes(one.ability)));
  tasks.push(TABLES);
  find("tabs").replaceChildren(...tasks.map((one) => element("button",
    { type: "button", role: "tab", id: `tab-${one.ability}`, onclick: () => openTask(one),
      "aria-controls": one.panel ?? "ask" }, one.name)));
  openTask(tasks[0]);
  const isServed = await openServed().catch((error) => { showProblem(error.message); return true; });
  if (isServed) openTask(TABLES);
}

listenForTables();
find("ask").addEventListener("submit", run);
find("tabs").addEventListener("keydown", moveTab);
find("stop").addEventListener("click", () => { running?.abort(); find("stop").hidden = true; });
find("ask").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(event);
});
find("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = find("token").value;
  start();
});
start();
