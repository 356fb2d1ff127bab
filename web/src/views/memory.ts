// Memory over time, the peak of each device, and who asked for memory as far as the report knows.
import type { App, ViewKind } from '../app';
import { linkTo } from '../app';
import type { MemoryCurve } from '../data/memory';
import type { Row, Step } from '../data/report';
import { absent, h, plainTable, section, twin } from '../dom';
import { formatBytes, formatCount, formatMoment, isNumber, NOTHING, words } from '../format';
import { lineChart } from '../ui/linechart';
import { BlockView } from './block';
import { stepName } from './steps';

const HOLDERS_MAX = 20;
const TABLE_ROWS_MAX = 400;

export const memoryView: ViewKind = {
  id: 'memory',
  title: 'Memory',
  absentBecause: () => null,
  make: (app) =>
    new BlockView({
      title: 'Memory',
      what: 'memory',
      read: () => app.memory(),
      build: (curves, element) => build(app, curves, element),
    }),
};

interface Peak {
  readonly ns: number;
  readonly bytes: number;
}

function build(app: App, curves: readonly MemoryCurve[], element: HTMLElement): null {
  if (curves.length === 0) {
    element.append(
      absent('No memory was recorded: profile_memory=True of the profiler records it.'),
    );
  }
  element.append(...curves.map((curve) => curveSection(app, curve)));
  const devices = app.report.memory?.devices ?? [];
  if (devices.length > 0) {
    element.append(section('By device', devicesTable(devices)));
  }
  element.append(findings(app) ?? '', holders(app));
  return null;
}

function peakOf(curve: MemoryCurve): Peak {
  let best = 0;
  curve.allocatedMax.forEach((bytes, i) => {
    if (bytes > (curve.allocatedMax[best] ?? 0)) {
      best = i;
    }
  });
  return { ns: curve.ts[best] ?? 0, bytes: curve.allocatedMax[best] ?? 0 };
}

function curveSection(app: App, curve: MemoryCurve): HTMLElement {
  const peak = peakOf(curve);
  const reserved = curve.reserved.filter(isNumber).reduce((a, b) => Math.max(a, b), 0);
  const step = stepAt(app.report.steps, peak.ns);
  const reservedText = reserved > 0 ? `; reserved at most ${formatBytes(reserved)}` : '';
  const stepText = step ? `, in ${stepName(step)}` : '';
  return section(
    curve.device,
    h(
      'p',
      {},
      h('strong', {}, `Peak: ${formatBytes(peak.bytes)}`),
      ` allocated at ${formatMoment(peak.ns)}${stepText}${reservedText}. `,
      h(
        'a',
        { href: linkTo('timeline', { from: peak.ns - 2e6, to: peak.ns + 2e6 }) },
        'Show the peak in the timeline',
      ),
    ),
    lineChart({
      label: `Memory of ${curve.device} over time; the table below has the same points`,
      ts: curve.ts,
      series: [
        { title: 'allocated, most', values: curve.allocatedMax, colour: '--c-cpu' },
        { title: 'allocated, least', values: curve.allocatedMin, colour: '--c-kernel' },
        ...(reserved > 0
          ? [{ title: 'reserved', values: curve.reserved, colour: '--c-data', isDashed: true }]
          : []),
      ],
      format: formatBytes,
    }),
    twin('Points as a table', () => pointsTable(curve)),
  );
}

function stepAt(steps: readonly Step[], ns: number): Step | undefined {
  return steps.find((step) => ns >= step.start_ns && ns < step.start_ns + step.dur_ns);
}

/** Every n-th point, but always the highest one between two of them. */
function pointsTable(curve: MemoryCurve): HTMLElement {
  const size = Math.ceil(curve.ts.length / TABLE_ROWS_MAX);
  const rows: string[][] = [];
  for (let i = 0; i < curve.ts.length; i += size) {
    let best = i;
    for (let k = i; k < Math.min(i + size, curve.ts.length); k++) {
      if ((curve.allocatedMax[k] ?? 0) > (curve.allocatedMax[best] ?? 0)) {
        best = k;
      }
    }
    rows.push([
      formatMoment(curve.ts[best] ?? 0),
      formatBytes(curve.allocatedMin[best]),
      formatBytes(curve.allocatedMax[best]),
      formatBytes(curve.reserved[best]),
    ]);
  }
  const number = (title: string) => ({ title, isNumber: true });
  return plainTable(
    `Memory of ${curve.device}`,
    [number('time'), number('allocated, least'), number('allocated, most'), number('reserved')],
    rows,
  );
}

function devicesTable(devices: readonly Row[]): HTMLElement {
  const keys = [...new Set(devices.flatMap((row) => Object.keys(row)))].filter((key) =>
    devices.some((row) => typeof row[key] !== 'object'),
  );
  return plainTable(
    'Memory by device',
    keys.map((key) => ({ title: words(key), isNumber: key.includes('bytes') })),
    devices.map((row) =>
      keys.map((key) => {
        const value = row[key];
        return key.includes('bytes')
          ? formatBytes(isNumber(value) ? value : null)
          : String(value ?? NOTHING);
      }),
    ),
  );
}

function findings(app: App): HTMLElement | null {
  const found = app.report.findings.filter(
    (finding) => finding.impact === 'memory' || finding.id.startsWith('memory.'),
  );
  if (found.length === 0) {
    return null;
  }
  return section(
    'Findings about memory',
    ...found.map((finding) =>
      h('p', {}, h('strong', {}, `${finding.title}. `), finding.fix.text ?? ''),
    ),
  );
}

/** The operators that allocated most and kept it: self bytes are what they did not free. */
function holders(app: App): HTMLElement {
  const rows = app.report.operators
    .map((row) => ({
      name: String(row['name'] ?? ''),
      calls: row['calls'],
      gpu: row['self_device_bytes'],
      cpu: row['self_cpu_bytes'],
    }))
    .filter((row) => isNumber(row.gpu) || isNumber(row.cpu))
    .filter((row) => Number(row.gpu ?? 0) > 0 || Number(row.cpu ?? 0) > 0)
    .sort(
      (a, b) => Number(b.gpu ?? 0) - Number(a.gpu ?? 0) || Number(b.cpu ?? 0) - Number(a.cpu ?? 0),
    )
    .slice(0, HOLDERS_MAX);
  const reason = app.report.reasons['operators[].self_device_bytes'];
  return section(
    'What holds memory: operators by what they allocated and did not free',
    rows.length === 0
      ? absent(`No operator says${reason ? `: ${reason}` : ''}.`)
      : plainTable(
          'Operators by memory',
          [
            { title: 'operator' },
            { title: 'calls', isNumber: true },
            { title: 'GPU memory', isNumber: true },
            { title: 'CPU memory', isNumber: true },
          ],
          rows.map((row) => [
            h('a', { href: linkTo('operators', { filter: row.name }) }, row.name),
            formatCount(isNumber(row.calls) ? row.calls : null),
            formatBytes(isNumber(row.gpu) ? row.gpu : null),
            formatBytes(isNumber(row.cpu) ? row.cpu : null),
          ]),
        ),
  );
}
