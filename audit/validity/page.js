// A blurred text is shown once it is clicked.
const reveal = (event) => {
  const hit = event.target.closest(".blur");
  if (!hit || hit.classList.contains("seen")) return;
  if (event.type === "keydown" && event.key !== "Enter") return;
  hit.classList.add("seen");
  event.preventDefault();
};
document.addEventListener("click", reveal);
document.addEventListener("keydown", reveal);
