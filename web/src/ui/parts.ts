// A bar cut into parts, and the list that says what the parts are.
import { h } from '../dom';
import { formatShare, formatTime } from '../format';
import { colourClass } from './palette';

export interface Part {
  readonly key: string;
  readonly title: string;
  readonly ns: number;
  readonly help?: string;
}

export const IDLE_CAUSES: readonly (readonly [string, string, string])[] = [
  ['data', 'data', 'the thread of the steps waited for the next batch'],
  ['sync', 'sync', 'the host waited for the GPU, and launched nothing meanwhile'],
  ['host_code', 'host code', 'code between operators ran: Python, logging, checkpoints'],
  ['launch', 'launch', 'operators and launches took longer than their work on the GPU'],
  ['allocator', 'allocator', 'memory was asked of the driver, or given back'],
  ['collective', 'collective', 'other ranks were waited for'],
  ['kernel_to_kernel', 'kernel to kernel', 'work was queued: a dependency, or the device paused'],
  ['profiler', 'profiler', 'the recording itself took this time'],
  ['unknown', 'unknown', 'the trace does not say'],
];

export function causesOf(ns: Readonly<Record<string, number>>): Part[] {
  return IDLE_CAUSES.map(([key, title, help]) => ({ key, title, help, ns: ns[key] ?? 0 }));
}

/** The bar alone; its words stand beside it in a `partsList` or a table. */
export function partsBar(parts: readonly Part[], totalNs: number, widthShare = 1): HTMLElement {
  const bar = h('div', { class: 'bar', 'aria-hidden': 'true' });
  bar.style.width = `${Math.max(0.5, widthShare * 100)}%`;
  for (const part of parts) {
    if (part.ns > 0) {
      const segment = h('span', {
        class: `segment ${colourClass(part.key)}`,
        title: `${part.title} ${formatTime(part.ns)}`,
      });
      segment.style.flexGrow = String(part.ns / totalNs);
      bar.append(segment);
    }
  }
  return bar;
}

export function partsList(parts: readonly Part[], totalNs: number): HTMLElement {
  const shown = parts.filter((part) => part.ns > 0);
  return h(
    'ul',
    { class: 'legend' },
    ...shown.map((part) =>
      h(
        'li',
        { title: part.help },
        h('span', { class: `swatch ${colourClass(part.key)}`, 'aria-hidden': 'true' }),
        `${part.title} `,
        h('strong', {}, formatTime(part.ns)),
        h('span', { class: 'muted' }, ` ${formatShare(part.ns / totalNs)}`),
      ),
    ),
  );
}

/** The part that takes the most, if any takes something. */
export function largest(parts: readonly Part[]): Part | null {
  return parts.reduce<Part | null>((most, part) => (part.ns > (most?.ns ?? 0) ? part : most), null);
}
