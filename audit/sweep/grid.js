const grid = byId("grid");
// The grid has a line for each question in `here`, and a square for each setting. Arrow keys move between squares.
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
    if (move !== "x-same") square.style.setProperty("--share", `${pale(i) ? 15 + 0.3 * col.weight[i] : 100}%`);
    square.classList.toggle("pale", move !== "x-same" && pale(i));
    if (!fits.has(i)) square.classList.add("off");
    square.type = "button";
    square.tabIndex = -1;
    square.dataset.row = i;
    square.title = `${setting(i)}: ${head.states[col.state[i]]}, ${change(i)}`;
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
      }
      nowOpen(was ? -1 : i);
    });
    cells[places.get(code(i))].append(square);
  }
  node.append(...cells);
  return node;
};
const pale = (i) => col.weight[i] < 100; // whether the change holds against some clean runs only
const close = () => { // in the grid, only one answer is open at a time
  grid.querySelector("td.under")?.parentElement.remove();
  grid.querySelector('[aria-expanded="true"]')?.setAttribute("aria-expanded", "false");
};
