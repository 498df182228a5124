// What a page can do beyond being read: sort and filter tables, copy blocks, print what is folded away.
// A page without scripts lacks these controls and nothing else.
"use strict";

const LONG_ROWS = 12; // Tables of so many rows and more get a filter.

// A number where every known value of the column is one, else text; what is not known is null.
function column(rows, place) {
  const texts = rows.map((row) => {
    const cell = row.cells[place];
    return (cell?.dataset.value ?? cell?.textContent ?? "").trim();
  });
  const known = texts.map((text) => (text === "" || text === "-" ? null : text));
  const numeric = known.every((text) => text === null || Number.isFinite(Number(text)));
  return known.map((text) => (text !== null && numeric ? Number(text) : text));
}

function ascending(a, b) {
  if (typeof a === "number") return a - b;
  return a.localeCompare(b, "en", { numeric: true, sensitivity: "base" });
}

// Up, down, and back to the order that the report gives, which may mean something.
const NEXT = { none: "ascending", ascending: "descending", descending: "none" };

function sort(table, original, header, place) {
  const direction = NEXT[header.getAttribute("aria-sort") ?? "none"];
  table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
  const values = column(original, place);
  const order = original.map((_, index) => index);
  if (direction !== "none") {
    header.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    order.sort((a, b) => {
      if (values[a] === null || values[b] === null) return (values[a] === null) - (values[b] === null) || a - b;
      return sign * ascending(values[a], values[b]) || a - b;
    });
  }
  table.tBodies[0].append(...order.map((index) => original[index]));
}

function makeSortable(table) {
  const original = [...table.tBodies[0].rows];
  if (original.length < 2) return;
  [...table.tHead.rows[0].cells].forEach((header, place) => {
    if (header.textContent.trim() === "") return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => sort(table, original, header, place));
  });
}

function makeFilterable(table, scroller) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < LONG_ROWS) return;
  const controls = document.createElement("p");
  controls.className = "filter";
  const label = document.createElement("label");
  const which = document.createElement("span");
  which.className = "unseen";
  which.textContent = " of " + scroller.getAttribute("aria-label");
  const input = document.createElement("input");
  input.type = "search";
  label.append("Filter rows", which, " ", input);
  const count = document.createElement("output");
  count.textContent = rows.length + " rows";
  controls.append(label, count);
  scroller.before(controls);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = words.length ? shown + " of " + rows.length + " rows" : rows.length + " rows";
  });
}

document.querySelectorAll("table[data-sorts]").forEach((table) => {
  makeSortable(table);
  makeFilterable(table, table.closest(".scroll"));
});

document.querySelectorAll("button[data-copies]").forEach((button) => {
  if (!navigator.clipboard) return;
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copies).textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed here: select the text and copy it";
    }
  });
});

// Paper cannot be unfolded.
const unfolded = [];
addEventListener("beforeprint", () => {
  document.querySelectorAll("details:not([open])").forEach((folded) => {
    folded.open = true;
    unfolded.push(folded);
  });
});
addEventListener("afterprint", () => unfolded.splice(0).forEach((folded) => (folded.open = false)));
