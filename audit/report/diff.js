// The words of `other` as nodes: those that `original` does not have there are marked, those of `original` that went are
// struck out. As diff.py does while a page is built, for texts that are too many to be compared before one is opened.
// Without the struck-out words the nodes are `other` to the letter. null: the texts are too long to be compared.
const MAX_COMPARISONS = 4e6; // of two words; some tens of milliseconds
const wordDiff = (original, other) => {
  const a = original.match(/\S+/g) ?? [], parts = other.match(/\s*\S+/g) ?? [], b = parts.map((part) => part.trim());
  if (a.length * b.length > MAX_COMPARISONS) return null;
  const wide = b.length + 1, common = new Uint32Array((a.length + 1) * wide); // words in common from (i, j) on
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * wide + j] = a[i] === b[j] ? common[(i + 1) * wide + j + 1] + 1
        : Math.max(common[(i + 1) * wide + j], common[i * wide + j + 1]);
    }
  }
  const nodes = [];
  const add = (tag, text) => {
    const last = nodes.at(-1);
    if (last && last.nodeName === (tag ?? "#text")) {
      last.textContent += text;
      return;
    }
    const node = tag ? document.createElement(tag) : document.createTextNode("");
    node.textContent = text;
    nodes.push(node);
  };
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) add(null, parts[j++]), i++;
    else if (j === b.length || (i < a.length && common[(i + 1) * wide + j] >= common[i * wide + j + 1])) add("DEL", " " + a[i++]);
    else add("MARK", parts[j++]);
  }
  add(null, other.slice(other.trimEnd().length));
  return nodes;
};
