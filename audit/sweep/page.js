// The drill-down. Everything that a model, a router or a benchmark wrote reaches the page through textContent only.
(() => {
  const PAGE = 50;
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
    transition: typed("transition", Uint8Array), answer: typed("answer", Int16Array), fact: typed("fact", Uint32Array),
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
  const setting = (i) => head.arm_words[col.arm[i]] + (col.routers[i] ? ` r=${col.routers[i]}` : "") + run(i);
  const GLYPHS = ["✓", "✗", "?", "…", "!"];
  const stateClass = (code) => (code === 0 ? "o-correct" : code === 1 ? "o-wrong" : "o-none");
  const transitionClass = (code) => (code === 0 ? "x-improve" : code === 1 ? "x-degrade" : "x-same");

  // Filters.
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

  // A line of the grid is a question as one model answered it: rows that stand together, as the rows are sorted.
  const first = [];
  for (let i = 0; i < n; i++) {
    const q = head.questions[col.question[i]], p = i && head.questions[col.question[i - 1]];
    if (!i || col.model[i] !== col.model[i - 1] || q[0] !== p[0] || q[1] !== p[1]) first.push(i);
  }
  const lines = first.length, gained = new Uint16Array(lines), lost = new Uint16Array(lines), lineOf = new Uint32Array(n);
  const code = (i) => (col.arm[i] * 1000 + col.routers[i]) * 1000 + col.replicate[i];
  const places = new Map(); // of a setting: its column in the grid, and a row that has it
  for (let i = 0, k = 0; i < n; i++) {
    if (i === first[k + 1]) k++;
    lineOf[i] = k;
    if (head.arms[col.arm[i]] === "noisy_rewrite") {
      if (col.transition[i] === 0) gained[k]++;
      if (col.transition[i] === 1) lost[k]++;
    }
    if (!places.has(code(i))) places.set(code(i), i);
  }
  first.push(n);
  const settings = [...places].sort((x, y) => x[0] - y[0]).map(([, row]) => row);
  settings.forEach((row, k) => places.set(code(row), k));
  // Wrong in clean and right under noise first: there memory would show. Then right in clean and wrong under noise.
  const worst = Uint32Array.from({ length: lines }, (_, k) => k).sort((x, y) => gained[y] - gained[x] || lost[y] - lost[x] || x - y);

  let hits = null; // rows whose texts hold the words looked for; null when none are
  let shown = new Uint32Array(0), shownLines = new Uint32Array(0), page = 0, opened = -1;
  const asGrid = () => control.view.value === "";
  const name = (i) => {
    const q = head.questions[col.question[i]];
    return [head.models[col.model[i]], head.benchmarks[q[0]], q[1], setting(i)].join("~");
  };
  const keep = () => remember(control, { page: page ? String(page + 1) : "", open: opened < 0 ? "" : name(opened) });
  // at: what a link asks for beside the filters, the page and the answer that is open.
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
    if (place < 0) opened = -1; // not among what the filters leave
    page = place < 0 ? Number(at?.get("page") ?? 1) - 1 || 0 : Math.floor(place / PAGE);
    render();
    keep();
    if (place >= 0) document.querySelector(`#drill [data-row="${opened}"]`).scrollIntoView({ block: "center" });
    byId("drill").dataset.ms = (performance.now() - start).toFixed(1);
  };

  const list = byId("rows"), grid = byId("grid");
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
        "No answer fits: this gate names no single question under these filters."));
    }
    list.replaceChildren(...items);
    const button = opened < 0 ? null : document.querySelector(`#drill [data-row="${opened}"]`);
    opened = -1;
    button?.click();
  };
  // The grid: lines of `here`, a square a setting. Arrow keys go from square to square.
  const table = (here) => {
    const node = el("table", "grid"), top = el("tr"), below = el("tr"), body = el("tbody"), thead = el("thead");
    top.append(el("th"));
    below.append(el("th", "", "Question"));
    for (const row of settings) {
      const word = head.arm_words[col.arm[row]];
      if (top.lastChild.textContent !== word) top.append(el("th", "", word));
      const group = top.lastChild;
      group.colSpan = group.dataset.wide = Number(group.dataset.wide ?? 0) + 1;
      group.style.setProperty("--wide", group.dataset.wide);
      const r = el("th", "", (col.routers[row] || "–") + run(row));
      r.title = setting(row);
      below.append(r);
    }
    const fits = new Set(shown);
    for (const k of here) body.append(line(k, fits));
    thead.append(top, below);
    node.append(thead, body);
    body.querySelector("button").tabIndex = 0;
    node.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      const from = event.target.closest("button.c");
      if (!by || !from) return;
      event.preventDefault();
      const rows = [...body.querySelectorAll("tr.line")], cell = from.parentElement;
      const next = rows[rows.indexOf(cell.parentElement) + by[0]]?.cells[cell.cellIndex + by[1]]?.querySelector("button");
      if (!next) return;
      from.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
    return node;
  };
  const line = (k, fits) => {
    const node = el("tr", "line"), q = head.questions[col.question[first[k]]];
    const title = el("th", "", q[2] >= 0 ? `${q[1]}  ${oneLine(text(q[2]), 130)}` : q[1]);
    title.scope = "row";
    if (head.models.length > 1) title.prepend(el("span", "muted", `${head.models[col.model[first[k]]]}  `));
    node.append(title);
    const cells = settings.map(() => el("td"));
    for (let i = first[k]; i < first[k + 1]; i++) {
      const move = transitionClass(col.transition[i]);
      const square = el("button", "c " + (move === "x-same" ? stateClass(col.state[i]) : move), GLYPHS[col.state[i]]);
      if (head.transitions[col.transition[i]] === "clean baseline") square.classList.add("base");
      if (!fits.has(i)) square.classList.add("off");
      square.type = "button";
      square.tabIndex = -1;
      square.dataset.row = i;
      square.title = `${setting(i)}: ${head.states[col.state[i]]}, ${head.transitions[col.transition[i]]}`;
      square.setAttribute("aria-label", `${q[1]}, ${square.title}`);
      square.setAttribute("aria-expanded", "false");
      square.addEventListener("click", () => {
        const was = square.getAttribute("aria-expanded") === "true";
        close();
        if (!was) {
          const under = el("tr"), wide = el("td", "under");
          wide.colSpan = settings.length + 1;
          wide.append(detail(i));
          under.append(wide);
          node.after(under);
          square.setAttribute("aria-expanded", "true");
          opened = i;
        }
        keep();
      });
      cells[places.get(code(i))].append(square);
    }
    node.append(...cells);
    return node;
  };
  const close = () => { // one answer is open at a time, in the grid
    opened = -1;
    grid.querySelector("td.under")?.parentElement.remove();
    grid.querySelector('[aria-expanded="true"]')?.setAttribute("aria-expanded", "false");
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
    button.append(el("span", transitionClass(col.transition[i]), head.transitions[col.transition[i]]));
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      if (open) item.lastElementChild.remove(); else item.append(detail(i));
      opened = open ? -1 : i;
      keep();
    });
    item.append(button);
    return item;
  };

  const pre = (content, label) => {
    const node = el("pre", "", content);
    node.tabIndex = 0;
    node.setAttribute("role", "region");
    node.setAttribute("aria-label", label);
    return node;
  };
  const detail = (i) => {
    const q = head.questions[col.question[i]];
    const left = el("div"), right = el("div");
    const start = col.offset[i], end = col.offset[i + 1], hasText = end > start, count = col.messages[i];
    left.append(el("h4", "", "The question as published"));
    left.append(el("p", "muted small", `${head.benchmarks[q[0]]} · ${q[1]}${q[5] === q[1] ? "" : " · group " + q[5]}`));
    if (q[2] >= 0) left.append(el("p", "qtext", text(q[2])));
    const options = el("ol", "options");
    const scores = logprobs.get(i);
    const total = Array.isArray(q[3]) ? q[3].length : q[3];
    for (let k = 0; k < total; k++) {
      const line = el("li", k === q[4] ? "gold" : "", `${letter(k)}  ${Array.isArray(q[3]) ? text(q[3][k]) : ""}`);
      const tags = [];
      if (k === q[4]) tags.push("✓ right answer");
      if (k === col.answer[i]) tags.push("← the model's answer");
      if (scores && scores[k] !== null && scores[k] !== undefined) tags.push(`log-probability ${scores[k].toFixed(2)}`);
      if (tags.length) line.append(el("span", "tag", tags.join(" · ")));
      options.append(line);
    }
    left.append(options);
    const state = head.states[col.state[i]], fact = head.facts[col.fact[i]];
    left.append(el("h4", "", "The answer"));
    const given = col.answer[i] < 0 ? "no answer could be read" : `answer ${letter(col.answer[i])}`;
    left.append(el("p", stateClass(col.state[i]), `${GLYPHS[col.state[i]]} ${state}: ${given}, right is ${letter(q[4])}. ` +
      `Against the clean baseline: ${head.transitions[col.transition[i]]}.`));
    if (hasText) {
      const error = text(col.refs[start + count + 1]);
      if (error) left.append(el("p", "o-none", `Error: ${error}`));
      const response = text(col.refs[start + count]);
      if (response) left.append(pre(response, "What the worker replied"));
      else if (scores) left.append(el("p", "muted small", "Options were scored by their likelihood; nothing was generated."));
      else left.append(el("p", "muted small", "The reply was empty."));
    }
    left.append(el("p", "muted small", `Read as ${fact[0]}; ended by ${fact[1]}; model revision ${fact[2] || "unknown"}` +
      (fact[3] ? `; router messages: ${fact[3]}` : "")));
    left.append(el("h4", "", "The same question in every setting of this model"));
    const chips = el("div", "chips");
    for (let k = first[lineOf[i]]; k < first[lineOf[i] + 1]; k++) {
      const chip = el("button", stateClass(col.state[k]), `${GLYPHS[col.state[k]]} ${setting(k)}`);
      chip.type = "button";
      chip.setAttribute("aria-pressed", String(k === i));
      chip.addEventListener("click", (event) => {
        const old = event.currentTarget.closest(".detail");
        const fresh = detail(k);
        opened = k;
        keep();
        old.replaceWith(fresh);
        fresh.querySelector('[aria-pressed="true"]').focus({ preventScroll: true });
      });
      chips.append(chip);
    }
    left.append(chips);
    right.append(el("h4", "", `${setting(i)}, ${head.models[col.model[i]]}`));
    if (!hasText) {
      right.append(el("p", "muted", "The texts of this question are not on this page; they are in the shards."));
    } else {
      if (count === 0) right.append(el("p", "muted small", "No router: the worker saw the question itself."));
      // What a router was asked to pass on: the question, with its options where the worker is to see them.
      const published = q[2] < 0 ? "" : [text(q[2]), ...(fact[4] && Array.isArray(q[3])
        ? q[3].map((ref, k) => `${letter(k)}. ${text(ref)}`) : [])].join("\n");
      if (count > 0) right.append(el("p", "muted small", "Against the question as published: marked words are new, struck-out ones are gone."));
      for (let k = 0; k < count; k++) {
        right.append(el("h4", "", count > 1 ? `Router message ${k + 1} of ${count}` : "Router message"));
        const message = text(col.refs[start + k]), nodes = q[2] >= 0 ? wordDiff(published, message) : null;
        const shownMessage = pre(nodes ? "" : message || "(empty)", `Router message ${k + 1}`);
        if (nodes) shownMessage.append(...nodes);
        right.append(shownMessage);
      }
      right.append(el("h4", "", "What the worker saw"));
      let prompt = "";
      for (let k = start + count + 2; k < end; k++) prompt += text(col.refs[k]);
      right.append(pre(prompt, "What the worker saw"));
    }
    const box = el("div", "detail");
    box.append(left, right);
    return box;
  };

  // Text search: chunk by chunk, so that the page never stands still; a new word stops the old search.
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
})();
