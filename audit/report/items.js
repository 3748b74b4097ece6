// Shows the items that fit the filters; the list itself is in the page and is readable without this.
const control = controls(["state", "cell", "gate"]);
const items = Array.from(document.querySelectorAll("#items > li"));
const key = (item) => item.dataset.cell + "~" + item.dataset.id;
const PAGE = 25;
let opened = ""; // the item opened last
let found = items, page = 0;
const show = () => {
  const pages = Math.max(1, Math.ceil(found.length / PAGE));
  page = Math.min(Math.max(page, 0), pages - 1);
  const here = new Set(found.slice(page * PAGE, (page + 1) * PAGE));
  for (const item of items) item.hidden = !here.has(item);
  byId("page").textContent = `Page ${page + 1} of ${pages}`;
  byId("prev").disabled = page === 0;
  byId("next").disabled = page >= pages - 1;
};
const turn = (by) => {
  page += by;
  show();
  byId("count").scrollIntoView({ block: "nearest" });
};
byId("prev").addEventListener("click", () => turn(-1));
byId("next").addEventListener("click", () => turn(1));
// at: what a link asks for beside the filters, the item that is open.
const filter = (at) => {
  const needle = byId("f-text").value.toLowerCase(), gate = control.gate.value && "gate-" + control.gate.value;
  found = items.filter((item) => {
    const marks = item.dataset.marks.split(" ");
    return (!control.state.value || marks.includes(control.state.value)) && (!gate || marks.includes(gate))
      && (!control.cell.value || item.dataset.cell === control.cell.value)
      && (!needle || item.textContent.toLowerCase().includes(needle));
  });
  byId("count").textContent = found.length + " of " + items.length + " items";
  const asked = at?.get("open"), item = asked && found.find((one) => key(one) === asked);
  page = item ? Math.floor(found.indexOf(item) / PAGE) : 0;
  show();
  if (item) {
    opened = asked;
    item.querySelector("details").open = true;
    item.scrollIntoView({ block: "center" });
  }
  remember(control, { open: opened });
};
for (const item of items) {
  item.querySelector("summary").addEventListener("click", () => { // before it opens or closes
    opened = item.querySelector("details").open ? "" : key(item);
    remember(control, { open: opened });
  });
}
byId("drill-form").addEventListener("reset", () => { opened = ""; });
listen(control, filter, filter);
