"use strict";
// What every page's script begins with: names for elements, a choice that stands in the address, and what is printed.
const byId = (id) => document.getElementById(id);
const AT = "#questions?";
// The page of a run that goes on (`--follow`) is built again: a reload keeps what is chosen, which <meta> would not.
if (document.body.dataset.refresh) setTimeout(() => location.reload(), Number(document.body.dataset.refresh) * 1000);
// On a telephone a table of many columns becomes a block a row (page.css), and each number says what it is.
for (const table of document.querySelectorAll(".box > table:not([class])")) {
  const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
  if (heads.length < 3) continue;
  table.classList.add("flow");
  for (const row of table.tBodies[0].rows) {
    let at = heads.length; // from the right: the first cell of a row may belong to several
    for (const cell of [...row.cells].reverse()) if ((at -= cell.colSpan) && cell.tagName === "TD") cell.dataset.label = heads[at];
  }
}
// Printed, everything is open. A link into a folded section opens it.
window.addEventListener("beforeprint", () => {
  for (const node of document.querySelectorAll("details")) node.open = true;
});
const unfold = (id) => {
  const hit = id ? byId(id) : null;
  for (let node = hit?.querySelector(":scope > details") ?? hit; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
  return hit;
};
const follow = () => unfold(decodeURIComponent(location.hash.slice(1).split("?")[0]))?.scrollIntoView();
window.addEventListener("hashchange", follow);
document.addEventListener("click", (event) => { // the address may be the same as before
  const link = event.target.closest?.('a[href^="#"]');
  if (link) unfold(link.getAttribute("href").slice(1).split("?")[0]);
});
unfold(decodeURIComponent(location.hash.slice(1).split("?")[0]));
// A click on a column's name sorts by it. Tables of which a cell belongs to several rows stay as they are.
const valueOf = (row, at) => {
  const text = row.cells[at]?.textContent.trim() ?? "", found = /^[<≤]?\s*([+\-−]?[\d,]*\.?\d+)/.exec(text);
  return [found ? Number(found[1].replace(/,/g, "").replace("−", "-")) : NaN, text];
};
const sort = (table, at, head) => {
  const down = head.getAttribute("aria-sort") === "ascending", body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [valueOf(row, at), row]);
  const numbers = rows.some(([[number]]) => !Number.isNaN(number));
  rows.sort(([[x, a]], [[y, b]]) => { // what is no number stands last, either way
    const order = numbers && x !== y ? x - y : a.localeCompare(b); // alike to a number: dates of a year
    return Number.isNaN(order) ? Number.isNaN(x) - Number.isNaN(y) : down ? -order : order;
  });
  for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...rows.map(([, row]) => row));
};
const save = (name, url) => {
  const link = document.createElement("a");
  link.download = name.toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_|_$/g, "");
  link.download = link.download.replace(/_(csv|png)$/, ".$1");
  link.href = url;
  link.click();
};
const csv = (table) => [...table.rows].map((row) => [...row.cells].map((cell) => {
  const text = cell.textContent.trim().replace(/\s+/g, " ");
  const safe = /^[=+@\t\r-]/.test(text) && Number.isNaN(Number(text)) ? "'" + text : text; // no formula of a spreadsheet's
  return `"${safe.replace(/"/g, '""')}"`;
}).join(",")).join("\r\n");
const png = (svg, name) => {
  const image = new Image(), scale = 2, box = svg.viewBox.baseVal;
  image.onload = () => {
    const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
    [canvas.width, canvas.height] = [box.width * 1.25 * scale, box.height * 1.25 * scale];
    pen.fillStyle = "#fff";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    save(name, canvas.toDataURL("image/png"));
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(new XMLSerializer().serializeToString(svg));
};
const button = (text, label, act) => {
  const node = document.createElement("button");
  node.type = "button";
  node.className = "get";
  node.textContent = text;
  node.setAttribute("aria-label", label);
  node.addEventListener("click", act);
  return node;
};
for (const box of document.querySelectorAll(".box")) {
  const table = box.querySelector(":scope > table:not(.strip)"), svg = box.querySelector("svg.fig"), name = box.getAttribute("aria-label");
  if (svg) box.append(button("png", `Download the figure ${name} as png`, () => png(svg, `${name} png`)));
  if (!table?.tHead || table.tBodies[0].rows.length < 2) continue;
  box.after(button("csv", `Download the table ${name} as csv`, () => save(`${name} csv`, "data:text/csv;charset=utf-8," + encodeURIComponent(csv(table)))));
  if (table.querySelector("[rowspan], thead [colspan]")) continue;
  [...table.tHead.rows[0].cells].forEach((head, at) => {
    const inside = document.createElement("button");
    inside.type = "button";
    inside.append(...head.childNodes);
    inside.addEventListener("click", () => sort(table, at, head));
    head.append(inside);
  });
}
// control: name -> select; beside them the text that is looked for. A link shows the same lines.
const remember = (control, more = {}) => {
  const at = new URLSearchParams();
  for (const [name, select] of Object.entries(control)) if (select.value !== "") at.set(name, select.value);
  if (byId("f-text").value) at.set("text", byId("f-text").value);
  for (const [name, value] of Object.entries(more)) if (value) at.set(name, value);
  if (at.size || location.hash.startsWith(AT)) history.replaceState(null, "", at.size ? AT + at : "#questions");
};
const recall = (control) => {
  if (!location.hash.startsWith(AT)) return undefined;
  const at = new URLSearchParams(location.hash.slice(AT.length));
  for (const [name, select] of Object.entries(control)) select.value = at.get(name) ?? "";
  for (const select of Object.values(control)) if (select.selectedIndex < 0) select.value = ""; // unknown: all
  byId("f-text").value = at.get("text") ?? "";
  unfold("questions").scrollIntoView();
  return at;
};
const controls = (names) => Object.fromEntries(names.map((name) => [name, byId("f-" + name)]));
// change: after a select; look: after a text, a cleared form, or a link, whose parameters it is then given.
const listen = (control, change, look) => {
  let timer = 0;
  byId("f-text").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => look(), 150);
  });
  for (const select of Object.values(control)) select.addEventListener("change", () => change());
  byId("drill-form").addEventListener("submit", (event) => event.preventDefault());
  byId("clear").addEventListener("click", () => {
    byId("drill-form").reset();
    look();
  });
  window.addEventListener("hashchange", () => {
    const at = recall(control);
    if (at) look(at);
  });
  const copy = byId("copy");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      copy.textContent = "Copied";
      setTimeout(() => { copy.textContent = "Copy link"; }, 2000);
    } catch {
      window.prompt("Copy this link:", location.href); // where the browser lets no page write the clipboard
    }
  });
  look(recall(control));
  document.documentElement.dataset.ready = "true";
};
