// Shows the items that fit the filters; the list itself is in the page and is readable without this.
const control = controls(["state", "cell", "gate"]);
const items = Array.from(document.querySelectorAll("#items > li"));
const filter = () => {
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
  remember(control);
};
listen(control, filter, filter);
