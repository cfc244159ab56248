// Tables on the page: a file that is opened or dropped is labelled by a run, or by hand, one key a
// label. The file of `serve --label` is saved by the server after every label; of other files, this
// browser keeps the labels. Everything from a file is shown as text.
"use strict";

const MOST_FILE_BYTES = 5e6;
const MOST_TABLE_ROWS = 10000;
const MOST_CELLS = 2e6; // short rows are filled up to the longest one
const SHOWN_ROWS = 20;
const BATCH_TEXTS = 32; // the server limits the texts of a request, and its size
const BATCH_CHARACTERS = 100000;
const LABEL = "label";
const KEYS = "123456789abcdefghijklmnopqrstuvwxyz"; // of the labels, in their order
const USUAL_NAMES = ["text", "label", "review", "comment", "sentence", "content", "message", "body",
                     "tweet", "category", "sentiment", "question"];

let table = null; // {name, names, rows, version, key}; with a version, the server keeps the file
let at = 0; // the row that is labelled
let hints = new Map(); // by row: what the run predicts
let isSaving = false;

// ---- reading and writing ----------------------------------------------------------------------

function splitCsv(content, delimiter) {
  const rows = [[""]];
  let isQuoted = false;
  for (let i = 0; i < content.length; i += 1) {
    const row = rows[rows.length - 1];
    const char = content[i];
    if (isQuoted) {
      if (char !== '"') row[row.length - 1] += char;
      else if (content[i + 1] === '"') { row[row.length - 1] += '"'; i += 1; }
      else isQuoted = false;
    } else if (char === '"' && row[row.length - 1] === "") isQuoted = true;
    else if (char === delimiter) row.push("");
    else if (char === "\n" || char === "\r") {
      if (char === "\r" && content[i + 1] === "\n") i += 1;
      rows.push([""]);
    } else row[row.length - 1] += char;
  }
  if (isQuoted) throw new Error("a quote in this file is never closed");
  return rows.filter((row) => row.some((cell) => cell.trim()));
}

// The delimiter that splits most rows into as many cells as the first one.
function findDelimiter(content) {
  const head = content.slice(0, 20000).split(/\r\n|\r|\n/).slice(0, 20).join("\n");
  const regular = [",", ";", "\t", "|"].map((delimiter) => {
    const rows = splitCsv(`${head.replaceAll('"', "")}\n`, delimiter);
    const width = rows[0]?.length ?? 0;
    const share = rows.filter((row) => row.length === width).length / Math.max(1, rows.length);
    return { delimiter, score: width > 1 ? share : 0 };
  });
  return regular.reduce((best, one) => (one.score > best.score ? one : best)).delimiter;
}

function checkSize(rows, columns) {
  if (rows * columns > MOST_CELLS) throw new Error(`${columns} columns are too many for ${rows} rows`);
}

const asCell = (value) =>
  value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);

function readCells(name, content) {
  if (/\.jsonl$/i.test(name)) {
    const records = content.split("\n").filter((line) => line.trim()).map((line) => JSON.parse(line));
    const names = [...new Set(records.flatMap((record) => Object.keys(record)))];
    checkSize(records.length, names.length);
    return [names, ...records.map((record) => names.map((key) => asCell(record[key])))];
  }
  if (/\.(csv|tsv)$/i.test(name)) return splitCsv(content, findDelimiter(content));
  return [["text"], ...content.split(/\r\n|\r|\n/).filter((line) => line.trim()).map((line) => [line])];
}

// As `predict -o` writes it: a cell that a spreadsheet would run gets an apostrophe.
function toCsv(rows) {
  const isRun = (cell) => /^[=+\-@\t\r\n＝＋－＠]/.test(cell) && !/^[+-]?\d+([.,]\d+)?(e[+-]?\d+)?$/i.test(cell);
  const safe = (cell) => (isRun(cell) ? `'${cell}` : cell);
  const field = (cell) => (/[",;\t|\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  return rows.map((row) => row.map((cell) => field(safe(cell))).join(",") + "\r\n").join("");
}

async function readFile(file) {
  if (file.size > MOST_FILE_BYTES) throw new Error(`${file.name} is larger than 5 MB: use warmstart predict`);
  if (/\.(xlsx?|xlsb|ods|parquet|gz|xz|zst|bz2)$/i.test(file.name)) {
    throw new Error(`${file.name}: save it as .csv, or use warmstart predict, which reads it`);
  }
  let content;
  try {
    content = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error(`${file.name} is not UTF-8: save it as CSV UTF-8`);
  }
  let cells;
  let width;
  try {
    cells = readCells(file.name, content);
    width = cells.reduce((most, row) => Math.max(most, row.length), 0);
    checkSize(cells.length, width);
  } catch (error) { throw new Error(`${file.name}: ${error.message}`); }
  if (cells.length < 2) throw new Error(`${file.name} has no rows`);
  if (cells.length > MOST_TABLE_ROWS + 1) {
    throw new Error(`${file.name} has more than ${MOST_TABLE_ROWS} rows: use warmstart predict`);
  }
  return cells.map((row) => [...row, ...Array(width - row.length).fill("")]);
}

// ---- the table --------------------------------------------------------------------------------

const column = (name) => table.names.findIndex((other) => other.trim().toLowerCase() === name);

function addColumn(name) {
  if (column(name) >= 0) return column(name);
  table.names.push(name);
  table.rows.forEach((row) => row.push(""));
  return table.names.length - 1;
}

function guessText() {
  const sizes = table.names.map((_, index) =>
    table.rows.slice(0, 100).reduce((sum, row) => sum + row[index].length, 0));
  return column("text") >= 0 ? column("text") : sizes.indexOf(Math.max(...sizes));
}

function openTable(name, cells, hasHeader) {
  const names = hasHeader ? cells[0].map((cell, index) => cell.trim() || `column ${index + 1}`)
    : cells[0].map((_, index) => `column ${index + 1}`);
  const rows = cells.slice(hasHeader ? 1 : 0).map((row) => [...row]);
  table = { name, names, rows, version: null, key: `warmstart ${name} ${checksum(rows)}` };
  showTable();
}

async function openFile(file) {
  showProblem("");
  try {
    const cells = await readFile(file);
    const hasHeader = !/\.(csv|tsv)$/i.test(file.name)
      || cells[0].some((cell) => USUAL_NAMES.includes(cell.trim().toLowerCase()));
    find("header").checked = hasHeader;
    find("header").onchange = () => openTable(file.name, cells, find("header").checked);
    find("header-box").hidden = !/\.(csv|tsv)$/i.test(file.name);
    openTable(file.name, cells, hasHeader);
  } catch (error) { showProblem(error.message); }
}

async function openServed() {
  const served = await ask("labels");
  if (!served.file) return false;
  const isPair = served.rows.some((row) => row.text2 !== null);
  table = { name: served.file, version: served.version,
            names: ["text", ...(isPair ? ["text2"] : []), LABEL],
            rows: served.rows.map((row) => [row.text, ...(isPair ? [row.text2 ?? ""] : []), row.label]) };
  find("header-box").hidden = true;
  showTable();
  startLabelling();
  return true;
}

function showProblem(message) {
  find("problem").textContent = message;
  find("problem").hidden = !message;
}

function showTable() {
  at = 0;
  hints = new Map();
  find("labelling").hidden = true;
  find("table-tools").hidden = false;
  find("text-column").replaceChildren(...table.names.map((name, index) =>
    element("option", { value: index }, name)));
  find("text-column").value = guessText();
  const runs = models.filter((model) => model.abilities.includes("classify"));
  find("table-run").replaceChildren(...runs.map(({ id }) => element("option", { value: id }, id)));
  find("table-run").hidden = runs.length < 2;
  find("predict").hidden = !runs.length;
  showPreview(`${table.name}: ${table.rows.length} rows`);
}

function showPreview(note) {
  const cells = (name, row) => element("tr", {}, ...row.map((cell) =>
    element(name, {}, cell.length > 200 ? `${cell.slice(0, 200)}…` : cell)));
  const more = table.rows.length > SHOWN_ROWS ? `; the first ${SHOWN_ROWS} are shown` : "";
  find("table-note").textContent = note + more;
  find("preview").replaceChildren(element("thead", {}, cells("th", table.names)),
    element("tbody", {}, ...table.rows.slice(0, SHOWN_ROWS).map((row) => cells("td", row))));
}

function download() {
  const content = toCsv([table.names, ...table.rows]);
  const address = URL.createObjectURL(new Blob([content], { type: "text/csv" }));
  const name = `${table.name.replace(/\.\w+$/, "")}-labelled.csv`;
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

// ---- labelled by a run ------------------------------------------------------------------------

function textsOf(rows) {
  const [first, text2] = [Number(find("text-column").value), column("text2")];
  const model = find("table-run").value;
  const isPair = text2 >= 0 && models.find(({ id }) => id === model)?.reads_pairs;
  return { model, texts: rows.map((row) => row[first]),
           texts2: isPair ? rows.map((row) => row[text2]) : null };
}

const predictRows = async (rows) => (await ask("classify", textsOf(rows))).predictions;

function shownLabel({ label, labels, entities }) {
  return entities ? JSON.stringify(entities) : label ?? (labels ?? []).join(",");
}

// Rows that fit one request; the texts of one row alone are for the server to judge.
function cutBatch(rows, start) {
  let [end, size] = [start, 0];
  while (end < rows.length && end - start < BATCH_TEXTS) {
    size += rows[end].reduce((sum, cell) => sum + cell.length, 0);
    if (end > start && size > BATCH_CHARACTERS) break;
    end += 1;
  }
  return rows.slice(start, end);
}

async function predictAll() {
  showProblem("");
  running = new AbortController();
  const mine = table;
  const label = addColumn("predicted");
  find("predict").disabled = true;
  try {
    for (let done = 0; done < mine.rows.length && table === mine;) {
      const rows = cutBatch(mine.rows, done);
      const predictions = await predictRows(rows);
      const hasShares = predictions.some(({ probability }) => probability !== undefined);
      const share = hasShares || column("probability") >= 0 ? addColumn("probability") : -1;
      rows.forEach((row, index) => {
        row[label] = shownLabel(predictions[index]);
        if (share >= 0) row[share] = predictions[index].probability?.toFixed(4) ?? "";
      });
      done += rows.length;
      if (table === mine) showPreview(`${table.name}: ${done} of ${table.rows.length} rows predicted`);
    }
  } catch (error) {
    if (error.name !== "AbortError") showProblem(error.message);
  } finally { find("predict").disabled = false; }
}

// ---- labelled by hand -------------------------------------------------------------------------

// Of all cells: another file of the same name must not get the labels of this one.
function checksum(rows) {
  let sum = rows.length;
  for (const char of JSON.stringify(rows)) sum = (Math.imul(sum, 31) + char.codePointAt(0)) | 0;
  return sum;
}

function restoreLabels() {
  const kept = JSON.parse(localStorage.getItem(table.key) ?? "{}");
  let number = 0;
  for (const [index, label] of Object.entries(kept)) {
    const row = table.rows[index];
    if (row && !row[column(LABEL)]) { row[column(LABEL)] = label; number += 1; }
  }
  return number;
}

function keepLabels() {
  const labels = table.rows.flatMap((row, index) =>
    (row[column(LABEL)] ? [[index, row[column(LABEL)]]] : []));
  localStorage.setItem(table.key, JSON.stringify(Object.fromEntries(labels)));
}

function startLabelling() {
  addColumn(LABEL);
  const number = table.version ? 0 : restoreLabels();
  find("labelling").hidden = false;
  find("label-state").textContent = number ? `${number} labels that this browser kept are back` : "";
  const open = table.rows.findIndex((row) => !row[column(LABEL)]);
  showRow(open < 0 ? 0 : open);
  find("label-text").focus();
}

// A run of several labels per text shows it by its predictions; a cell has commas between them.
const hasSets = () => [...hints.values()].some((hint) => hint.labels);

function labelsOf(row) {
  const cell = row[column(LABEL)];
  return (hasSets() ? cell.split(",").map((name) => name.trim()) : [cell]).filter(Boolean);
}

// The labels of the run, then those in the table that it does not know.
function labelNames() {
  const known = models.find(({ id }) => id === find("table-run").value)?.labels ?? [];
  const used = table.rows.flatMap(labelsOf);
  return [...new Set([...known, ...used.sort()])];
}

async function showRow(index) {
  at = Math.min(Math.max(index, 0), table.rows.length - 1);
  const row = table.rows[at];
  const done = table.rows.filter((other) => other[column(LABEL)]).length;
  find("label-place").textContent = `Text ${at + 1} of ${table.rows.length}; ${done} labelled`;
  const texts = textsOf([row]);
  find("label-text").textContent = [texts.texts[0], ...(texts.texts2 ?? [])].join("\n—\n");
  showLabels();
  const shown = at;
  if (!hints.has(at) && !find("predict").hidden && texts.texts[0].trim()) {
    const [hint] = await predictRows([row]).catch(() => [null]);
    if (hint) hints.set(shown, hint);
    if (shown === at) showLabels();
  }
}

function showLabels() {
  const hint = hints.get(at);
  const given = labelsOf(table.rows[at]);
  const hinted = hint?.labels ?? [hint?.label];
  find("label-hint").textContent = hint?.probabilities
    ? `The run says ${shownLabel(hint) || "no label"}${hint.probability === undefined ? "" : `, ${percent(hint.probability)}`}` : "";
  find("label-sets").hidden = !hasSets();
  find("label-buttons").replaceChildren(...labelNames().map((name, index) =>
    element("button", { type: "button", "aria-pressed": String(given.includes(name)),
                        class: hinted.includes(name) ? "hint" : false, onclick: () => pickLabel(name) },
      ...(index < KEYS.length ? [element("kbd", {}, KEYS[index]), " "] : []), name)));
}

// One label is the label of the text; of several, each is added or taken back.
function pickLabel(name) {
  if (!hasSets()) return giveLabel(name);
  const given = labelsOf(table.rows[at]);
  const labels = given.includes(name) ? given.filter((other) => other !== name) : [...given, name];
  return giveLabel(labels.join(","));
}

// A label counts once it is saved; the next text comes then, unless this one may have more labels.
async function giveLabel(label) {
  if (isSaving) return;
  const [row, before] = [table.rows[at], table.rows[at][column(LABEL)]];
  isSaving = true;
  showProblem("");
  try {
    if (table.version) {
      const { version } = await ask("label", { version: table.version, row: at, label });
      table.version = version;
    }
    row[column(LABEL)] = label;
    if (!table.version) keepLabels();
    find("label-state").textContent = table.version ? `saved in ${table.name}`
      : "kept in this browser; Download writes the table";
    showPreview(`${table.name}: ${table.rows.length} rows`);
    showRow(label && !hasSets() && at + 1 < table.rows.length ? at + 1 : at);
  } catch (error) {
    row[column(LABEL)] = before;
    find("label-state").textContent = "not saved";
    showProblem(error.message);
  } finally { isSaving = false; }
}

function labelByKey(event) {
  const isTyped = ["INPUT", "TEXTAREA", "SELECT"].includes(document.activeElement?.tagName);
  if (find("labelling").hidden || find("tables").hidden || isTyped) return;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const name = event.key.length === 1 ? labelNames()[KEYS.indexOf(event.key)] : undefined;
  if (name !== undefined) pickLabel(name);
  else if (event.key === "0" || event.key === "Backspace") giveLabel("");
  else if (event.key === "ArrowRight") showRow(at + 1);
  else if (event.key === "ArrowLeft") showRow(at - 1);
  else return;
  event.preventDefault();
}

// ---- the panel --------------------------------------------------------------------------------

function listenForTables() {
  find("file").addEventListener("change", () => { if (find("file").files[0]) openFile(find("file").files[0]); });
  for (const name of ["dragover", "drop"]) {
    document.addEventListener(name, (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      const file = name === "drop" ? event.dataTransfer.files[0] : null;
      if (file) { openTask(TABLES); openFile(file); }
    });
  }
  find("predict").addEventListener("click", predictAll);
  find("label-them").addEventListener("click", startLabelling);
  find("download").addEventListener("click", download);
  find("label-back").addEventListener("click", () => showRow(at - 1));
  find("label-next").addEventListener("click", () => showRow(at + 1));
  find("label-new").addEventListener("keydown", (event) => {
    const label = find("label-new").value.trim();
    if (event.key !== "Enter" || !label) return;
    find("label-new").value = "";
    find("label-new").blur();
    pickLabel(label);
  });
  document.addEventListener("keydown", labelByKey);
}
