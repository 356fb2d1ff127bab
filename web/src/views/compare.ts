// Two runs beside each other: the run of this page is B, an earlier one is A.
import type { ViewKind } from '../app';
import type { ChangedFinding, ChangedPart, Comparison, Estimate, Run } from '../data/compare';
import type { Row } from '../data/report';
import { absent, h, plainTable, section, twin } from '../dom';
import {
  formatBytes,
  formatCount,
  formatTime,
  isNumber,
  type Maybe,
  NOTHING,
  words,
} from '../format';
import { PART_TITLES } from '../ui/palette';
import { type Part, partsBar } from '../ui/parts';
import { type Column, Table } from '../ui/table';
import { BlockView } from './block';

const DOTS_MAX = 300; // of steps in a chart

export const compareView: ViewKind = {
  id: 'compare',
  title: 'Compare',
  needsBlock: 'compare',
  absentBecause: () => null,
  make: (app) =>
    new BlockView({
      title: 'Compare',
      what: 'comparison',
      read: () => app.comparison(),
      build: (comparison, element) => build(comparison, element),
    }),
};

function build(comparison: Comparison, element: HTMLElement): null {
  element.append(
    verdict(comparison),
    stepTimes(comparison),
    recording(comparison),
    parts(comparison),
    findings(comparison),
    changes(comparison, 'operators', 'Operators', operatorColumns()),
    changes(comparison, 'kernels', 'Kernels', kernelColumns()),
    memory(comparison),
  );
  return null;
}

function withSign(value: Maybe, format: (value: Maybe) => string): string {
  return isNumber(value) && value > 0 ? `+${format(value)}` : format(value);
}

function changeOf(estimate: Estimate, format: (value: Maybe) => string): string {
  const { value, low, high } = estimate;
  const range = isNumber(low) && isNumber(high) ? ` (${format(low)} to ${format(high)})` : '';
  return `${format(value)}${range}`;
}

const timeChange = (value: Maybe) => withSign(whole(value), formatTime);
const ratio = (value: Maybe) => (isNumber(value) ? String(Number(value.toPrecision(3))) : NOTHING);

/** As the terminal writes means: to the whole ns. */
function whole(value: Maybe): Maybe {
  return isNumber(value) ? Math.round(value) : value;
}

const time = (value: Maybe) => formatTime(whole(value));

// ------------------------------------------------------------------ steps

function verdict(comparison: Comparison): HTMLElement {
  const { text, step, reason } = comparison.verdict;
  return h(
    'div',
    { class: `compared is-${step}` },
    h('p', { class: 'verdict' }, text),
    step !== 'cannot_tell' && h('p', { class: 'muted' }, `${capital(reason)}.`),
  );
}

function capital(sentence: string): string {
  return sentence.slice(0, 1).toUpperCase() + sentence.slice(1);
}

function nameOf(run: Run): string {
  const more = run.paths > 1 ? ` and ${run.paths - 1} more` : '';
  return `${run.name}: ${run.path ?? 'a run'}${more}`;
}

function stepTimes(comparison: Comparison): HTMLElement {
  const most = Math.max(
    ...comparison.runs.flatMap((run) => [run.max_step_ns ?? 0, run.mean_step_ns.high ?? 0]),
  );
  if (!(most > 0)) {
    return section('Step times', absent('No run has a step.'));
  }
  const { change_ns: change, ratio: times } = comparison.step;
  return section(
    'Step times',
    ...comparison.runs.map((run) => runRow(run, most)),
    h(
      'p',
      { class: 'muted' },
      'Bars are means, lines their intervals at 97 % confidence, rings the steps.',
    ),
    h(
      'p',
      {},
      'From A to B ',
      h('strong', {}, changeOf(change, timeChange)),
      ', which is ',
      h('strong', {}, changeOf(times, ratio)),
      ' times as long.',
    ),
    twin('Step times as a table', () => timesTable(comparison.runs)),
  );
}

function runRow(run: Run, most: number): HTMLElement {
  const mean = run.mean_step_ns;
  const without = run.measured_step_ns ?? run.predicted_step_ns?.middle;
  const steps = run.complete ? 'steps' : 'cut steps';
  const shares = run.ranks > 1 ? ` of ${run.ranks} ranks` : '';
  return h(
    'div',
    { class: 'compared-run' },
    h(
      'p',
      {},
      h('strong', {}, nameOf(run)),
      h(
        'span',
        { class: 'muted' },
        ` ${formatCount(run.step_count)} ${steps}${shares}, ${run.device}` +
          `${run.torch ? `, torch ${run.torch}` : ''}`,
      ),
    ),
    track(run, most),
    h(
      'p',
      {},
      `mean ${changeOf(mean, time)}, median ${formatTime(run.median_step_ns)}` +
        (without ? `; without the profiler about ${formatTime(without)}` : ''),
    ),
  );
}

/** The bar with what lies over it, of a width that is the longest time of both runs. */
function track(run: Run, most: number): HTMLElement {
  const at = (ns: number) => `${(Math.min(Math.max(ns, 0), most) / most) * 100}%`;
  const { value, low, high } = run.mean_step_ns;
  const box = h('div', { class: 'compared-track', 'aria-hidden': 'true' });
  const bar = h('span', { class: `compared-bar side-${run.name.toLowerCase()}` });
  bar.style.width = at(value ?? 0);
  box.append(bar);
  if (isNumber(low) && isNumber(high)) {
    const whisker = h('span', { class: 'compared-whisker' });
    whisker.style.left = at(low);
    whisker.style.width = `${((Math.min(high, most) - Math.max(low, 0)) / most) * 100}%`;
    box.append(whisker);
  }
  const every = Math.ceil(run.steps.length / DOTS_MAX);
  run.steps.forEach((step, i) => {
    if (i % every === 0) {
      const dot = h('span', { class: 'compared-dot' });
      dot.style.left = at(step.dur_ns);
      box.append(dot);
    }
  });
  return box;
}

function timesTable(runs: readonly Run[]): HTMLElement {
  const number = (title: string) => ({ title, isNumber: true });
  return plainTable(
    'Step times',
    [
      { title: 'run' },
      ...['steps', 'mean', 'at least', 'at most', 'median', 'shortest', 'longest'].map(number),
      number('deviation'),
      number('measured without the profiler'),
    ],
    runs.map((run) => [
      run.name,
      formatCount(run.step_count),
      time(run.mean_step_ns.value),
      time(run.mean_step_ns.low),
      time(run.mean_step_ns.high),
      formatTime(run.median_step_ns),
      formatTime(run.min_step_ns),
      formatTime(run.max_step_ns),
      time(run.std_step_ns),
      formatTime(run.measured_step_ns),
    ]),
  );
}

function recording(comparison: Comparison): HTMLElement {
  if (comparison.recording.length === 0) {
    return section('Recordings', h('p', {}, 'Both were recorded alike.'));
  }
  return section(
    'Recordings: what is not the same',
    plainTable(
      'Differences of the recordings',
      [{ title: 'what' }, { title: 'A' }, { title: 'B' }, { title: 'so' }],
      comparison.recording.map((row) => [
        words(row.what),
        row.a ?? NOTHING,
        row.b ?? NOTHING,
        row.note,
      ]),
    ),
  );
}

// ------------------------------------------------------------------ parts

function parts(comparison: Comparison): HTMLElement {
  const all = comparison.parts.filter((part) => part.group === 'breakdown');
  const sum = (key: 'a_ns' | 'b_ns') => all.reduce((ns, part) => ns + (part[key] ?? 0), 0);
  const most = Math.max(sum('a_ns'), sum('b_ns'));
  if (!(most > 0)) {
    return section('Parts of a mean step', absent('No run has a step.'));
  }
  const bar = (name: string, key: 'a_ns' | 'b_ns') =>
    h(
      'div',
      { class: 'compared-parts' },
      h('span', {}, name),
      sum(key) > 0 ? partsBar(partsOf(all, key), sum(key), sum(key) / most) : NOTHING,
    );
  return section(
    'Parts of a mean step',
    bar('A', 'a_ns'),
    bar('B', 'b_ns'),
    partsTable('Parts of a mean step', all, true),
    twin('Why the device idled, and phases of the step', () =>
      h(
        'div',
        {},
        partsTable(
          'Idle',
          comparison.parts.filter((part) => part.group === 'idle'),
        ),
        partsTable(
          'Phases',
          comparison.parts.filter((part) => part.group === 'phase'),
        ),
      ),
    ),
  );
}

function titleOf(name: string): string {
  return PART_TITLES.find(([key]) => key === name)?.[1] ?? words(name);
}

function partsOf(all: readonly ChangedPart[], key: 'a_ns' | 'b_ns'): Part[] {
  return all.map((part) => ({
    key: part.name,
    title: titleOf(part.name),
    ns: part[key] ?? 0,
  }));
}

function partsTable(caption: string, all: readonly ChangedPart[], isKeyed = false): HTMLElement {
  const number = (title: string) => ({ title, isNumber: true });
  const label = (part: ChangedPart) =>
    isKeyed
      ? h(
          'span',
          {},
          h('span', { class: `swatch c-${part.name}`, 'aria-hidden': 'true' }),
          titleOf(part.name),
        )
      : words(part.name);
  return plainTable(
    caption,
    [{ title: caption === 'Phases' ? 'phase' : 'part' }, ...['A', 'B', 'change'].map(number)],
    all.map((part) => [label(part), time(part.a_ns), time(part.b_ns), timeChange(part.change_ns)]),
  );
}

// ------------------------------------------------------------------ lists

/** The value of a key such as "a.calls". */
function at(row: Row, key: string): Maybe {
  const [outer = '', inner] = key.split('.');
  const value = inner === undefined ? row[outer] : (row[outer] as Row | undefined)?.[inner];
  return isNumber(value) ? value : null;
}

function column(key: string, title: string, format: (value: Maybe) => string): Column<Row> {
  return { key, title, value: (row) => at(row, key), text: (row) => format(at(row, key)) };
}

/** Changes sort by how large they are, up or down, as the rows come. */
function sized(key: string, title: string): Column<Row> {
  return {
    key,
    title,
    value: (row) => at(row, key),
    text: (row) => timeChange(at(row, key)),
  };
}

const nameColumn: Column<Row> = {
  key: 'name',
  title: 'name',
  value: (row) => (typeof row['name'] === 'string' ? row['name'] : NOTHING),
  isName: true,
};
const stateColumn: Column<Row> = {
  key: 'state',
  title: 'in',
  value: (row) => String(row['state']),
  help: 'both runs; or new in B, or gone from it',
};

function operatorColumns(): Column<Row>[] {
  return [
    nameColumn,
    stateColumn,
    { key: 'input_shapes', title: 'shapes', value: (row) => textOf(row['input_shapes']) },
    column('a.calls', 'calls A', formatCount),
    column('b.calls', 'calls B', formatCount),
    column('a.self_cpu_ns', 'self CPU A', time),
    column('b.self_cpu_ns', 'self CPU B', time),
    sized('change.self_cpu_ns', 'CPU change'),
    column('a.self_device_ns', 'self GPU A', time),
    column('b.self_device_ns', 'self GPU B', time),
    sized('change.self_device_ns', 'GPU change'),
  ];
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

function kernelColumns(): Column<Row>[] {
  return [
    nameColumn,
    stateColumn,
    column('device', 'GPU', formatCount),
    column('a.calls', 'calls A', formatCount),
    column('b.calls', 'calls B', formatCount),
    column('a.total_ns', 'time A', time),
    column('b.total_ns', 'time B', time),
    sized('change_ns', 'change'),
  ];
}

/** In the order of the document: by how much they changed. */
function changes(
  comparison: Comparison,
  list: 'operators' | 'kernels',
  title: string,
  columns: readonly Column<Row>[],
): HTMLElement {
  const rows = comparison[list];
  if (rows.length === 0) {
    return section(title, absent(`No run has ${list} in a step.`));
  }
  const used = columns.filter((each) =>
    rows.some((row) => {
      const value = each.value(row);
      return value !== null && value !== undefined && value !== 0;
    }),
  );
  const table = new Table({
    name: `${list} of a mean step`,
    columns: used,
    rows,
    total: Math.max(comparison.truncated?.[list] ?? 0, rows.length),
  });
  return section(
    title,
    h('p', { class: 'muted' }, 'Of a mean step, by how much they changed, up or down.'),
    table.element,
  );
}

function memory(comparison: Comparison): HTMLElement {
  if (comparison.memory.length === 0) {
    return section('Memory', absent('No run was recorded with memory events.'));
  }
  const number = (title: string) => ({ title, isNumber: true });
  const ranks = comparison.memory.some((row) => isNumber(row['rank']));
  const byteChange = (value: Maybe) => withSign(value, formatBytes);
  return section(
    'Memory at the peak',
    plainTable(
      'Memory at the peak',
      [
        { title: 'memory of' },
        ...['allocated A', 'allocated B', 'change', 'reserved A', 'reserved B'].map(number),
        number('change'),
      ],
      comparison.memory.map((row) => [
        (isNumber(row['device']) ? `GPU ${row['device']}` : 'the host') +
          (ranks && isNumber(row['rank']) ? `, rank ${row['rank']}` : ''),
        formatBytes(at(row, 'a.peak_allocated_bytes')),
        formatBytes(at(row, 'b.peak_allocated_bytes')),
        byteChange(at(row, 'change.peak_allocated_bytes')),
        formatBytes(at(row, 'a.peak_reserved_bytes')),
        formatBytes(at(row, 'b.peak_reserved_bytes')),
        byteChange(at(row, 'change.peak_reserved_bytes')),
      ]),
    ),
  );
}

function findings(comparison: Comparison): HTMLElement {
  if (comparison.findings.length === 0) {
    return section('Findings', absent('Nothing was found in either run.'));
  }
  const saving = (of: ChangedFinding['a']) =>
    isNumber(of.saving_low_ns) && isNumber(of.saving_high_ns)
      ? `${formatTime(of.saving_low_ns)} to ${formatTime(of.saving_high_ns)}`
      : NOTHING;
  return section(
    'Findings: gone, new, still there',
    plainTable(
      'Findings of both runs',
      [
        { title: 'state' },
        { title: 'finding' },
        { title: 'rule' },
        { title: 'saves a step of A' },
        { title: 'saves a step of B' },
      ],
      comparison.findings.map((row) => [
        h('span', { class: `finding-state is-${row.state}` }, row.state),
        row.title,
        h('code', {}, row.id),
        saving(row.a),
        saving(row.b),
      ]),
    ),
  );
}
