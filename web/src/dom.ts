// Elements are made here and nowhere else. Whatever comes from a trace enters a page as text of a
// node or value of an attribute that cannot run, never as markup.

type Child = Node | string | null | undefined | false;
type Attributes = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** An element with classes (`class`), attributes, and children; strings become text. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  append(element, children);
  return element;
}

const SVG = 'http://www.w3.org/2000/svg';

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: readonly Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, tag);
  setAttributes(element, attributes);
  append(element, children);
  return element;
}

function setAttributes(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) {
      continue;
    }
    element.setAttribute(name, value === true ? '' : String(value));
  }
}

function append(element: Element, children: readonly Child[]): void {
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) {
      element.append(child);
    }
  }
}

export function clear(element: Element): void {
  element.replaceChildren();
}

export function button(text: string, onClick: () => void, attributes: Attributes = {}) {
  const element = h('button', { type: 'button', ...attributes }, text);
  element.addEventListener('click', onClick);
  return element;
}

/** A section with a heading; `id` lets links lead to it. */
export function section(title: string, ...children: readonly Child[]): HTMLElement {
  return h('section', { class: 'block' }, h('h2', {}, title), ...children);
}

/** What stands in place of a chart that the trace has no data for. */
export function absent(reason: string): HTMLElement {
  return h('p', { class: 'absent' }, reason);
}

/** Says what is in `element` without its pixels: a table, made when it is first opened. */
export function twin(summary: string, make: () => Node): HTMLDetailsElement {
  const details = h('details', { class: 'twin' }, h('summary', {}, summary));
  details.addEventListener('toggle', () => {
    if (details.open && details.childElementCount === 1) {
      details.append(make());
    }
  });
  return details;
}

export interface PlainColumn {
  readonly title: string;
  readonly isNumber?: boolean;
}

/** A short table that needs neither sorting nor scrolling. */
export function plainTable(
  caption: string,
  columns: readonly PlainColumn[],
  rows: readonly (readonly (string | Node)[])[],
): HTMLElement {
  const head = columns.map((column) =>
    h('th', { scope: 'col', class: column.isNumber ? 'number' : null }, column.title),
  );
  const body = rows.map((row) =>
    h(
      'tr',
      {},
      ...row.map((cell, i) => h('td', { class: columns[i]?.isNumber ? 'number' : null }, cell)),
    ),
  );
  return h(
    'div',
    { class: 'scroll-x', tabindex: 0, role: 'region', 'aria-label': caption },
    h(
      'table',
      { class: 'plain' },
      h('caption', { class: 'unseen' }, caption),
      h('thead', {}, h('tr', {}, ...head)),
      h('tbody', {}, ...body),
    ),
  );
}
