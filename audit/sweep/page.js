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
  const ARM_WORDS = { direct: "direct", forward_full: "clean", noisy_rewrite: "noisy" };
  const setting = (i) => {
    const arm = head.arms[col.arm[i]];
    const r = arm === "direct" ? "" : ` r=${col.routers[i]}`;
    return ARM_WORDS[arm] + r + (col.replicate[i] ? ` #${col.replicate[i] + 1}` : "");
  };
  const GLYPHS = ["✓", "✗", "?", "…", "!"];
  const stateClass = (code) => (code === 0 ? "o-correct" : code === 1 ? "o-wrong" : "o-none");
  const transitionClass = (code) => (code === 0 ? "x-improve" : code === 1 ? "x-degrade" : "x-same");

  // Filters.
  const control = controls(["model", "benchmark", "arm", "routers", "state", "transition", "gate"]);
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
  const armLabels = { direct: "direct (no router)", forward_full: "clean: forward_full", noisy_rewrite: "noisy: noisy_rewrite" };
  const present = (column) => [...new Set(column)].sort((a, b) => a - b);
  fill(control.arm, present(col.arm).map((k) => [k, armLabels[head.arms[k]]]));
  fill(control.routers, present(col.routers).map((r) => [r, r === 0 ? "0 (direct)" : r]));
  fill(control.state, present(col.state).map((k) => [k, head.states[k]]));
  fill(control.transition, present(col.transition).map((k) => [k, head.transitions[k]]));
  fill(control.gate, [...new Set(head.gates.map((g) => g.name))].map((name) => {
    const all = head.gates.filter((g) => g.name === name);
    const failed = all.filter((g) => g.status === "fail").length;
    return [name, `${name.replaceAll("_", " ")} (${failed ? `failed for ${failed} of ${all.length}` : "not failed"})`];
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

  let hits = null; // rows whose texts hold the words looked for; null when none are
  let shown = new Uint32Array(0), page = 0;
  const apply = () => {
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
    page = 0;
    render();
    remember(control);
    byId("drill").dataset.ms = (performance.now() - start).toFixed(1);
  };

  const list = byId("rows");
  const render = () => {
    const pages = Math.max(1, Math.ceil(shown.length / PAGE));
    byId("count").textContent = `${format.format(shown.length)} of ${format.format(n)} answers`;
    byId("page").textContent = `Page ${format.format(page + 1)} of ${format.format(pages)}`;
    byId("prev").disabled = page === 0;
    byId("next").disabled = page >= pages - 1;
    const items = [];
    for (const i of shown.subarray(page * PAGE, (page + 1) * PAGE)) items.push(rowItem(i));
    if (!items.length) {
      const gate = control.gate.value;
      items.push(el("li", "empty", gate === "" ? "No answer fits these filters." :
        "No answer fits: this gate names no single question under these filters."));
    }
    list.replaceChildren(...items);
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
    for (let k = 0; k < n; k++) {
      if (col.question[k] !== col.question[i] || col.model[k] !== col.model[i]) continue;
      const chip = el("button", stateClass(col.state[k]), `${GLYPHS[col.state[k]]} ${setting(k)}`);
      chip.type = "button";
      chip.setAttribute("aria-pressed", String(k === i));
      chip.addEventListener("click", (event) => {
        const old = event.currentTarget.closest(".detail");
        const fresh = detail(k);
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
      for (let k = 0; k < count; k++) {
        right.append(el("h4", "", count > 1 ? `Router message ${k + 1} of ${count}` : "Router message"));
        right.append(pre(text(col.refs[start + k]) || "(empty)", `Router message ${k + 1}`));
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
  const look = async () => {
    const mine = ++search;
    const words = byId("f-text").value.trim().toLowerCase();
    const status = byId("searching");
    if (words === "") {
      hits = null;
      status.textContent = "";
      apply();
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
    apply();
  };
  const turn = (by) => {
    page += by;
    render();
    byId("count").scrollIntoView({ block: "nearest" });
  };
  byId("prev").addEventListener("click", () => turn(-1));
  byId("next").addEventListener("click", () => turn(1));
  listen(control, apply, look);
})();
