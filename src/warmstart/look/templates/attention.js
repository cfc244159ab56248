
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;
  const LABELS = 64; // more tokens than this get no label beside the matrix
  const MANY = 46; // up to this many tokens, lines are the first view
  const MOST = 2500; // lines drawn at once
  const COLOURS = {
    light: ["#ffffff", "#fde4d2", "#f5a56e", "#d5521c", "#6d2108"],
    dark: ["#1a1c21", "#4b2616", "#a8441a", "#f08a4c", "#ffe8d6"],
  };
  const MASKED = { light: [226, 228, 232], dark: [58, 62, 70] };
  const state = { map: data.maps.length - 1, layer: 0, head: 0, words: data.words, at: null, pin: null };

  // ---- data ---------------------------------------------------------------------------------
  const now = () => data.maps[state.map];
  const kind = () => (state.words ? "words" : "pieces");
  const queries = () => now().queries[kind()];
  const keys = () => now().keys[kind()];
  const isCross = () => now().part === "cross";
  const isMasked = (i, j) => now().causal && j > i;
  const predicted = (i) => (isCross() ? queries()[i + 1] : undefined); // by the row of a query
  const decoded = new Map();
  const heads = new Map();

  function numbers(map) {
    if (!decoded.has(map)) {
      const raw = atob(map.weights);
      const bytes = new Uint8Array(raw.length);
      for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
      decoded.set(map, map.bytes === 2 ? new Uint16Array(bytes.buffer) : bytes);
    }
    return decoded.get(map);
  }

  function headOf(layer, head) {
    const name = [state.map, layer, head, state.words].join();
    if (!heads.has(name)) heads.set(name, state.words ? joined(layer, head) : plain(layer, head));
    return heads.get(name);
  }

  function plain(layer, head) {
    const map = now(), all = numbers(map), most = map.bytes === 2 ? 65535 : 255;
    const rows = map.queries.pieces.length, columns = map.keys.pieces.length;
    const from = (layer * map.heads + head) * rows * columns;
    const weights = new Float32Array(rows * columns);
    for (let i = 0; i < weights.length; i++) weights[i] = (all[from + i] / most) ** 2;
    return { rows, columns, weights };
  }

  function joined(layer, head) {
    const whole = plain(layer, head), map = now();
    const row = wordOf(map.queries), column = wordOf(map.keys);
    const rows = map.queries.words.length, columns = map.keys.words.length;
    const weights = new Float32Array(rows * columns), sizes = new Float32Array(rows);
    row.forEach((word) => sizes[word]++);
    for (let i = 0; i < whole.rows; i++)
      for (let j = 0; j < whole.columns; j++)
        weights[row[i] * columns + column[j]] += whole.weights[i * whole.columns + j] / sizes[row[i]];
    return { rows, columns, weights };
  }

  function wordOf(tokens) {
    const starts = new Set(tokens.starts);
    let word = -1;
    return tokens.pieces.map((_, i) => (starts.has(i) ? ++word : word));
  }

  function seen(side, i) { // weights of one row, or of one column
    const { rows, columns, weights } = headOf(state.layer, state.head);
    if (side === "q") return weights.subarray(i * columns, (i + 1) * columns);
    return Float32Array.from({ length: rows }, (_, r) => weights[r * columns + i]);
  }

  function received() { // mean of each column over the rows that see it
    const { rows, columns, weights } = headOf(state.layer, state.head);
    return Float32Array.from({ length: columns }, (_, j) => {
      let sum = 0, count = 0;
      for (let i = 0; i < rows; i++) {
        const weight = weights[i * columns + j];
        sum += weight;
        count += !isMasked(i, j);
      }
      return count ? sum / count : 0;
    });
  }

  // ---- small helpers ------------------------------------------------------------------------
  function made(tag, attributes = {}, ...content) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...content);
    return element;
  }

  function drawn(tag, attributes = {}, text = "") {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = text;
    return element;
  }

  const share = (weight) => `${(100 * weight).toFixed(weight < 0.0995 ? 1 : 0)}%`;
  const short = (text, most = 16) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  const style = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const isDark = () => root.dataset.theme === "dark";

  let ramp = [];
  function mix() {
    const stops = COLOURS[isDark() ? "dark" : "light"].map((hex) =>
      [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16)));
    ramp = Array.from({ length: 256 }, (_, i) => {
      const place = (i / 255) * (stops.length - 1), low = Math.min(Math.floor(place), stops.length - 2);
      return stops[low].map((value, c) => Math.round(value + (place - low) * (stops[low + 1][c] - value)));
    });
  }

  function painted(canvas, { rows, columns, weights }) {
    canvas.width = columns;
    canvas.height = rows;
    const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
    for (let i = 0; i < weights.length; i++) {
      const colour = isMasked(Math.floor(i / columns), i % columns)
        ? MASKED[isDark() ? "dark" : "light"]
        : ramp[Math.min(255, Math.round(255 * Math.sqrt(weights[i])))];
      image.data.set(colour, 4 * i);
      image.data[4 * i + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }

  // ---- text ---------------------------------------------------------------------------------
  function buildText() {
    const flows = isCross()
      ? [["q", "target: queries, each predicts the next token", queries(), now().queries], ["k", "source: keys", keys(), now().keys]]
      : [["q", "", queries(), now().queries]];
    $("text").replaceChildren(...flows.flatMap(([side, name, tokens, whole]) => {
      const starts = new Set(whole.starts);
      const flow = made("div", { class: "flow", role: "listbox", "aria-label": name || "tokens" });
      tokens.forEach((token, i) => {
        const begins = state.words || starts.has(i);
        flow.append(made("span", {
          class: `tok${begins ? " starts" : ""}`, role: "option", "data-side": side, "data-i": i,
          tabindex: i ? "-1" : "0", "aria-selected": "false",
        }, token));
        if (begins && i < tokens.length - 1) flow.lastChild.before(" ");
      });
      return name ? [made("p", { class: "flow-name" }, name), flow] : [flow];
    }));
  }

  function shadeText() {
    const at = state.at ?? state.pin, warm = isDark() ? "255,128,64" : "226,94,32";
    const shade = new Map(); // side -> weights
    if (at) shade.set(isCross() && at.side === "q" ? "k" : "q", seen(at.side, at.i));
    else shade.set(isCross() ? "k" : "q", received());
    const most = at ? 1 : Math.max(...shade.values().next().value, 1e-9);
    for (const token of $("text").querySelectorAll(".tok")) {
      const { side, i } = token.dataset;
      const weight = shade.has(side) ? shade.get(side)[i] / most : 0;
      const alpha = at ? Math.sqrt(weight) : 0.6 * weight;
      token.style.background = alpha > 0.02 ? `rgba(${warm},${alpha.toFixed(3)})` : "";
      const isHere = at && at.side === side && at.i === +i;
      const isPinned = state.pin && state.pin.side === side && state.pin.i === +i;
      token.classList.toggle("here", Boolean(isHere));
      token.classList.toggle("pinned", Boolean(isPinned));
      token.setAttribute("aria-selected", String(Boolean(isHere)));
    }
  }

  function tell() {
    const at = state.at ?? state.pin, read = $("read");
    $("hint").textContent = at
      ? "Click to keep the token selected; Escape clears the selection."
      : $("text").hidden
        ? "The width of a line shows its weight. Point at a token to see only its lines."
        : "The shade shows the attention each token receives, relative to the highest. Point at a token, or select it with Tab and the arrow keys, to see what it attends to.";
    if (!at) return read.replaceChildren();
    const names = at.side === "q" ? keys() : queries();
    const own = (at.side === "q" ? queries() : keys())[at.i];
    const found = Array.from(seen(at.side, at.i), (weight, i) => [weight, i])
      .sort((a, b) => b[0] - a[0]).slice(0, 5).filter(([weight]) => weight >= 0.001);
    const items = found.flatMap(([weight, i], place) => [place ? ", " : "", made("b", {}, names[i]), ` ${share(weight)}`]);
    const next = at.side === "q" ? predicted(at.i) : undefined;
    const aim = next === undefined ? [] : [", predicting ", made("b", {}, next), ","];
    read.replaceChildren(made("b", {}, own), ...aim, at.side === "q" ? " attends to " : " receives attention from ", ...items);
  }

  // ---- lines --------------------------------------------------------------------------------
  const WIDE = 560, LEFT = 175, RIGHT = 385;
  function buildLines() {
    const left = queries(), right = keys(), most = Math.max(left.length, right.length);
    const step = most > 60 ? 15 : 20, height = most * step + 30;
    const svg = drawn("svg", { viewBox: `0 0 ${WIDE} ${height}`, role: "img", "aria-label": "lines from each query to the keys it attends to" });
    svg.append(drawn("text", { x: LEFT, y: 12, "text-anchor": "end", class: "soft" }, "queries"));
    svg.append(drawn("text", { x: RIGHT, y: 12, class: "soft" }, "keys"));
    svg.append(drawn("g", { id: "strokes" }));
    for (const [side, tokens, x, anchor] of [["q", left, LEFT, "end"], ["k", right, RIGHT, "start"]])
      tokens.forEach((token, i) => {
        const shift = side === "q" ? -150 : 0;
        svg.append(drawn("rect", { x: x + shift - 4, y: 20 + i * step, width: 158, height: step - 1, rx: 3, fill: "transparent", "data-side": side, "data-i": i }));
        svg.append(drawn("text", { x, y: 20 + i * step + step * 0.72, "text-anchor": anchor, "data-side": side, "data-i": i }, short(token, 20)));
      });
    $("lines").replaceChildren(svg);
    svg.dataset.step = step;
  }

  function drawLines() {
    if ($("lines").hidden) return;
    const at = state.at ?? state.pin, svg = $("lines").firstChild, step = +svg.dataset.step;
    const { rows, columns, weights } = headOf(state.layer, state.head);
    const y = (i) => 20 + i * step + step / 2, warm = style("--warm");
    let strong = [];
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < columns; j++) {
        const weight = weights[i * columns + j];
        if (weight > (at ? 0.01 : 0.02) && (!at || (at.side === "q" ? i : j) === at.i)) strong.push([weight, i, j]);
      }
    strong = strong.sort((a, b) => b[0] - a[0]).slice(0, MOST).reverse();
    svg.querySelector("#strokes").replaceChildren(...strong.map(([weight, i, j]) =>
      drawn("path", {
        d: `M${LEFT + 6},${y(i)} C${LEFT + 90},${y(i)} ${RIGHT - 90},${y(j)} ${RIGHT - 6},${y(j)}`,
        fill: "none", stroke: warm, "stroke-width": (at ? 1 + 3 * weight : 0.6 + 2.2 * weight).toFixed(2),
        "stroke-opacity": (at ? 0.25 + 0.75 * weight : 0.03 + 0.9 * weight).toFixed(3), "stroke-linecap": "round",
      })));
    const shade = at ? seen(at.side, at.i) : null, other = at && at.side === "q" ? "k" : "q";
    for (const element of svg.querySelectorAll("[data-i]")) {
      const { side, i } = element.dataset, isHere = at && at.side === side && at.i === +i;
      if (element.tagName === "text") element.classList.toggle("here", Boolean(isHere));
      else {
        const alpha = shade && side === other ? 0.75 * Math.sqrt(shade[i]) : 0;
        element.setAttribute("fill", alpha > 0.02 ? warm : "transparent");
        element.setAttribute("fill-opacity", alpha.toFixed(3));
      }
    }
  }

  // ---- matrix -------------------------------------------------------------------------------
  let frame = null; // where the matrix lies in its canvas, in CSS pixels
  function drawMatrix() {
    const head = headOf(state.layer, state.head), box = $("matrix");
    const canvas = box.querySelector("canvas") || box.appendChild(made("canvas", { role: "img", "aria-label": "attention weights: each row is a query, each column a key" }));
    const context = canvas.getContext("2d"), ratio = window.devicePixelRatio || 1;
    const wide = Math.max(240, Math.min(box.clientWidth, 620));
    const font = (size) => `${size}px system-ui, sans-serif`;
    const hasLabels = Math.max(head.rows, head.columns) <= LABELS;
    context.font = font(11);
    const widest = (tokens) => Math.max(...tokens.map((token) => context.measureText(short(token, 14)).width));
    const left = hasLabels ? widest(queries()) + 8 : 18, top = hasLabels ? widest(keys()) + 8 : 18;
    const cell = Math.min((wide - left - 2) / head.columns, 30, (620 - top) / head.rows);
    const width = cell * head.columns, height = cell * head.rows;
    canvas.width = (left + width + 2) * ratio;
    canvas.height = (top + height + 2) * ratio;
    canvas.style.width = `${left + width + 2}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(painted(document.createElement("canvas"), head), left, top, width, height);
    context.strokeStyle = style("--line");
    context.strokeRect(left, top, width, height);
    const at = state.at ?? state.pin;
    context.font = font(Math.min(11, Math.max(7, cell * 0.82)));
    context.textBaseline = "middle";
    for (const [tokens, side] of [[queries(), "q"], [keys(), "k"]]) {
      context.save();
      context.translate(left, top);
      if (side === "k") context.rotate(-Math.PI / 2);
      context.textAlign = side === "q" ? "right" : "left";
      if (hasLabels)
        tokens.forEach((token, i) => {
          context.fillStyle = at && at.side === side && at.i === i ? style("--mark") : style("--ink");
          context.fillText(short(token, 14), side === "q" ? -5 : 5, (i + 0.5) * cell);
        });
      else {
        context.fillStyle = style("--soft");
        context.font = font(11);
        if (side === "q") context.rotate(-Math.PI / 2);
        else context.rotate(Math.PI / 2);
        context.textAlign = side === "q" ? "right" : "left";
        context.fillText(side === "q" ? "queries →" : "keys →", 0, -9);
      }
      context.restore();
    }
    if (at) {
      context.strokeStyle = style("--mark");
      context.lineWidth = 1.5;
      if (at.side === "q") context.strokeRect(left, top + at.i * cell, width, cell);
      else context.strokeRect(left + at.i * cell, top, cell, height);
    }
    frame = { left, top, cell, ...head };
  }

  function overMatrix(event) {
    if (!frame || event.target.tagName !== "CANVAS") return;
    const box = event.target.getBoundingClientRect();
    const i = Math.floor((event.clientY - box.top - frame.top) / frame.cell);
    const j = Math.floor((event.clientX - box.left - frame.left) / frame.cell);
    if (i < 0 || j < 0 || i >= frame.rows || j >= frame.columns) return point(null);
    point({ side: "q", i });
    const weight = isMasked(i, j) ? "masked" : share(frame.weights[i * frame.columns + j]);
    tip(event, `${queries()[i]} → ${keys()[j]}: ${weight}`);
  }

  function tip(event, text) {
    const box = $("tip");
    box.hidden = !text;
    if (!text) return;
    box.textContent = text;
    box.style.left = `${Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8)}px`;
    box.style.top = `${Math.max(event.clientY - 34, 4)}px`;
  }

  // ---- every head ---------------------------------------------------------------------------
  function buildAll() {
    const map = now(), figures = map[kind()], grid = $("all");
    grid.style.gridTemplateColumns = `max-content repeat(${map.heads}, minmax(52px, 150px))`;
    const row = (...cells) => made("div", { role: "row", style: "display:contents" }, ...cells);
    const top = Array.from({ length: map.heads }, (_, head) => made("span", { class: "top", role: "columnheader" }, `head ${head + 1}`));
    const rows = Array.from({ length: map.layers }, (_, layer) => row(
      made("span", { class: "side", role: "rowheader" }, `layer ${layer + 1}`),
      ...Array.from({ length: map.heads }, (_, head) => {
        const entropy = figures.entropy[layer][head], apart = figures.distance && figures.distance[layer][head];
        const words = `${entropy.toFixed(1)} b${apart === null ? "" : ` · ${apart.toFixed(1)}`}`;
        const label = `layer ${layer + 1}, head ${head + 1}: entropy ${entropy.toFixed(2)} bits${apart === null ? "" : `, distance ${apart.toFixed(1)}`}`;
        const canvas = painted(document.createElement("canvas"), headOf(layer, head));
        return made("button", { type: "button", role: "gridcell", "data-layer": layer, "data-head": head, "aria-label": label, title: label, tabindex: "-1" },
          canvas, made("small", {}, words));
      })));
    grid.replaceChildren(row(made("span", { role: "columnheader" }), ...top), ...rows);
    $("and-distance").hidden = !figures.distance;
  }

  function markAll() {
    for (const cell of $("all").querySelectorAll("button")) {
      const isChosen = +cell.dataset.layer === state.layer && +cell.dataset.head === state.head;
      cell.setAttribute("aria-selected", String(isChosen));
      cell.tabIndex = isChosen ? 0 : -1;
    }
  }

  // ---- entropy against distance -------------------------------------------------------------
  const hue = (layer) => {
    const place = now().layers > 1 ? layer / (now().layers - 1) : 1;
    return `hsl(${Math.round(212 + 166 * place) % 360} ${Math.round(60 + 16 * place)}% ${isDark() ? 66 : 48}%)`;
  };

  function ticks(most) {
    const rough = most / 5 || 1, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, i) => +(i * step).toFixed(6));
  }

  function buildSpread() {
    const map = now(), figures = map[kind()];
    $("spread").closest("section").hidden = !figures.distance;
    if (!figures.distance) return $("spread").replaceChildren();
    const W = 860, H = 330, L = 52, R = 120, T = 14, B = 44;
    const farthest = 1.06 * Math.max(...figures.distance.flat(), 0.5), highest = 1.08 * Math.max(...figures.entropy.flat(), 0.5);
    const x = (v) => L + (v / farthest) * (W - L - R), y = (v) => H - B - (v / highest) * (H - T - B);
    const svg = drawn("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "entropy of each head against its average distance" });
    const line = (x1, y1, x2, y2) => svg.append(drawn("line", { x1, y1, x2, y2, stroke: style("--line") }));
    for (const v of ticks(highest)) {
      line(L, y(v), W - R, y(v));
      svg.append(drawn("text", { x: L - 8, y: y(v) + 4, "text-anchor": "end", class: "soft" }, v));
    }
    for (const v of ticks(farthest)) svg.append(drawn("text", { x: x(v), y: H - B + 18, "text-anchor": "middle", class: "soft" }, v));
    svg.append(drawn("text", { x: (L + W - R) / 2, y: H - 6, "text-anchor": "middle", class: "soft" }, `average distance in ${state.words ? "words" : "tokens"}`));
    svg.append(drawn("text", { x: 14, y: (T + H - B) / 2, "text-anchor": "middle", class: "soft", transform: `rotate(-90 14 ${(T + H - B) / 2})` }, "entropy in bits"));
    figures.entropy.forEach((row, layer) => {
      svg.append(drawn("rect", { x: W - R + 22, y: T + 4 + layer * 18, width: 10, height: 10, rx: 5, fill: hue(layer) }));
      svg.append(drawn("text", { x: W - R + 38, y: T + 13 + layer * 18, class: "soft" }, `layer ${layer + 1}`));
      row.forEach((entropy, head) => {
        const dot = drawn("circle", { cx: x(figures.distance[layer][head]), cy: y(entropy), r: 6, fill: hue(layer), "data-layer": layer, "data-head": head });
        dot.append(drawn("title", {}, `layer ${layer + 1}, head ${head + 1}`));
        svg.append(dot);
      });
    });
    svg.append(drawn("text", { id: "chosen-name", class: "soft" }));
    $("spread").replaceChildren(svg);
  }

  function markSpread() {
    const name = $("chosen-name");
    for (const dot of $("spread").querySelectorAll("circle")) {
      const isChosen = +dot.dataset.layer === state.layer && +dot.dataset.head === state.head;
      dot.classList.toggle("chosen", isChosen);
      if (isChosen) {
        dot.parentNode.append(dot, name);
        name.setAttribute("x", +dot.getAttribute("cx") + 10);
        name.setAttribute("y", +dot.getAttribute("cy") + 4);
        name.textContent = `layer ${state.layer + 1}, head ${state.head + 1}`;
      }
    }
  }

  // ---- figures of the chosen head -----------------------------------------------------------
  function showFigures() {
    const figures = now()[kind()], get = (name) => figures[name] && figures[name][state.layer][state.head];
    const unit = state.words ? "words" : "tokens", entropy = get("entropy");
    const entries = [["entropy", `${entropy.toFixed(2)} bits`], ["effective keys", (2 ** entropy).toFixed(1)]];
    if (figures.distance) entries.push(
      ["average distance", `${get("distance").toFixed(2)} ${unit}`], ["weight on itself", share(get("itself"))],
      ["weight on the previous", share(get("previous"))], ["weight on the first", share(get("first"))]);
    $("figures").replaceChildren(...entries.map(([name, value]) => made("div", {}, made("dt", {}, name), made("dd", {}, value))));
    $("name").textContent = `layer ${state.layer + 1}, head ${state.head + 1}`;
  }

  // ---- putting it together ------------------------------------------------------------------
  function refresh() { // what follows the token
    shadeText();
    drawLines();
    drawMatrix();
    tell();
  }

  function choose(layer, head) { // what follows the head
    state.layer = (layer + now().layers) % now().layers;
    state.head = (head + now().heads) % now().heads;
    $("layer").value = state.layer;
    $("head").value = state.head;
    markAll();
    markSpread();
    showFigures();
    refresh();
  }

  function rebuild() { // what follows the part, words and colours
    state.at = state.pin = null;
    for (const [id, count] of [["layer", now().layers], ["head", now().heads]])
      $(id).replaceChildren(...Array.from({ length: count }, (_, i) => made("option", { value: i }, i + 1)));
    for (const button of $("parts").children) button.setAttribute("aria-pressed", String(+button.dataset.map === state.map));
    $("aim").textContent = `${now().title}.${now().causal ? " Grey cells are masked." : ""}`;
    buildText();
    buildLines();
    buildAll();
    buildSpread();
    choose(Math.min(state.layer, now().layers - 1), Math.min(state.head, now().heads - 1));
  }

  function point(at) {
    if (at && state.at && at.side === state.at.side && at.i === state.at.i) return;
    if (!at) tip(null, "");
    state.at = at;
    refresh();
  }

  function view(name) {
    $("text").hidden = name !== "text";
    $("lines").hidden = name !== "lines";
    for (const button of $("views").children) button.setAttribute("aria-pressed", String(button.dataset.view === name));
    refresh();
  }

  function dress(theme) {
    root.dataset.theme = theme;
    mix();
    const { at, pin } = state;
    rebuild();
    Object.assign(state, { at, pin });
    refresh();
  }

  function placeOf(element) { // the token an element stands for
    const found = element.closest && element.closest("[data-side]");
    if (!found) return null;
    const side = !isCross() && $("text").contains(found) ? "q" : found.dataset.side;
    return { side, i: +found.dataset.i };
  }

  function listen() {
    for (const id of ["text", "lines"]) {
      $(id).addEventListener("mouseover", (event) => point(placeOf(event.target)));
      $(id).addEventListener("mouseleave", () => point(null));
      $(id).addEventListener("click", (event) => {
        const at = placeOf(event.target), isSame = at && state.pin && at.i === state.pin.i && at.side === state.pin.side;
        state.pin = isSame ? null : at;
        refresh();
      });
      $(id).addEventListener("focusin", (event) => point(placeOf(event.target)));
      $(id).addEventListener("focusout", () => point(null));
    }
    $("matrix").addEventListener("mousemove", overMatrix);
    $("matrix").addEventListener("mouseleave", () => point(null));
    for (const id of ["all", "spread"])
      $(id).addEventListener("click", (event) => {
        const cell = event.target.closest("[data-layer]");
        if (cell) choose(+cell.dataset.layer, +cell.dataset.head);
      });
    $("layer").addEventListener("change", (event) => choose(+event.target.value, state.head));
    $("head").addEventListener("change", (event) => choose(state.layer, +event.target.value));
    $("words").addEventListener("change", (event) => { state.words = event.target.checked; rebuild(); });
    $("views").addEventListener("click", (event) => event.target.dataset.view && view(event.target.dataset.view));
    $("parts").addEventListener("click", (event) => {
      if (!event.target.dataset.map) return;
      state.map = +event.target.dataset.map;
      rebuild();
    });
    $("theme").addEventListener("click", () => dress(isDark() ? "light" : "dark"));
    document.addEventListener("keydown", pressed);
    addEventListener("resize", drawMatrix);
    let before = null;
    addEventListener("beforeprint", () => { before = root.dataset.theme; dress("light"); });
    addEventListener("afterprint", () => dress(before || "light"));
  }

  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const token = event.target.closest(".tok"), turn = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (turn && token) {
      const all = [...token.parentNode.querySelectorAll(".tok")];
      const next = all[Math.max(0, Math.min(all.length - 1, all.indexOf(token) + turn))];
      token.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    } else if (turn) choose(state.layer, state.head + turn);
    else if (step) choose(state.layer + step, state.head);
    else if (token && (event.key === "Enter" || event.key === " ")) token.click();
    else if (event.key === "Escape") { state.pin = state.at = null; refresh(); }
    else if (event.key === "w" || event.key === "W") $("words").click();
    else if (event.key === "d" || event.key === "D") $("theme").click();
    else return;
    if ((turn || step) && event.target.closest("#all"))
      $("all").querySelector('[aria-selected="true"]').focus();
    event.preventDefault();
  }

  if (data.maps.length > 1)
    $("parts").append(...data.maps.map((map, i) => made("button", { type: "button", "data-map": i, title: map.title }, map.part)));
  $("words").checked = state.words;
  $("rounding").textContent = now().bytes === 2 ? ", by less than 0.01 points" : ", by less than 0.4 points";
  listen();
  dress(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  view(Math.max(queries().length, keys().length) <= MANY ? "lines" : "text");
})();
