// A table of any number of rows: filtered, sorted, and drawn a page at a time. A row that stays keeps its elements, so
// that neither the focus nor a button under the pointer is lost when new figures come every second.
const PAGE = 20;

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export class Table {
  // columns: {name, title, text(row), value(row), number, minor, level(row)}; actions(row, key) makes the last cell's buttons.
  constructor(place, { label, columns, key, actions, empty, sort, descending = false }) {
    Object.assign(this, { columns, key, actions, empty });
    this.sort = columns.find((each) => each.name === sort) ?? columns[0];
    this.descending = descending;
    this.rows = [];
    this.page = 0;
    this.drawn = new Map();
    this.search = element("input", { type: "search", placeholder: "Filter", className: "filter" });
    this.search.setAttribute("aria-label", `Filter ${label}`);
    this.search.addEventListener("input", () => this.turn(0));
    this.before = element("button", { type: "button", textContent: "‹", onclick: () => this.turn(this.page - 1) });
    this.after = element("button", { type: "button", textContent: "›", onclick: () => this.turn(this.page + 1) });
    this.before.setAttribute("aria-label", `Previous page of ${label}`);
    this.after.setAttribute("aria-label", `Next page of ${label}`);
    this.where = element("span", { className: "where" });
    this.heads = columns.map((column) => this.head(column));
    const head = element("tr", {}, ...this.heads);
    if (actions) head.append(element("th", {}, element("span", { className: "hidden", textContent: "Actions" })));
    this.body = element("tbody");
    const table = element("table", {}, element("caption", { className: "hidden", textContent: label }));
    table.append(element("thead", {}, head), this.body);
    this.nothing = element("p", { className: "nothing", textContent: empty });
    this.pager = element("div", { className: "pager" }, this.where, this.before, this.after);
    this.strip = element("div", { className: "strip" }, this.search, this.pager);
    place.append(this.strip, element("div", { className: "scroll" }, table), this.nothing);
    this.table = table;
  }

  head(column) {
    const button = element("button", { type: "button", textContent: column.title });
    button.addEventListener("click", () => {
      this.descending = this.sort === column ? !this.descending : Boolean(column.number);
      this.sort = column;
      this.turn(0);
    });
    return element("th", { className: classes(column), scope: "col" }, button);
  }

  set(rows) {
    this.rows = rows;
    this.draw();
  }

  turn(page) {
    this.page = page;
    this.draw();
  }

  chosen() {
    const wanted = this.search.value.trim().toLowerCase();
    const found = wanted
      ? this.rows.filter((row) => this.columns.some((each) => String(each.text(row)).toLowerCase().includes(wanted)))
      : [...this.rows];
    const value = this.sort.value ?? this.sort.text;
    const sign = this.descending ? -1 : 1;
    return found.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      return x < y ? -sign : x > y ? sign : 0;
    });
  }

  draw() {
    const found = this.chosen();
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    this.page = Math.min(Math.max(0, this.page), pages - 1);
    const start = this.page * PAGE;
    const shown = found.slice(start, start + PAGE);
    const wanted = new Map(shown.map((row) => [String(this.key(row)), row]));
    for (const [key, drawn] of this.drawn) {
      if (!wanted.has(key)) {
        drawn.line.remove();
        this.drawn.delete(key);
      }
    }
    let previous = null;
    for (const [key, row] of wanted) {
      const { line } = this.drawn.get(key) ?? this.add(key);
      this.fill(this.drawn.get(key), row);
      const next = previous ? previous.nextSibling : this.body.firstChild;
      if (next !== line) this.body.insertBefore(line, next);
      previous = line;
    }
    this.heads.forEach((head, place) => {
      const sorted = this.columns[place] === this.sort ? (this.descending ? "descending" : "ascending") : "none";
      head.setAttribute("aria-sort", sorted);
    });
    const last = start + shown.length;
    this.where.textContent = found.length ? `${start + 1}–${last} of ${found.length}` : "";
    this.before.disabled = this.page === 0;
    this.after.disabled = this.page >= pages - 1;
    this.strip.hidden = this.rows.length <= 5 && !this.search.value;
    this.pager.hidden = found.length <= PAGE;
    this.table.hidden = !found.length;
    this.nothing.hidden = Boolean(found.length);
    this.nothing.textContent = this.rows.length ? "Nothing matches." : this.empty;
  }

  add(key) {
    const cells = this.columns.map((column) => element("td", { className: classes(column) }));
    const line = element("tr", {}, ...cells);
    const drawn = { line, cells, row: null, last: null };
    if (this.actions) {
      drawn.last = element("td", { className: "buttons" });
      line.append(drawn.last);
    }
    this.drawn.set(key, drawn);
    return drawn;
  }

  fill(drawn, row) {
    const first = drawn.row === null;
    drawn.row = row;
    this.columns.forEach((column, place) => {
      const cell = drawn.cells[place];
      const text = String(column.text(row) ?? "");
      if (cell.textContent !== text) {
        cell.textContent = text;
        if (column.clip || column.long) cell.title = text;
      }
      const level = column.level?.(row) ?? "";
      if (cell.dataset.level !== level) cell.dataset.level = level;
    });
    if (!this.actions) return;
    if (first) {
      drawn.buttons = this.actions.map(({ title, act, danger }) => {
        const button = element("button", { type: "button", className: danger ? "act danger" : "act" });
        button.addEventListener("click", () => act(drawn.row));
        drawn.last.append(button);
        return button;
      });
    }
    this.actions.forEach(({ title, hidden }, place) => {
      const button = drawn.buttons[place];
      const name = typeof title === "function" ? title(row) : title;
      if (button.textContent !== name) {
        button.textContent = name;
        button.setAttribute("aria-label", `${name} ${this.key(row)}`);
      }
      button.hidden = Boolean(hidden?.(row));
    });
  }
}

function classes(column) {
  return [column.number && "number", column.minor && "minor", column.long && "long", column.clip && "clip"].filter(Boolean).join(" ");
}

export { element };
