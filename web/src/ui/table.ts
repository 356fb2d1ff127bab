// A table of any length: only the rows in sight are in the document. Sorted by its headings,
// filtered by a text, walked by keys; a row opens to show its values in full.
import { button, h } from '../dom';
import { formatCount, NOTHING } from '../format';
import { shortName } from './names';

const ROW_HEIGHT = 30;
const ROWS_SPARE = 8;
const ROWS_SHOWN_MAX = 18;
const ROWS_PRINTED_MAX = 200;
const ROWS_UNFILTERED_MAX = 6; // so few are seen at a glance

export interface Column<T> {
  readonly key: string;
  readonly title: string;
  readonly value: (row: T) => string | number | boolean | null | undefined;
  /** How the value is written; by default as it is. */
  readonly text?: (row: T) => string;
  /** The column that says what a row is: wide, shortened for reading, searched by the filter. */
  readonly isName?: boolean;
  readonly help?: string;
}

export interface TableOptions<T> {
  readonly name: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  /** All rows there are, with those that are not among `rows`. */
  readonly total?: number;
  /** What is said of the others; by default that this file does not hold them. */
  readonly rest?: string;
  readonly sortBy?: string;
  readonly onOpen?: (row: T) => void;
  /** What to add below the values of an opened row. */
  readonly more?: (row: T) => Node | null;
  /** The filter to begin with. */
  readonly filter?: string;
}

let serial = 0;

export class Table<T> {
  readonly element: HTMLElement;
  private shown: readonly T[];
  private sortKey: string | null;
  private isDescending: boolean;
  private active = -1;
  private firstDrawn = -1;
  private lastDrawn = -1;
  private readonly id = `table${++serial}`;
  private readonly searchable: readonly string[];
  private readonly scroller = h('div', { class: 'table-scroll' });
  private readonly grid = h('table', { class: 'grid', role: 'grid', tabindex: 0 });
  private readonly body = h('tbody', {});
  private readonly above = h('tr', { class: 'spacer', 'aria-hidden': 'true' });
  private readonly below = h('tr', { class: 'spacer', 'aria-hidden': 'true' });
  private readonly count = h('span', { class: 'muted', role: 'status' });
  private readonly opened = h('div', { class: 'opened', 'aria-live': 'polite' });
  private readonly filter = h('input', { type: 'search', placeholder: 'Filter' });
  private readonly heads = new Map<string, HTMLTableCellElement>();

  constructor(private readonly options: TableOptions<T>) {
    this.sortKey = options.sortBy ?? null;
    this.isDescending = this.isNumericKey(this.sortKey);
    this.shown = options.rows;
    this.searchable = options.rows.map((row) =>
      options.columns
        .map((column) => column.value(row))
        .filter((value) => typeof value === 'string')
        .join('\n')
        .toLowerCase(),
    );
    this.element = h('div', { class: 'table-view' });
    this.build();
    this.setFilter(options.filter ?? '');
  }

  setFilter(text: string): void {
    this.filter.value = text;
    // A filter that hides rows is seen, so that it can be taken back.
    this.filter.hidden = text === '' && this.options.rows.length <= ROWS_UNFILTERED_MAX;
    this.refresh();
  }

  private build(): void {
    this.filter.setAttribute('aria-label', `Filter ${this.options.name}`);
    this.filter.addEventListener('input', () => this.refresh());
    this.grid.setAttribute('aria-label', this.options.name);
    this.grid.append(h('thead', {}, h('tr', {}, ...this.options.columns.map((c) => this.head(c)))));
    this.grid.append(this.body);
    this.grid.addEventListener('keydown', (event) => this.onKey(event));
    this.scroller.append(this.grid);
    this.scroller.addEventListener('scroll', () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.scroller);
    const self = new WeakRef(this); // a table whose report was replaced goes
    window.addEventListener('beforeprint', () => self.deref()?.drawRange(0, ROWS_PRINTED_MAX));
    window.addEventListener('afterprint', () => self.deref()?.draw(true));
    this.element.append(
      h('div', { class: 'toolbar' }, this.filter, this.count),
      this.scroller,
      this.opened,
    );
  }

  private head(column: Column<T>): HTMLTableCellElement {
    const isNumber = this.isNumeric(column);
    const sorter = button(column.title, () => this.sort(column.key), { title: column.help });
    const cell = h(
      'th',
      { scope: 'col', class: column.isName ? 'name' : isNumber ? 'number' : 'word' },
      sorter,
    );
    this.heads.set(column.key, cell);
    return cell;
  }

  private isNumeric(column: Column<T>): boolean {
    const sample = this.options.rows.find((row) => column.value(row) != null);
    return sample !== undefined && typeof column.value(sample) === 'number';
  }

  private isNumericKey(key: string | null): boolean {
    return this.options.columns.some((column) => column.key === key && this.isNumeric(column));
  }

  /** Numbers begin with the largest, words with the first. */
  private sort(key: string): void {
    this.isDescending = this.sortKey === key ? !this.isDescending : this.isNumericKey(key);
    this.sortKey = key;
    this.refresh();
  }

  private refresh(): void {
    const text = this.filter.value.trim().toLowerCase();
    const { rows, columns } = this.options;
    const kept =
      text === '' ? [...rows] : rows.filter((_, i) => this.searchable[i]?.includes(text));
    const column = columns.find((each) => each.key === this.sortKey);
    if (column) {
      const sign = this.isDescending ? -1 : 1;
      kept.sort((a, b) => sign * compare(column.value(a), column.value(b), sign));
    }
    this.shown = kept;
    this.active = -1;
    this.opened.replaceChildren();
    this.scroller.scrollTop = 0;
    for (const [key, head] of this.heads) {
      const order = key !== this.sortKey ? 'none' : this.isDescending ? 'descending' : 'ascending';
      head.setAttribute('aria-sort', order);
    }
    this.grid.setAttribute('aria-rowcount', String(kept.length + 1));
    this.say();
    const height = Math.min(kept.length, ROWS_SHOWN_MAX) * ROW_HEIGHT + ROW_HEIGHT + 6;
    this.scroller.style.height = `${height}px`;
    this.draw(true);
  }

  private say(): void {
    const { rows, total = rows.length, rest = 'are not in this file' } = this.options;
    const isFiltered = this.shown.length !== rows.length;
    const of = isFiltered ? `${formatCount(this.shown.length)} of ` : '';
    const more = total - rows.length;
    this.count.textContent =
      `${of}${formatCount(rows.length)} ${rows.length === 1 ? 'row' : 'rows'}` +
      (more > 0 ? `; ${formatCount(more)} more ${rest}` : '');
  }

  private draw(isAll = false): void {
    const room = this.scroller.clientHeight || ROWS_SHOWN_MAX * ROW_HEIGHT;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW_HEIGHT) - ROWS_SPARE);
    const last = Math.min(this.shown.length, first + Math.ceil(room / ROW_HEIGHT) + ROWS_SPARE * 2);
    if (isAll || first !== this.firstDrawn || last !== this.lastDrawn) {
      this.drawRange(first, last);
    }
  }

  private drawRange(first: number, wanted: number): void {
    const last = Math.min(wanted, this.shown.length);
    this.firstDrawn = first;
    this.lastDrawn = last;
    const rows: HTMLElement[] = [];
    for (let i = first; i < last; i++) {
      const row = this.shown[i];
      if (row !== undefined) {
        rows.push(this.makeRow(row, i));
      }
    }
    this.above.style.height = `${first * ROW_HEIGHT}px`;
    this.below.style.height = `${(this.shown.length - last) * ROW_HEIGHT}px`;
    this.body.replaceChildren(this.above, ...rows, this.below);
    this.sayActive();
  }

  private makeRow(row: T, index: number): HTMLElement {
    const element = h('tr', {
      id: `${this.id}r${index}`,
      'aria-rowindex': index + 2,
      'aria-selected': index === this.active ? 'true' : 'false',
      class: index % 2 === 1 ? 'odd' : null,
    });
    for (const column of this.options.columns) {
      element.append(this.makeCell(row, column));
    }
    element.addEventListener('click', () => {
      this.setActive(index);
      this.open();
    });
    return element;
  }

  private makeCell(row: T, column: Column<T>): HTMLElement {
    const value = column.value(row);
    const text = column.text ? column.text(row) : textOf(value);
    if (!column.isName) {
      return h('td', { class: typeof value === 'number' ? 'number' : 'word', title: text }, text);
    }
    const short = shortName(text);
    return h(
      'td',
      { class: 'name', title: text },
      h('span', { class: 'short' }, short),
      short !== text && h('span', { class: 'muted' }, ` ${text}`),
    );
  }

  private setActive(index: number): void {
    this.active = Math.max(0, Math.min(index, this.shown.length - 1));
    const top = this.active * ROW_HEIGHT;
    const room = this.scroller.clientHeight - ROW_HEIGHT * 2;
    if (top < this.scroller.scrollTop) {
      this.scroller.scrollTop = top;
    } else if (top > this.scroller.scrollTop + room) {
      this.scroller.scrollTop = top - room;
    }
    this.draw(true);
  }

  private sayActive(): void {
    const isDrawn = this.active >= this.firstDrawn && this.active < this.lastDrawn;
    if (isDrawn) {
      this.grid.setAttribute('aria-activedescendant', `${this.id}r${this.active}`);
    } else {
      this.grid.removeAttribute('aria-activedescendant');
    }
  }

  private onKey(event: KeyboardEvent): void {
    if (event.target !== this.grid) {
      return; // a heading has its own keys
    }
    const moves: Record<string, number> = {
      ArrowDown: this.active + 1,
      ArrowUp: this.active - 1,
      PageDown: this.active + ROWS_SHOWN_MAX - 1,
      PageUp: this.active - ROWS_SHOWN_MAX + 1,
      Home: 0,
      End: this.shown.length - 1,
    };
    const to = moves[event.key];
    if (to !== undefined) {
      event.preventDefault();
      this.setActive(to);
    } else if (event.key === 'Enter' && this.active >= 0) {
      event.preventDefault();
      this.open();
    }
  }

  private open(): void {
    const row = this.shown[this.active];
    if (row === undefined) {
      return;
    }
    const { columns, more, onOpen } = this.options;
    const name = columns.find((column) => column.isName);
    this.opened.replaceChildren(
      h('h3', { class: 'name' }, name ? textOf(name.value(row)) : this.options.name),
      h(
        'dl',
        { class: 'facts' },
        ...columns
          .filter((column) => !column.isName)
          .map((column) =>
            h(
              'div',
              {},
              h('dt', {}, column.title),
              h('dd', {}, column.text ? column.text(row) : textOf(column.value(row))),
            ),
          ),
      ),
      ...[more?.(row) ?? null].filter((node) => node !== null),
    );
    this.opened.scrollIntoView({ block: 'nearest' });
    onOpen?.(row);
  }
}

function textOf(value: unknown): string {
  if (value === null || value === undefined || value === '') {
    return NOTHING;
  }
  return typeof value === 'boolean' ? (value ? 'yes' : 'no') : String(value);
}

/** What is missing comes last, in either order. */
function compare(a: unknown, b: unknown, sign: number): number {
  const isMissingA = a === null || a === undefined;
  const isMissingB = b === null || b === undefined;
  if (isMissingA || isMissingB) {
    return sign * (Number(isMissingA) - Number(isMissingB));
  }
  if (typeof a === 'number' && typeof b === 'number') {
    return a - b;
  }
  return String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
}
