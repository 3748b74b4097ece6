"use strict";
// Shows the items that fit the filters; the list itself is in the page and is readable without this.
const state = document.getElementById("f-state"), model = document.getElementById("f-model");
const text = document.getElementById("f-text"), counter = document.getElementById("count");
const items = Array.from(document.querySelectorAll("#items > li"));
function filter() {
  const needle = text.value.toLowerCase();
  let shown = 0;
  for (const item of items) {
    const fits = (!state.value || item.dataset.marks.split(" ").includes(state.value))
      && (!model.value || item.dataset.cell === model.value)
      && (!needle || item.textContent.toLowerCase().includes(needle));
    item.hidden = !fits;
    shown += fits;
  }
  counter.textContent = shown + " of " + items.length + " items";
}
for (const field of [state, model, text]) field.addEventListener("input", filter);
filter();
