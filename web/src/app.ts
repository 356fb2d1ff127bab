// What views share: the report, the other data blocks (parsed when first asked for), and the way
// from one view to another.
import { asComparison, type Comparison } from './data/compare';
import { asFlame, type FlameTree } from './data/flame';
import { asMemory, type MemoryCurve } from './data/memory';
import type { Report, Step } from './data/report';
import type { Source } from './data/source';
import { asTimeline, type Timeline } from './data/timeline';

/** Where the reader is: a view, and what to show of it. Written as "#view?key=value". */
export interface Route {
  readonly view: string;
  readonly params: URLSearchParams;
}

export interface View {
  readonly element: HTMLElement;
  /** Called each time the view comes to sight, with what its link asks for. */
  show?(params: URLSearchParams): void;
  /** Fulfilled when what it shows is there; without it, that is so from the start. */
  readonly ready?: Promise<void>;
  /** Takes over from the view of an older report what the address does not say. */
  takeOver?(older: View): void;
}

export interface ViewKind {
  readonly id: string;
  readonly title: string;
  /** The data block without which the page has no such view. */
  readonly needsBlock?: string;
  /** Why there is nothing to show, or null. */
  absentBecause(app: App): string | null;
  make(app: App): View;
}

export class App {
  private readonly parsed = new Map<string, Promise<unknown>>();

  constructor(
    readonly report: Report,
    readonly source: Source,
    /** Puts the present place into the address, so that it can be shared. */
    readonly rememberPlace: (params: Record<string, string>) => void,
  ) {}

  async timeline(): Promise<Timeline | null> {
    return this.once('timeline', asTimeline);
  }

  async flame(): Promise<FlameTree[]> {
    return this.once('flame', asFlame);
  }

  async memory(): Promise<MemoryCurve[]> {
    return this.once('memory', asMemory);
  }

  async comparison(): Promise<Comparison> {
    return this.once('compare', asComparison);
  }

  private once<T>(id: string, parse: (value: unknown) => T): Promise<T> {
    const before = this.parsed.get(id);
    if (before) {
      return before as Promise<T>;
    }
    const now = this.source.block(id).then(parse);
    this.parsed.set(id, now);
    return now;
  }
}

export function parseRoute(hash: string): Route {
  const [view = '', query = ''] = hash.replace(/^#/, '').split('?');
  return { view, params: new URLSearchParams(query) };
}

export function linkTo(
  view: string,
  params: Readonly<Record<string, string | number>> = {},
): string {
  const query = new URLSearchParams(
    Object.entries(params).map(([key, value]) => [key, String(value)]),
  ).toString();
  return query === '' ? `#${view}` : `#${view}?${query}`;
}

/** A link that searches the timeline for a name; "ProfilerStep*" stands for all that begin so. */
export function linkToName(name: string): string {
  return linkTo('timeline', { find: name.replace(/\*$/, '') });
}

/** From the earliest moment of a step, on host or device, to its end. */
export function stepRange(step: Step): { from: number; to: number } {
  const from = Math.min(step.start_ns, step.host_start_ns);
  return { from, to: Math.max(step.start_ns + step.dur_ns, from + step.host_ns) };
}

/** A link to a step of its rank in the timeline, with some room; `find` selects a span in it. */
export function linkToStep(step: Step, find?: string | null): string {
  const { from, to } = stepRange(step);
  const { rank } = step;
  return linkTo('timeline', {
    from,
    to,
    room: 1,
    ...(rank === null ? {} : { rank }),
    ...(find ? { find } : {}),
  });
}
