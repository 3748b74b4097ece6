// This script filters, pages and searches the answers. The address of the page stores the selection.
const PAGE = 50;
const control = controls(["model", "benchmark", "arm", "routers", "state", "transition", "gate", "view"]);
const fill = (select, entries) => {
  for (const [value, label] of entries) {
    const option = el("option", "", label);
    option.value = value;
    select.append(option);
  }
};
fill(control.model, head.models.map((name, k) => [k, name]));
fill(control.benchmark, head.benchmarks.map((name, k) => [k, name]));
control.benchmark.parentElement.hidden = head.benchmarks.length < 2;
const present = (column) => [...new Set(column)].sort((a, b) => a - b);
fill(control.arm, present(col.arm).map((k) => [k, head.arm_words[k]]));
fill(control.routers, present(col.routers).map((r) => [r, r === 0 ? "0 (direct)" : r]));
fill(control.state, present(col.state).map((k) => [k, head.states[k]]));
fill(control.transition, present(col.transition).map((k) => [k, head.transitions[k]]));
fill(control.gate, [...new Set(head.gates.map((g) => g.name))].map((name) => {
  const all = head.gates.filter((g) => g.name === name);
  const failed = all.filter((g) => g.status === "fail").length;
  return [name, `${all[0].title} (${failed ? `failed for ${failed} of ${all.length}` : "not failed"})`];
}));
const questionIndex = new Map();
head.questions.forEach((q, k) => {
  const key = q[0] + "\0" + q[1];
  if (!questionIndex.has(key)) questionIndex.set(key, []);
  questionIndex.get(key).push(k);
});
const gateSets = (name) => {
  const sets = new Map();
  for (const gate of head.gates) {
    if (gate.name !== name) continue;
    const model = head.models.indexOf(gate.model), benchmark = head.benchmarks.indexOf(gate.benchmark);
    const set = sets.get(model) ?? sets.set(model, new Set()).get(model);
    for (const id of gate.items) for (const k of questionIndex.get(benchmark + "\0" + id) ?? []) set.add(k);
  }
  return sets;
};

let hits = null; // marks the rows whose texts contain the search words; null without a search
let shown = new Uint32Array(0), shownLines = new Uint32Array(0), page = 0, opened = -1;
const asGrid = () => control.view.value === "";
const name = (i) => {
  const q = head.questions[col.question[i]];
  return [head.models[col.model[i]], head.benchmarks[q[0]], q[1], setting(i)].join("~");
};
const nowOpen = (i) => { // i is -1 if no answer is open
  opened = i;
  keep();
};
const keep = () => remember(control, { page: page ? String(page + 1) : "", open: opened < 0 ? "" : name(opened) });
// `at` holds the page and the open answer of a link.
const apply = (at) => {
  const start = performance.now();
  const pick = (name) => (control[name].value === "" ? -1 : Number(control[name].value));
  const model = pick("model"), benchmark = pick("benchmark"), arm = pick("arm"), routers = pick("routers");
  const state = pick("state"), transition = pick("transition");
  const sets = control.gate.value === "" ? null : gateSets(control.gate.value);
  const found = new Uint32Array(n);
  let count = 0;
  for (let i = 0; i < n; i++) {
    if (model >= 0 && col.model[i] !== model) continue;
    if (arm >= 0 && col.arm[i] !== arm) continue;
    if (routers >= 0 && col.routers[i] !== routers) continue;
    if (state >= 0 && col.state[i] !== state) continue;
    if (transition >= 0 && col.transition[i] !== transition) continue;
    if (hits !== null && !hits[i]) continue;
    if (benchmark >= 0 && head.questions[col.question[i]][0] !== benchmark) continue;
    if (sets !== null && !sets.get(col.model[i])?.has(col.question[i])) continue;
    found[count++] = i;
  }
  shown = found.subarray(0, count);
  const some = new Uint8Array(lines);
  for (const i of shown) some[lineOf[i]] = 1;
  shownLines = worst.filter((k) => some[k]);
  const open = at?.get("open");
  opened = -1;
  for (let i = 0; open && opened < 0 && i < n; i++) if (name(i) === open) opened = i;
  const place = opened < 0 ? -1 : asGrid() ? shownLines.indexOf(lineOf[opened]) : shown.indexOf(opened);
  if (place < 0) opened = -1; // the filters exclude this answer
  page = place < 0 ? Number(at?.get("page") ?? 1) - 1 || 0 : Math.floor(place / PAGE);
  render();
  keep();
  if (place >= 0) document.querySelector(`#drill [data-row="${opened}"]`).scrollIntoView({ block: "center" });
  byId("drill").dataset.ms = (performance.now() - start).toFixed(1);
};

const list = byId("rows");
const render = () => {
  const all = asGrid() ? shownLines : shown, pages = Math.max(1, Math.ceil(all.length / PAGE));
  page = Math.min(Math.max(page, 0), pages - 1);
  byId("count").textContent = `${format.format(shown.length)} of ${format.format(n)} answers`;
  byId("page").textContent = `Page ${format.format(page + 1)} of ${format.format(pages)}`;
  byId("prev").disabled = page === 0;
  byId("next").disabled = page >= pages - 1;
  const here = all.subarray(page * PAGE, (page + 1) * PAGE);
  grid.hidden = !asGrid() || !here.length;
  list.hidden = !grid.hidden;
  grid.replaceChildren(...(grid.hidden ? [] : [table(here)]));
  const items = grid.hidden ? Array.from(here, rowItem) : [];
  if (!here.length) {
    items.push(el("li", "empty", control.gate.value === "" ? "No answer fits these filters." :
      "No answer fits these filters, since this gate names no question."));
  }
  list.replaceChildren(...items);
  const button = opened < 0 ? null : document.querySelector(`#drill [data-row="${opened}"]`);
  opened = -1;
  button?.click();
};
const rowItem = (i) => {
  const item = el("li");
  const button = el("button", "row");
  button.type = "button";
  button.dataset.row = i;
  button.setAttribute("aria-expanded", "false");
  const q = head.questions[col.question[i]];
  button.append(el("span", "q", q[2] >= 0 ? `${q[1]}  ${oneLine(text(q[2]), 130)}` : q[1]));
  button.append(el("span", "", head.models[col.model[i]]));
  button.append(el("span", "", setting(i)));
  const out = el("span", "out " + stateClass(col.state[i]), head.states[col.state[i]]);
  out.dataset.glyph = GLYPHS[col.state[i]];
  button.append(out);
  button.append(el("span", transitionClass(col.transition[i]), change(i)));
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    if (open) item.lastElementChild.remove(); else item.append(detail(i));
    nowOpen(open ? -1 : i);
  });
  item.append(button);
  return item;
};

// The search pauses between chunks, so that the page stays responsive. A new search stops an old one.
let search = 0;
const look = async (at) => {
  const mine = ++search;
  const words = byId("f-text").value.trim().toLowerCase();
  const status = byId("searching");
  if (words === "") {
    hits = null;
    status.textContent = "";
    apply(at);
    return;
  }
  const last = head.starts.length ? head.starts.at(-1) + chunk(head.starts.length - 1).length : 0;
  const mark = new Uint8Array(last);
  let rest = performance.now();
  for (let k = 0; k < head.starts.length; k++) {
    const strings = chunk(k);
    for (let j = 0; j < strings.length; j++) if (strings[j].toLowerCase().includes(words)) mark[head.starts[k] + j] = 1;
    if (performance.now() - rest > 40) {
      status.textContent = `Searching, ${Math.round((100 * k) / head.starts.length)} %`;
      await new Promise((done) => setTimeout(done));
      if (mine !== search) return;
      rest = performance.now();
    }
  }
  const questionHit = head.questions.map((q) => q[1].toLowerCase().includes(words) || (q[2] >= 0 && mark[q[2]] === 1) ||
    (Array.isArray(q[3]) && q[3].some((ref) => mark[ref] === 1)));
  hits = new Uint8Array(n);
  for (let i = 0; i < n; i++) {
    let hit = questionHit[col.question[i]];
    for (let k = col.offset[i]; !hit && k < col.offset[i + 1]; k++) hit = mark[col.refs[k]] === 1;
    hits[i] = hit ? 1 : 0;
  }
  status.textContent = "";
  apply(at);
};
const turn = (by) => {
  page += by;
  opened = -1;
  render();
  keep();
  byId("count").scrollIntoView({ block: "nearest" });
};
byId("prev").addEventListener("click", () => turn(-1));
byId("next").addEventListener("click", () => turn(1));
listen(control, apply, look);
// The page shows three questions as examples, each with one damaged message. Those with the largest
// changes under noise come first.
const noisy = (k) => {
  const rows = Array.from({ length: first[k + 1] - first[k] }, (_, at) => first[k] + at);
  const damaged = rows.filter((i) => head.arms[col.arm[i]] === "noisy_rewrite" && col.messages[i] && col.offset[i + 1] > col.offset[i]);
  return damaged.find((i) => col.transition[i] === 0) ?? damaged.find((i) => col.transition[i] === 1) ?? damaged[0] ?? -1;
};
const brief = (i) => {
  const q = head.questions[col.question[i]], node = el("div", "brief"), message = text(col.refs[col.offset[i]]);
  const part = (title, nodes) => {
    const words = el("p", "qtext");
    words.append(...nodes);
    node.append(el("h4", "", title), words);
  };
  if (head.models.length > 1) node.append(el("h4", "muted", head.models[col.model[i]]));
  if (q[2] >= 0) part("As published", [text(q[2])]);
  part(col.routers[i] > 1 ? `Damaged, the first of ${col.routers[i]} messages` : "Damaged", wordDiff(q[2] >= 0 ? text(q[2]) : message, message) ?? [message]);
  node.append(el("p", stateClass(col.state[i]), `${GLYPHS[col.state[i]]} ${head.states[col.state[i]]} under noise; against the clean baseline: ${change(i)}`));
  return node;
};
const examples = Array.from(worst).slice(0, 200).map(noisy).filter((i) => i >= 0).slice(0, 3);
if (examples.length) {
  byId("example").hidden = false;
  byId("example-body").replaceChildren(...examples.map(brief));
}
