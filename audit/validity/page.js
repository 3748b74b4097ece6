"use strict";
// Shows the items that fit the filters, and a blurred text once it is clicked; the list is readable without the filters.
const state = document.getElementById("f-state"), cell = document.getElementById("f-cell");
const text = document.getElementById("f-text"), counter = document.getElementById("count");
const items = Array.from(document.querySelectorAll("#items > li"));
function filter() {
  const needle = text.value.toLowerCase();
  let shown = 0;
  for (const item of items) {
    const fits = (!state.value || item.dataset.marks.split(" ").includes(state.value))
      && (!cell.value || item.dataset.cell === cell.value)
      && (!needle || item.textContent.toLowerCase().includes(needle));
    item.hidden = !fits;
    shown += fits;
  }
  counter.textContent = shown + " of " + items.length + " items";
}
for (const field of [state, cell, text]) field.addEventListener("input", filter);
function reveal(event) {
  const hit = event.target.closest(".blur");
  if (!hit || hit.classList.contains("seen")) return;
  if (event.type === "keydown" && event.key !== "Enter") return;
  hit.classList.add("seen");
  event.preventDefault();
}
document.addEventListener("click", reveal);
document.addEventListener("keydown", reveal);
filter();
