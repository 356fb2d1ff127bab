// The first screen: what limits a step, what to do about it, and where the time goes.
import { type App, linkTo, type View, type ViewKind } from '../app';
import { type Device, type Input, rankName, type Report } from '../data/report';
import { absent, h, plainTable, section, twin } from '../dom';
import { formatCount, formatShare, formatTime, NOTHING } from '../format';
import { causesOf, partsBar, partsList } from '../ui/parts';
import { countersOf } from './counters';
import { findingCard, opportunityCard } from './findings';
import { stepsChart } from './steps';
import { meanOfRows, meanStepNs, stepCount } from './steps_mean';

const DEVICES_SHOWN_MAX = 16;

export const overviewView: ViewKind = {
  id: 'overview',
  title: 'Overview',
  absentBecause: () => null,
  make: (app) => ({ element: makeOverview(app) }) satisfies View,
};

function makeOverview(app: App): HTMLElement {
  const { report } = app;
  return h(
    'div',
    { class: 'view overview' },
    lossBanner(report.inputs),
    h('h1', { class: 'verdict' }, report.verdict.text),
    tiles(report),
    h(
      'div',
      { class: 'columns' },
      h('div', {}, findings(app), plan(report), opportunities(report)),
      h('div', {}, steps(report), devices(report), checks(report)),
    ),
  );
}

/** What is missing or was repaired stands above all numbers, because they depend on it. */
export function lossBanner(inputs: readonly Input[]): HTMLElement | null {
  const counters = countersOf(inputs).filter((counter) => counter.severity !== 'info');
  if (counters.length === 0) {
    return null;
  }
  return h(
    'aside',
    { class: 'banner', 'aria-label': 'Damage of the input' },
    h('strong', {}, 'The input is damaged: these numbers are of what could be read.'),
    h(
      'ul',
      {},
      ...counters.map((counter) =>
        h('li', {}, `${formatCount(counter.count)} ${counter.sentence} (${counter.name})`),
      ),
    ),
  );
}

function tiles(report: Report): HTMLElement {
  const { steps, devices: gpus, overhead } = report;
  const isCut = stepCount(report) > steps.length;
  const complete = steps.filter((step) => step.complete);
  const durations = (complete.length > 0 ? complete : steps).map((step) => step.dur_ns);
  const span = gpus.reduce((sum, gpu) => sum + gpu.span_ns, 0);
  const busy = gpus.reduce((sum, gpu) => sum + gpu.busy_ns, 0);
  const events = report.inputs.reduce((sum, input) => sum + input.events, 0);
  const unprofiled = overhead.measured_step_ns ?? overhead.predicted_step_ns?.middle ?? null;
  const how = overhead.measured_step_ns ? 'measured' : 'predicted from the trace';
  const cells: (readonly [string, string, string])[] = [
    [
      isCut ? `Mean of the first ${formatCount(steps.length)} steps` : 'Mean step',
      formatTime(meanOfRows(report)),
      durations.length > 1
        ? `${formatTime(Math.min(...durations))} to ${formatTime(Math.max(...durations))}`
        : '',
    ],
    ['Steps', formatCount(stepCount(report)), stepSource(report)],
    [
      gpus.length < 2 ? 'GPU busy' : `${gpus.length} GPUs busy`,
      span > 0 ? formatShare(busy / span) : NOTHING,
      gpus.length > 0 ? (gpus[0]?.name ?? '') : 'no GPU work was recorded',
    ],
    ['Without the profiler', formatTime(unprofiled), unprofiled ? `a step, ${how}` : ''],
    ['Events', formatCount(events), inputNames(report.inputs)],
  ];
  return h(
    'dl',
    { class: 'tiles' },
    ...cells.map(([title, value, note]) =>
      h(
        'div',
        {},
        h('dt', {}, title),
        h(
          'dd',
          {},
          h('span', { class: 'figure' }, value),
          h('span', { class: 'muted', title: note }, note),
        ),
      ),
    ),
  );
}

function inputNames(inputs: readonly Input[]): string {
  const first = inputs[0];
  const name = first?.path.split('/').pop() ?? '';
  return inputs.length > 1 ? `${name} and ${inputs.length - 1} more` : name;
}

function stepSource(report: Report): string {
  const sources: Record<string, string> = {
    profiler: 'marked by the profiler',
    mark: 'marked by the program',
    engine: 'marked by the engine',
    optimizer: 'found by the optimizer steps',
    span: 'found by a repeated span',
    graph: 'found by graph launches',
    period: 'found by the rhythm of launches',
    window: 'no steps marked: the whole recording',
  };
  return sources[report.steps[0]?.source ?? ''] ?? '';
}

function findings(app: App): HTMLElement {
  const { findings: all } = app.report;
  if (all.length === 0) {
    const fine = app.report.checked.filter((check) => check.state === 'fine').length;
    const text =
      fine > 0
        ? `Nothing was found that would make this program faster: ${fine} things were looked at.`
        : 'Nothing could be judged from this input.';
    return section('Findings', absent(text));
  }
  return section(
    `${all.length} finding${all.length === 1 ? '' : 's'}`,
    ...all.map((finding) => findingCard(app, finding)),
  );
}

function plan(report: Report): HTMLElement | null {
  const mean = meanStepNs(report);
  if (report.plan.length < 2) {
    return null;
  }
  const rows = report.plan.map((entry, i) => {
    const finding = report.findings.find((each) => each.id === entry.finding);
    return h(
      'li',
      {},
      h('span', {}, `${i + 1}. ${finding?.title ?? entry.finding}`),
      mean !== null && planTrack(entry.step_ns_after, mean),
      h(
        'span',
        { class: 'muted' },
        `then a step takes ${formatTime(entry.step_ns_after.low)} ` +
          `to ${formatTime(entry.step_ns_after.high)}`,
      ),
    );
  });
  return section(
    'Plan',
    h(
      'p',
      { class: 'muted' },
      mean ? `One after the other, from ${formatTime(mean)} a step now:` : 'One after the other:',
    ),
    h('ol', { class: 'plan' }, ...rows),
  );
}

function planTrack(after: { low: number; high: number }, mean: number): HTMLElement {
  const bar = h('span', { class: 'plan-bar', 'aria-hidden': 'true' });
  bar.style.width = `${Math.min(100, (after.high / mean) * 100)}%`;
  const sure = h('span', { class: 'plan-sure', 'aria-hidden': 'true' });
  sure.style.width = `${Math.min(100, (after.low / mean) * 100)}%`;
  return h('span', { class: 'plan-track' }, bar, sure);
}

function opportunities(report: Report): HTMLElement | null {
  return report.opportunities.length > 0
    ? section('No faults, but worth a try', ...report.opportunities.map(opportunityCard))
    : null;
}

function steps(report: Report): HTMLElement {
  return section(
    'Where each step goes',
    report.steps.length > 0
      ? stepsChart(report)
      : absent('No step was found: the input holds no events in time.'),
  );
}

function devices(report: Report): HTMLElement {
  if (report.devices.length === 0) {
    return section('GPUs', absent('No GPU work was recorded: the program ran on the CPU.'));
  }
  const shown = report.devices.slice(0, DEVICES_SHOWN_MAX);
  const more = report.devices.length - shown.length;
  return section(
    shown.length === 1 ? 'The GPU: busy, and idle by cause' : 'GPUs: busy, and idle by cause',
    ...shown.map(deviceRow),
    more > 0
      ? h('p', {}, h('a', { href: linkTo('ranks') }, `${more} more are in the view of ranks`))
      : null,
    twin('GPUs as a table', () => devicesTable(report.devices)),
  );
}

export function deviceName(device: Device): string {
  const rank = device.rank === null ? '' : `, ${rankName(device.rank)}`;
  return `GPU ${device.device ?? '?'}${rank}`;
}

export function deviceRow(device: Device): HTMLElement {
  const parts = [
    { key: 'busy', title: 'busy', ns: device.busy_ns, help: 'some work ran' },
    ...causesOf(device.idle_by_cause_ns),
  ];
  return h(
    'div',
    { class: 'device' },
    h(
      'p',
      {},
      h('strong', {}, deviceName(device)),
      ` busy ${formatShare(device.util)} of ${formatTime(device.span_ns)}`,
    ),
    partsBar(parts, device.span_ns),
    partsList(parts, device.span_ns),
  );
}

export function devicesTable(all: readonly Device[]): HTMLElement {
  const causes = causesOf({}).filter(({ key }) => all.some((gpu) => gpu.idle_by_cause_ns[key]));
  const number = (title: string) => ({ title, isNumber: true });
  return plainTable(
    'GPUs',
    [
      { title: 'GPU' },
      number('span'),
      number('busy'),
      number('share'),
      number('communication'),
      number('exposed'),
      ...causes.map((cause) => number(`idle: ${cause.title}`)),
    ],
    all.map((device) => [
      deviceName(device),
      formatTime(device.span_ns),
      formatTime(device.busy_ns),
      formatShare(device.util),
      formatTime(device.comm_ns),
      formatTime(device.exposed_comm_ns),
      ...causes.map((cause) => formatTime(device.idle_by_cause_ns[cause.key] ?? 0)),
    ]),
  );
}

function checks(report: Report): HTMLElement {
  const fine = report.checked.filter((check) => check.state === 'fine');
  const could = report.checked.filter((check) => check.state === 'could_not');
  return section(
    'What was looked at',
    h(
      'details',
      { class: 'twin' },
      h('summary', {}, `${fine.length} fine`),
      h('p', { class: 'ids' }, ...fine.flatMap(({ id }) => [h('code', {}, id), ' '])),
    ),
    h(
      'details',
      { class: 'twin' },
      h('summary', {}, `${could.length} could not be judged`),
      h(
        'dl',
        { class: 'reasons' },
        ...could.map((check) =>
          h('div', {}, h('dt', {}, h('code', {}, check.id)), h('dd', {}, check.reason ?? '')),
        ),
      ),
    ),
  );
}
