// Shows the items that fit the filters; the list itself is in the page and is readable without this.
const control = controls(["state", "cell", "gate"]);
const items = Array.from(document.querySelectorAll("#items > li"));
const key = (item) => item.dataset.cell + "~" + item.dataset.id;
let opened = ""; // the item opened last
// at: what a link asks for beside the filters, the item that is open.
const filter = (at) => {
  const needle = byId("f-text").value.toLowerCase(), gate = control.gate.value && "gate-" + control.gate.value;
  let shown = 0;
  for (const item of items) {
    const marks = item.dataset.marks.split(" ");
    const fits = (!control.state.value || marks.includes(control.state.value)) && (!gate || marks.includes(gate))
      && (!control.cell.value || item.dataset.cell === control.cell.value)
      && (!needle || item.textContent.toLowerCase().includes(needle));
    item.hidden = !fits;
    shown += fits;
  }
  byId("count").textContent = shown + " of " + items.length + " items";
  const asked = at?.get("open"), item = asked && items.find((one) => !one.hidden && key(one) === asked);
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
