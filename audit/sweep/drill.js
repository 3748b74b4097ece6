// This script unpacks the columns of all answers, and parses texts when they are first needed.
// All text of a model, a router or a benchmark is shown through textContent only, so it cannot run as code.
const head = JSON.parse(byId("drill-head").textContent);
const typed = (name, Type) => {
  const bytes = atob(head.columns[name]);
  const out = new Uint8Array(bytes.length);
  for (let i = 0; i < bytes.length; i++) out[i] = bytes.charCodeAt(i);
  return new Type(out.buffer);
};
const col = {
  question: typed("question", Uint32Array), model: typed("model", Uint16Array), arm: typed("arm", Uint8Array),
  routers: typed("routers", Uint16Array), replicate: typed("replicate", Uint16Array), state: typed("state", Uint8Array),
  transition: typed("transition", Uint8Array), weight: typed("weight", Uint8Array), answer: typed("answer", Int16Array), fact: typed("fact", Uint32Array),
  messages: typed("messages", Uint16Array), offset: typed("offset", Uint32Array), refs: typed("refs", Uint32Array),
};
const n = head.rows;
const logprobs = new Map(head.logprobs[0].map((row, k) => [row, head.logprobs[1][k]]));
const chunks = new Array(head.starts.length);
const chunk = (k) => (chunks[k] ??= JSON.parse(byId("texts-" + k).textContent));
const text = (ref) => {
  let low = 0, high = head.starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (head.starts[middle] <= ref) low = middle; else high = middle - 1;
  }
  return chunk(low)[ref - head.starts[low]];
};
const letter = (index) => (index < 26 ? String.fromCharCode(65 + index) : String(index + 1));
const el = (tag, className, content) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (content !== undefined) node.textContent = content;
  return node;
};
const oneLine = (s, limit) => {
  const flat = s.slice(0, limit * 2).replace(/\s+/g, " ").trim();
  return flat.length > limit ? flat.slice(0, limit - 1) + "…" : flat;
};
const format = new Intl.NumberFormat("en");
const run = (i) => (col.replicate[i] ? ` #${col.replicate[i] + 1}` : "");
const setting = (i) => head.arm_words[col.arm[i]] + (col.routers[i] ? ` ${head.arms[col.arm[i]] === "deleted" ? `${col.routers[i]} %` : `r=${col.routers[i]}`}` : "") + run(i);
const GLYPHS = ["✓", "✗", "?", "…", "!"];
const stateClass = (code) => (code === 0 ? "o-correct" : code === 1 ? "o-wrong" : "o-none");
const change = (i) => { // the change in words, with the share of clean runs if it holds for some only
  const word = head.transitions[col.transition[i]], w = col.weight[i];
  return w && w < 100 ? `${word} (against ${w} % of the clean runs)` : word;
};
const transitionClass = (code) => (code === 0 ? "x-improve" : code === 1 ? "x-degrade" : "x-same");

// A line of the grid has the answers of one model to one question. The rows are sorted, so these are adjacent.
const first = [];
for (let i = 0; i < n; i++) {
  const q = head.questions[col.question[i]], p = i && head.questions[col.question[i - 1]];
  if (!i || col.model[i] !== col.model[i - 1] || q[0] !== p[0] || q[1] !== p[1]) first.push(i);
}
const lines = first.length, gained = new Uint32Array(lines), lost = new Uint32Array(lines), lineOf = new Uint32Array(n);
const code = (i) => (col.arm[i] * 1000 + col.routers[i]) * 1000 + col.replicate[i];
const places = new Map(); // from a setting to its column in the grid (first, to a row with this setting)
for (let i = 0, k = 0; i < n; i++) {
  if (i === first[k + 1]) k++;
  lineOf[i] = k;
  if (head.arms[col.arm[i]] === "noisy_rewrite") {
    if (col.transition[i] === 0) gained[k] += col.weight[i];
    if (col.transition[i] === 1) lost[k] += col.weight[i];
  }
  if (!places.has(code(i))) places.set(code(i), i);
}
first.push(n);
const settings = [...places].sort((x, y) => x[0] - y[0]).map(([, row]) => row);
settings.forEach((row, k) => places.set(code(row), k));
// Questions that are wrong in clean and right under noise come first, since memory would cause such changes. Questions
// with the reverse change follow.
const worst = Uint32Array.from({ length: lines }, (_, k) => k).sort((x, y) => gained[y] - gained[x] || lost[y] - lost[x] || x - y);
