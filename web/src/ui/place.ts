// Where the reader is inside of a view, as far as the address does not say it: what is unfolded,
// filtered, sorted and scrolled. Taken from one element and put onto another that replaces it.

export interface Place {
  readonly y: number;
  readonly unfolded: readonly string[];
  readonly filters: readonly (readonly [string, string])[];
  readonly sorts: readonly (readonly [string, string, string])[];
  readonly scrolls: readonly number[];
  readonly focus: readonly number[] | null;
}

function summaryOf(details: HTMLDetailsElement): string {
  return details.querySelector('summary')?.textContent ?? '';
}

function inputsOf(element: HTMLElement): HTMLInputElement[] {
  return [...element.querySelectorAll<HTMLInputElement>('input[type="search"]')];
}

function sortOf(grid: Element): [string, string, string] | null {
  const head = grid.querySelector('th[aria-sort="ascending"], th[aria-sort="descending"]');
  const order = head?.getAttribute('aria-sort');
  return head && order ? [labelOf(grid), head.textContent ?? '', order] : null;
}

function labelOf(element: Element): string {
  return element.getAttribute('aria-label') ?? '';
}

/** The way from `root` to the element that has the keyboard. */
function wayToFocus(root: HTMLElement): number[] | null {
  const way: number[] = [];
  let at: Element | null = document.activeElement;
  while (at && at !== root) {
    const parent: Element | null = at.parentElement;
    way.unshift(parent ? [...parent.children].indexOf(at) : 0);
    at = parent;
  }
  return at ? way : null;
}

export function placeIn(element: HTMLElement): Place {
  const grids = [...element.querySelectorAll('table.grid')];
  return {
    y: window.scrollY,
    unfolded: [...element.querySelectorAll('details')].filter((d) => d.open).map(summaryOf),
    filters: inputsOf(element)
      .filter((input) => input.value !== '')
      .map((input) => [labelOf(input), input.value] as const),
    sorts: grids.map(sortOf).filter((sort) => sort !== null),
    scrolls: [...element.querySelectorAll('.table-scroll')].map((each) => each.scrollTop),
    focus: wayToFocus(element),
  };
}

export function putPlace(element: HTMLElement, place: Place): void {
  for (const details of element.querySelectorAll('details')) {
    details.open = place.unfolded.includes(summaryOf(details));
  }
  for (const input of inputsOf(element)) {
    const filter = place.filters.find(([label]) => label === labelOf(input));
    if (filter && filter[1] !== input.value) {
      input.value = filter[1];
      input.dispatchEvent(new Event('input'));
    }
  }
  place.sorts.forEach((sort) => putSort(element, sort));
  element.querySelectorAll('.table-scroll').forEach((each, i) => {
    each.scrollTop = place.scrolls[i] ?? 0;
  });
  window.scrollTo(0, place.y);
  putFocus(element, place.focus);
}

/** A heading sorts one way, and then the other. */
function putSort(element: HTMLElement, [label, title, order]: readonly [string, string, string]) {
  for (const grid of element.querySelectorAll('table.grid')) {
    const head = [...grid.querySelectorAll('th')].find((th) => th.textContent === title);
    for (let i = 0; i < 2 && labelOf(grid) === label && head; i++) {
      if (head.getAttribute('aria-sort') !== order) {
        head.querySelector('button')?.click();
      }
    }
  }
}

function putFocus(element: HTMLElement, way: readonly number[] | null): void {
  let at: Element | undefined = way ? element : undefined;
  for (const index of way ?? []) {
    at = at?.children[index];
  }
  if (at instanceof HTMLElement) {
    at.focus({ preventScroll: true });
  }
}
