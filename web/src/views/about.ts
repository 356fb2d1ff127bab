// About the report: inputs, what was repaired or dropped, versions, limits of this file.
import type { App, View, ViewKind } from '../app';
import { absent, h, plainTable, section } from '../dom';
import { formatBytes, formatCount, formatTime, isNumber, NOTHING, words } from '../format';
import { countersOf } from './counters';

export const aboutView: ViewKind = {
  id: 'about',
  title: 'About',
  absentBecause: () => null,
  make: (app) =>
    ({
      element: h(
        'div',
        { class: 'view' },
        h('h1', {}, 'About this report'),
        inputs(app),
        counters(app),
        environment(app),
        limits(app),
        reasons(app),
      ),
    }) satisfies View,
};

function inputs(app: App): HTMLElement {
  return section(
    'Inputs',
    plainTable(
      'Inputs',
      [
        { title: 'file' },
        { title: 'format' },
        { title: 'state' },
        { title: 'rank' },
        { title: 'events', isNumber: true },
        { title: 'text', isNumber: true },
      ],
      app.report.inputs.map((input) => [
        input.path,
        [input.format, input.compression].filter(Boolean).join(', '),
        input.status,
        isNumber(input.rank) ? String(input.rank) : NOTHING,
        formatCount(input.events),
        formatBytes(input.bytes),
      ]),
    ),
  );
}

function counters(app: App): HTMLElement {
  const all = countersOf(app.report.inputs);
  return section(
    'Repaired, dropped and guessed',
    all.length === 0
      ? absent('Nothing was repaired, dropped or guessed.')
      : plainTable(
          'Counters',
          [
            { title: 'count', isNumber: true },
            { title: 'what' },
            { title: 'kind' },
            { title: 'name' },
          ],
          all.map((row) => [formatCount(row.count), row.sentence, row.severity, row.name]),
        ),
  );
}

function environment(app: App): HTMLElement {
  const { environment: env, overhead, generator, schema, reasons: why } = app.report;
  const predicted = overhead.predicted_step_ns;
  const rows: (readonly [string, string | null, string?])[] = [
    ['Kinetoscope', `${generator}, ${schema}`],
    ['torch', env.torch, 'environment.torch'],
    ['CUDA', env.cuda, 'environment.cuda'],
    ['driver', env.driver, 'environment.driver'],
    ['CPU', env.cpu, 'environment.cpu'],
    ['control group', env.cgroup, 'environment.cgroup'],
    ['rows of the profiler', formatTime(overhead.profiler_ns)],
    ['cost of recording a row', formatTime(overhead.row_cost_ns)],
    [
      'a step without the profiler',
      predicted ? `${formatTime(predicted.low)} to ${formatTime(predicted.high)}, predicted` : null,
      'overhead.predicted_step_ns',
    ],
    [
      'measured',
      isNumber(overhead.measured_step_ns) ? formatTime(overhead.measured_step_ns) : null,
      'overhead.measured_step_ns',
    ],
  ];
  const gpus = env.gpus.map((gpu) => {
    const of = isNumber(gpu.rank) ? `, rank ${gpu.rank}` : '';
    const facts = [
      gpu.name,
      isNumber(gpu.memory_bytes) ? formatBytes(gpu.memory_bytes) : null,
      isNumber(gpu.sm_count) ? `${gpu.sm_count} SMs` : null,
      gpu.compute_capability ? `compute capability ${gpu.compute_capability}` : null,
    ].filter(Boolean);
    return [`GPU ${gpu.device ?? '?'}${of}`, facts.join(', ')] as const;
  });
  return section(
    'Versions and machine',
    h(
      'dl',
      { class: 'reasons' },
      ...[...rows, ...gpus].map(([key, value, reason]) =>
        h('div', {}, h('dt', {}, key), h('dd', {}, value ?? `${NOTHING} ${whyNot(why, reason)}`)),
      ),
    ),
  );
}

function whyNot(reasons: Readonly<Record<string, string>>, key: string | undefined): string {
  const reason = key ? reasons[key] : undefined;
  return reason ? `(${reason})` : '';
}

function limits(app: App): HTMLElement {
  const cut = Object.entries(app.report.truncated ?? {});
  const texts = cut.map(
    ([list, total]) => `${words(list)}: the first rows of ${formatCount(total)} are in this file`,
  );
  return section(
    'Limits of this file',
    h(
      'ul',
      {},
      h(
        'li',
        {},
        'The timeline holds all spans merged to what a screen shows, and single ones' +
          ' around findings and some steps.',
      ),
      h('li', {}, 'Flame graphs fold frames under 0.05 % into "other".'),
      ...texts.map((text) => h('li', {}, text)),
    ),
    h('p', { class: 'muted' }, 'All rows: '),
    h('pre', { tabindex: 0, 'aria-label': 'Commands' }, commands(app)),
  );
}

function commands(app: App): string {
  const paths = app.report.inputs
    .map((input) => quoted(input.path.split('/').pop() ?? ''))
    .join(' ');
  return `kscope report --json ${paths}\nkscope query 'select * from slice limit 10' ${paths}`;
}

/** One word of a shell, whatever a file is called: the page may be of somebody else. */
export function quoted(name: string): string {
  return /^[\w.,:=@%+][\w.,:=@%+-]*$/.test(name) ? name : `'./${name.replace(/'/g, `'\\''`)}'`;
}

function reasons(app: App): HTMLElement {
  const rows = Object.entries(app.report.reasons);
  return section(
    'Why values are missing',
    rows.length === 0
      ? absent('No value is missing.')
      : plainTable(
          'Reasons',
          [{ title: 'value' }, { title: 'reason' }],
          rows.map(([key, reason]) => [key, reason]),
        ),
  );
}
