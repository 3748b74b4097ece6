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
  byId("questions").scrollIntoView();
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
  window.addEventListener("beforeprint", () => {
    for (const node of document.querySelectorAll("details")) node.open = true;
  });
  look(recall(control));
  document.documentElement.dataset.ready = "true";
};
