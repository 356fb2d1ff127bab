// The bar chart of the steps: one column for each, stacked by what it was spent on. Walked with
// the arrow keys; the chosen step is spelled out below.
import { linkToStep } from '../app';
import { rankName, type Report, type Step } from '../data/report';
import { clear, h, plainTable, twin } from '../dom';
import { formatCount, formatShare, formatTime, NOTHING } from '../format';
import { niceStep } from '../timeline/paint';
import { PART_TITLES, colourClass } from '../ui/palette';
import { causesOf, largest, type Part, partsList } from '../ui/parts';
import { stepCount } from './steps_mean';

const COLUMNS_MAX = 100; // as many as stand beside each other without scrolling

interface Column {
  readonly step: Step;
  /** How many steps this column stands for; it shows the longest of them. */
  readonly count: number;
}

export function partsOf(step: Step): Part[] {
  return PART_TITLES.map(([key, title]) => ({ key, title, ns: step.breakdown_ns[key] ?? 0 }));
}

/** "step 3 of rank 1" */
export function stepName(step: Step): string {
  const name = step.source === 'window' ? 'the whole recording' : `step ${step.number}`;
  return step.rank === null ? name : `${name} of ${rankName(step.rank)}`;
}

/** The longest step of each run of neighbours, when there are more than fit. */
export function columnsOf(steps: readonly Step[], most = COLUMNS_MAX): Column[] {
  const sorted = [...steps].sort(
    (a, b) => a.number - b.number || (a.rank ?? -1) - (b.rank ?? -1) || a.index - b.index,
  );
  const size = Math.ceil(sorted.length / most);
  const columns: Column[] = [];
  for (let i = 0; i < sorted.length; i += size) {
    const group = sorted.slice(i, i + size);
    const step = group.reduce((a, b) => (b.dur_ns > a.dur_ns ? b : a));
    columns.push({ step, count: group.length });
  }
  return columns;
}

export function stepsChart(report: Report): HTMLElement {
  const columns = columnsOf(report.steps);
  const chart = new StepsChart(columns, report);
  const isCut = stepCount(report) > report.steps.length;
  const merged = columns.some((column) => column.count > 1);
  return h(
    'div',
    {},
    isCut &&
      h(
        'p',
        { class: 'muted' },
        `The first ${formatCount(report.steps.length)} steps; the others are not in this file.`,
      ),
    merged && h('p', { class: 'muted' }, 'Each bar is the longest of several neighbouring steps.'),
    chart.element,
    twin('Steps as a table', () => stepsTable(report)),
  );
}

class StepsChart {
  readonly element: HTMLElement;
  private chosen = 0;
  private readonly isOfRanks: boolean;
  private readonly options: HTMLElement[];
  private readonly list: HTMLElement;
  private readonly readout = h('div', { class: 'readout', 'aria-live': 'polite' });

  constructor(
    private readonly columns: readonly Column[],
    private readonly report: Report,
  ) {
    this.isOfRanks = new Set(columns.map((column) => column.step.rank)).size > 1;
    const top = Math.max(...columns.map((column) => column.step.dur_ns), 1);
    this.options = columns.map((column, i) => this.makeColumn(column, i, top));
    this.list = h(
      'div',
      {
        class: 'steps',
        role: 'listbox',
        tabindex: 0,
        'aria-label': 'Steps: arrow keys choose one, Enter shows it in the timeline',
        'aria-orientation': 'horizontal',
      },
      ...this.options,
    );
    this.list.addEventListener('keydown', (event) => this.onKey(event));
    this.list.addEventListener('pointerleave', () => this.describe(this.chosen));
    this.element = h(
      'div',
      {},
      h('div', { class: 'steps-frame' }, axis(top), this.list),
      this.readout,
    );
    const slowest = columns.findIndex((column) => column.step.dur_ns === top);
    this.choose(Math.max(0, slowest));
  }

  private makeColumn(column: Column, index: number, top: number): HTMLElement {
    const { step } = column;
    const stack = h('span', { class: 'stack' });
    stack.style.height = `${(step.dur_ns / top) * 100}%`;
    for (const part of partsOf(step)) {
      if (part.ns > 0) {
        const segment = h('span', { class: `segment ${colourClass(part.key)}` });
        segment.style.flexGrow = String(part.ns);
        stack.append(segment);
      }
    }
    const isLabelled =
      this.columns.length <= 24 || index % Math.ceil(this.columns.length / 12) === 0;
    const rank = this.isOfRanks ? ` r${step.rank ?? '?'}` : '';
    const option = h(
      'div',
      {
        class: 'step',
        role: 'option',
        id: `step-${index}`,
        'aria-label': `${stepName(step)}: ${formatTime(step.dur_ns)}`,
      },
      h('span', { class: 'plot' }, stack),
      h(
        'span',
        { class: 'tick', 'aria-hidden': 'true' },
        isLabelled ? `${step.source === 'window' ? 'all' : step.number}${rank}` : '',
      ),
    );
    option.addEventListener('click', () => this.choose(index));
    option.addEventListener('pointerenter', () => this.describe(index));
    return option;
  }

  private choose(index: number): void {
    this.chosen = Math.max(0, Math.min(index, this.columns.length - 1));
    this.options.forEach((option, i) => {
      option.setAttribute('aria-selected', i === this.chosen ? 'true' : 'false');
    });
    this.list.setAttribute('aria-activedescendant', `step-${this.chosen}`);
    this.describe(this.chosen);
  }

  private describe(index: number): void {
    const column = this.columns[index];
    if (!column) {
      return;
    }
    const { step, count } = column;
    clear(this.readout);
    const merged = count > 1 ? `, the longest of ${count} steps` : '';
    this.readout.append(
      h(
        'h3',
        {},
        `${capital(stepName(step))}: ${formatTime(step.dur_ns)}${merged} `,
        h('a', { href: linkToStep(step) }, 'Show in timeline'),
      ),
      partsList(partsOf(step), step.dur_ns),
      this.idleOf(step),
    );
  }

  private idleOf(step: Step): HTMLElement {
    const device = this.report.devices.length > 0 ? 'GPU' : 'thread of the steps';
    const causes = causesOf(step.idle_by_cause_ns);
    const most = largest(causes);
    if (step.idle_ns <= 0 || !most) {
      return h('p', {}, `The ${device} is never idle in it.`);
    }
    const share = formatShare(step.idle_ns / step.dur_ns);
    return h(
      'div',
      {},
      h(
        'p',
        {},
        `The ${device} is idle for ${formatTime(step.idle_ns)} (${share}) of it, ` +
          `most of all because of ${most.title}: ${most.help ?? ''}.`,
      ),
      partsList(causes, step.dur_ns),
    );
  }

  private onKey(event: KeyboardEvent): void {
    const moves: Record<string, number> = {
      ArrowRight: this.chosen + 1,
      ArrowLeft: this.chosen - 1,
      ArrowDown: this.chosen + 1,
      ArrowUp: this.chosen - 1,
      Home: 0,
      End: this.columns.length - 1,
    };
    const to = moves[event.key];
    if (to !== undefined) {
      event.preventDefault();
      this.choose(to);
    } else if (event.key === 'Enter') {
      this.readout.querySelector('a')?.click();
    }
  }
}

function axis(top: number): HTMLElement {
  const step = niceStep(top / 4);
  const lines: HTMLElement[] = [];
  for (let ns = step; ns <= top; ns += step) {
    const line = h('span', { class: 'axis-line' }, formatTime(ns));
    line.style.bottom = `${(ns / top) * 100}%`;
    lines.push(line);
  }
  return h('div', { class: 'axis', 'aria-hidden': 'true' }, ...lines);
}

function stepsTable(report: Report): HTMLElement {
  const shown = report.steps.slice(0, 1000);
  const parts = PART_TITLES.filter(([key]) => shown.some((step) => step.breakdown_ns[key]));
  return plainTable(
    'Steps',
    [
      { title: 'step' },
      { title: 'takes', isNumber: true },
      ...parts.map(([, title]) => ({ title, isNumber: true })),
      { title: 'idle', isNumber: true },
      { title: 'mostly' },
    ],
    shown.map((step) => [
      h('a', { href: linkToStep(step) }, stepName(step)),
      formatTime(step.dur_ns),
      ...parts.map(([key]) => formatTime(step.breakdown_ns[key] ?? 0)),
      formatTime(step.idle_ns),
      step.idle_ns > 0 ? (largest(causesOf(step.idle_by_cause_ns))?.title ?? NOTHING) : NOTHING,
    ]),
  );
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
