// Text to token ids: what the tokenizers of warmstart do, and BERT's WordPiece.
//
// `spec` is a tokenizer.json: a normalizer, a pre-tokenizer that cuts text into words, and a model
// that cuts words into pieces. Python refuses to write a page for any other kind.
"use strict";

const SPACE = "\\p{White_Space}";
const WORDS = new RegExp(`'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^${SPACE}\\p{L}\\p{N}]+|${SPACE}+(?!\\P{White_Space})|${SPACE}+`, "gu");
const CHINESE = /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/gu;

// Return the function from a text to ids. Special tokens never result from text.
function makeTokenizer({ spec, specials, unk }) {
  const cut = { BPE: bytePairs, Unigram: likeliestPieces, WordPiece: longestPieces }[spec.model.type](spec.model);
  const known = new Map(); // a word is cut once
  const pieces = (word) => {
    if (!known.has(word)) known.set(word, cut(word));
    return known.get(word);
  };
  return (text) => splitWords(normalize(text, spec.normalizer), spec.pre_tokenizer)
    .flatMap(pieces)
    .map((id) => (specials.includes(id) ? unk : id))
    .filter((id) => id !== null);
}

function normalize(text, normalizer) {
  if (!normalizer) return text;
  if (normalizer.type === "Prepend") return text && normalizer.prepend + text;
  let clean = text;
  if (normalizer.clean_text)
    clean = clean.replace(/[\0\ufffd]|(?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}]/gu, "").replace(/\p{White_Space}/gu, " ");
  if (normalizer.handle_chinese_chars) clean = clean.replace(CHINESE, " $& ");
  if (normalizer.strip_accents ?? normalizer.lowercase) clean = clean.normalize("NFD").replace(/\p{Mn}/gu, "");
  return normalizer.lowercase ? Array.from(clean, (letter) => letter.toLowerCase()).join("") : clean;
}

// Byte-level tokenizers keep every byte, written as a letter; BERT's drop spaces.
function splitWords(text, preTokenizer) {
  if (preTokenizer.type === "BertPreTokenizer")
    return text.match(/[\p{P}$+<=>^`|~]|[^\p{White_Space}\p{P}$+<=>^`|~]+/gu) ?? [];
  const begun = preTokenizer.add_prefix_space && text && !text.startsWith(" ") ? ` ${text}` : text;
  return (begun.match(WORDS) ?? []).map((word) => Array.from(new TextEncoder().encode(word), (byte) => BYTE_LETTERS[byte]).join(""));
}

// The letter of each byte: itself if it can be printed, else one from U+0100 on.
const BYTE_LETTERS = (() => {
  const isShown = (byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let hidden = 256;
  return indexes(256).map((byte) => String.fromCharCode(isShown(byte) ? byte : hidden++));
})();

// BPE: merge the pair that was learned first, until no pair is known.
function bytePairs({ vocab, merges }) {
  const ranks = new Map(merges.map((pair, rank) => [pair.join("\n"), rank]));
  const rankAt = (parts, i) => ranks.get(`${parts[i]}\n${parts[i + 1]}`) ?? Infinity;
  return (word) => {
    const parts = Array.from(word);
    for (;;) {
      let best = -1;
      for (let i = 0; i + 1 < parts.length; i++)
        if (rankAt(parts, i) < (best < 0 ? Infinity : rankAt(parts, best))) best = i;
      if (best < 0) return parts.map((part) => vocab[part]);
      parts.splice(best, 2, parts[best] + parts[best + 1]);
    }
  };
}

// Unigram: of all ways to cut a word, the one whose pieces have the largest sum of scores.
function likeliestPieces({ vocab }) {
  const ids = new Map(vocab.map(([piece], id) => [piece, id]));
  const longest = Math.max(...vocab.map(([piece]) => piece.length));
  return (word) => {
    const best = [{ score: 0 }]; // by where a piece ends
    for (let start = 0; start < word.length; start++)
      for (let end = start + 1; end <= Math.min(word.length, start + longest); end++) {
        const id = ids.get(word.slice(start, end));
        if (id === undefined) continue;
        const score = vocab[id][1] + best[start].score;
        if (!best[end] || score > best[end].score) best[end] = { score, start, id };
      }
    const pieces = [];
    for (let end = word.length; end > 0; end = best[end].start) pieces.unshift(best[end].id);
    return pieces;
  };
}

// WordPiece: the longest piece that fits, again and again; a word that does not end is unknown.
function longestPieces({ vocab, unk_token: unknown, continuing_subword_prefix: inside, max_input_chars_per_word: most }) {
  return (word) => {
    const letters = Array.from(word), pieces = [];
    for (let start = 0, end; start < letters.length; start = end) {
      const piece = (stop) => (start ? inside : "") + letters.slice(start, stop).join("");
      for (end = letters.length; end > start && !Object.hasOwn(vocab, piece(end)); ) end--;
      if (end === start || letters.length > most) return [vocab[unknown]];
      pieces.push(vocab[piece(end)]);
    }
    return pieces;
  };
}

// ---- what a model reads ---------------------------------------------------------------------

// Ids between the first and the last special token; a text that is too long is cut as in training.
function readText(text, model) {
  const ids = model.masks.length ? encodeMasked(text, model) : model.encode(text);
  const room = model.maxLength - model.room, kept = truncate(ids, room, model.truncate);
  return { ids: [...model.begin, ...kept, ...model.end], numCut: ids.length - kept.length };
}

function truncate(ids, limit, rule) {
  if (ids.length <= limit) return ids;
  const front = { head: limit, tail: 0, middle: Math.floor((limit + 1) / 2) }[rule];
  return [...ids.slice(0, front), ...ids.slice(ids.length - (limit - front))];
}

// The space before a masked word belongs to the token that is missing.
function encodeMasked(text, model) {
  const parts = splitAtMasks(text, model);
  const [first, ...rest] = parts.map((part, i) => (i + 1 < parts.length ? part.replace(/[\p{White_Space}\x1c-\x1f]+$/u, "") : part));
  return [...(first ? model.encode(first) : []), ...rest.flatMap((part) => [model.mask, ...encodeInside(part, model)])];
}

const splitAtMasks = (text, model) => model.masks.reduce((parts, mask) => parts.flatMap((part) => part.split(mask)), [text]);

// The ids of a text that follows another token, read behind an anchor: tokenizers add a space at the start.
function encodeInside(text, model) {
  for (const anchor of text ? ["a", "."] : []) {
    const before = model.encode(anchor), ids = model.encode(anchor + text);
    if (before.every((id, i) => ids[i] === id)) return ids.slice(before.length);
  }
  return text ? model.encode(text) : [];
}
