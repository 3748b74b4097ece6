// This script shows one answer: the question, the reply, and the words that each router changed.
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
    `Against the clean baseline: ${change(i)}.`));
  if (hasText) {
    const error = text(col.refs[start + count + 1]);
    if (error) left.append(el("p", "o-none", `Error: ${error}`));
    const response = text(col.refs[start + count]);
    if (response) left.append(pre(response, "What the worker replied"));
    else if (scores) left.append(el("p", "muted small", "The options were scored by their likelihood, without a generated reply."));
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
      nowOpen(k);
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
    if (count === 0) right.append(el("p", "muted small", "Without a router, the worker saw the question itself."));
    // The router was asked to pass on this text: the question, with its options if the worker may see them.
    const published = q[2] < 0 ? "" : [text(q[2]), ...(fact[4] && Array.isArray(q[3])
      ? q[3].map((ref, k) => `${letter(k)}. ${text(ref)}`) : [])].join("\n");
    if (count > 0) right.append(el("p", "muted small", "Compared with the published question, marked words are new and struck-out words are missing."));
    for (let k = 0; k < count; k++) {
      right.append(el("h4", "", k >= col.routers[i] ? "Summary of the messages"
        : col.routers[i] > 1 ? `Router message ${k + 1} of ${col.routers[i]}` : "Router message"));
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
