// The form of a review: what is chosen is kept in this browser, and saved as the jsonl that `review --read` takes.
const head = JSON.parse(byId("forms").dataset.head);
const rows = [...document.querySelectorAll("fieldset[data-id]")];
const chosen = (field) => field.querySelector("input:checked")?.value ?? "";
const key = `review ${head.library} ${head.n} ${head.seed}`;
const state = () => ({
  ...head,
  read_by: chosen(byId("read_by")),
  findings: Object.fromEntries(rows.map((row) => [row.dataset.id, chosen(row)])),
});
const count = () => {
  const read = rows.filter(chosen).length;
  byId("done").textContent = `${read} of ${rows.length} read`;
  byId("save").disabled = read < rows.length || !chosen(byId("read_by"));
};
const choose = (field, value) => {
  for (const input of field.querySelectorAll("input")) input.checked = input.value === value;
};
try {
  const kept = JSON.parse(localStorage.getItem(key) ?? "{}");
  choose(byId("read_by"), kept.read_by);
  for (const row of rows) choose(row, kept.findings?.[row.dataset.id]);
} catch { /* a browser that keeps nothing for files */ }
document.addEventListener("change", () => {
  try { localStorage.setItem(key, JSON.stringify(state())); } catch { /* the same */ }
  count();
});
byId("save").addEventListener("click", () => {
  const { findings, ...first } = state();
  const lines = [first, ...Object.entries(findings).map(([id, finding]) => ({ id, finding }))];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(lines.map((line) => JSON.stringify(line) + "\n"), { type: "text/plain" }));
  link.download = `review-${head.library.slice(0, 12)}.jsonl`;
  link.click();
});
count();
