// Colours of the charts. Parts and causes have the eight colours of Okabe and Ito, which people
// with any colour vision tell apart; what they mean is always written beside them, too.

export const PART_TITLES: readonly (readonly [string, string])[] = [
  ['kernel', 'kernels'],
  ['memcpy', 'copies'],
  ['memset', 'sets'],
  ['communication', 'communication'],
  ['runtime', 'runtime calls'],
  ['dataloader', 'data loader'],
  ['cpu', 'CPU operators'],
  ['other', 'other'],
];

/** The class that gives an element the colour of a part of a step, or of a cause of idleness. */
export function colourClass(key: string): string {
  return `c-${key.replace(/[^a-z_]/g, '')}`;
}

/** Fills of spans: light enough for dark text, in both themes. */
const FILLS = [
  '#9cc4e4',
  '#f2c27e',
  '#a5d6b4',
  '#e3b5d3',
  '#c9c4ec',
  '#e8dc8a',
  '#9fd6d6',
  '#f0b2a0',
  '#c4d59a',
  '#d3c3b0',
];
export const SPAN_INK = '#14171b';
/** Of spans too narrow for their colour to be seen. */
export const SLIVER_FILL = '#a9b4c2';
const COMMUNICATION_FILL = '#e3b5d3';
const COPY_FILL = '#f2c27e';
const KERNEL_FILL = '#9cc4e4';
const SET_FILL = '#d3c3b0';

/** The same name has the same fill on every page. */
export function fillOf(name: string, trackKind: string): string {
  if (trackKind === 'stream') {
    if (/nccl|AllReduce|AllGather|ReduceScatter/i.test(name)) {
      return COMMUNICATION_FILL;
    }
    if (/^mem(cpy|set)/i.test(name)) {
      return /^memset/i.test(name) ? SET_FILL : COPY_FILL;
    }
    return KERNEL_FILL;
  }
  let hash = 2166136261;
  for (let i = 0; i < name.length && i < 64; i++) {
    hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
  }
  return FILLS[(hash >>> 8) % FILLS.length] ?? KERNEL_FILL;
}

export interface Theme {
  readonly paper: string;
  readonly band: string;
  readonly ink: string;
  readonly muted: string;
  readonly line: string;
  readonly accent: string;
  readonly mark: string;
  readonly font: string;
}

/** The colours of the style sheet, for canvases. */
export function readTheme(element: Element): Theme {
  const style = getComputedStyle(element);
  const get = (name: string) => style.getPropertyValue(name).trim();
  return {
    paper: get('--paper'),
    band: get('--band'),
    ink: get('--ink'),
    muted: get('--muted'),
    line: get('--line'),
    accent: get('--accent'),
    mark: get('--mark'),
    font: `11px ${style.fontFamily}`,
  };
}

// A listener goes with its owner, which it may refer to: the view of a report that was replaced.
const listeners = new WeakMap<object, () => void>();
const owners = new Set<WeakRef<object>>();

/** Calls `listener`, as long as `owner` is of use, when the reader's system changes between light
 * and dark. */
export function onThemeChange(owner: object, listener: () => void): void {
  if (owners.size === 0) {
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', tellOwners);
  }
  listeners.set(owner, listener);
  owners.add(new WeakRef(owner));
}

function tellOwners(): void {
  for (const weak of owners) {
    const owner = weak.deref();
    if (owner) {
      listeners.get(owner)?.();
    } else {
      owners.delete(weak);
    }
  }
}
