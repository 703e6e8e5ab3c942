// Elements of text. No function parses a string as markup: texts of routers and people stay text.

/**
 * Rows that a table has before the user scrolls to further ones. With more than ROWS_AT_REST rows,
 * a table keeps their order for REST_MS.
 */
const ROWS_AT_FIRST = 100;
const ROWS_AT_REST = 30;
const REST_MS = 5000;

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An element with attributes (`onclick` and the like are listeners) and children. */
export const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

/** The same for SVG. */
export const s = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Sets the text of an element, if it differs. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** The classes of a column's cells; none if there is none. */
const classes = (name, column) => [name, column.isExtra ? "extra" : ""].filter(Boolean).join(" ") || undefined;

/**
 * A table whose rows are kept by key: an update writes only cells that differ.
 * columns: {label, number, key(row) to sort by, text(row) or cell(row, td), className, width in rem,
 * isExtra: left out in a narrow window}
 * If columns have widths, a changed cell moves no other one, which matters for many rows.
 */
export class Table {
  constructor({ label, columns, keyOf, sort = null, descending = true, empty = "Nothing." }) {
    Object.assign(this, { columns, keyOf, sort, descending, rowsShown: ROWS_AT_FIRST });
    this.rows = new Map();
    this.heads = columns.map((column, index) => {
      const className = classes(column.number ? "num" : "", column);
      if (!column.key) return h("th", { scope: "col", class: className }, h("span", {}, column.label));
      const button = h("button", { type: "button", onclick: () => this.order(index) }, column.label);
      return h("th", { scope: "col", class: className }, button);
    });
    this.body = h("tbody");
    this.none = h("p", { class: "empty", hidden: true }, empty);
    this.more = h("p", { class: "empty", hidden: true });
    const widths = columns.map((column) => column.width).filter(Boolean);
    const cols = columns.filter((column) => column.width).map((column) => {
      const col = h("col", { class: classes(column.className, column) });
      col.style.width = `${column.width}rem`;
      return col;
    });
    const table = h("table", { class: widths.length ? "fixed" : undefined }, widths.length ? h("colgroup", {}, cols) : null, h("thead", {}, h("tr", {}, this.heads)), this.body);
    if (widths.length) table.style.minWidth = `${widths.reduce((sum, width) => sum + width, 0)}rem`;
    this.element = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label, onscroll: () => this.scrolled() }, table, this.none, this.more);
    this.showOrder();
  }

  /** Scrolling near the end adds further rows. */
  scrolled() {
    const { scrollTop, clientHeight, scrollHeight } = this.element;
    if (this.last.length <= this.rowsShown || scrollTop + clientHeight < scrollHeight - 300) return;
    this.rowsShown += ROWS_AT_FIRST;
    this.update(this.last);
  }

  /** Whether the rows keep their order: rows that move at each update cannot be read. */
  isSettled(items) {
    return this.places !== undefined && items.length > ROWS_AT_REST && Date.now() - this.sortedAt < REST_MS;
  }

  order(index) {
    this.descending = this.sort === index ? !this.descending : this.columns[index].number === true;
    this.sort = index;
    this.showOrder();
    this.places = undefined;
    this.update(this.last);
  }

  showOrder() {
    this.heads.forEach((head, index) => {
      if (index === this.sort) head.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  update(items) {
    this.last = items;
    const column = this.columns[this.sort];
    let ordered = items;
    if (column && this.isSettled(items)) {
      ordered = [...items].sort((a, b) => (this.places.get(this.keyOf(a)) ?? Infinity) - (this.places.get(this.keyOf(b)) ?? Infinity));
    } else if (column) {
      const sign = this.descending ? -1 : 1;
      const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
      ordered = items.map((item, place) => [item, column.key(item), place]);
      ordered.sort((a, b) => sign * compare(a[1], b[1]) || a[2] - b[2]);
      ordered = ordered.map(([item]) => item);
      this.sortedAt = Date.now();
      this.places = new Map(ordered.map((item, place) => [this.keyOf(item), place]));
    }
    const seen = new Set();
    let at = this.body.firstChild;
    for (const item of ordered.slice(0, this.rowsShown)) {
      const key = this.keyOf(item);
      if (seen.has(key)) continue;
      seen.add(key);
      let row = this.rows.get(key);
      if (!row) this.rows.set(key, (row = this.makeRow()));
      this.fillRow(row, item);
      if (row.element === at) at = at.nextSibling;
      else this.body.insertBefore(row.element, at);
    }
    for (const [key, row] of this.rows) {
      if (!seen.has(key)) {
        row.element.remove();
        this.rows.delete(key);
      }
    }
    this.none.hidden = seen.size > 0;
    this.more.hidden = ordered.length <= this.rowsShown;
    if (!this.more.hidden) say(this.more, `${ordered.length - this.rowsShown} more: scroll on, or filter`);
  }

  makeRow() {
    const cells = this.columns.map((column) => h("td", { class: classes(column.number ? "num" : column.className, column) }));
    return { element: h("tr", {}, cells), cells, texts: [] };
  }

  fillRow(row, item) {
    row.item = item;
    this.columns.forEach((column, index) => {
      if (column.cell) {
        // Made once; it finds its item in the row.
        if (!row.texts[index]) {
          column.cell(row, row.cells[index]);
          row.texts[index] = true;
        }
        return;
      }
      const text = column.text(item);
      if (row.texts[index] === text) return;
      row.texts[index] = text;
      const cell = row.cells[index];
      if (column.kind) {
        cell.replaceChildren(h("span", { class: `kind k-${column.kind(item)}` }, text));
      } else {
        cell.textContent = text;
        if (column.number) cell.classList.toggle("zero", text === "0" || text === "–");
      }
    });
  }
}
