// Ranks beside each other: what their steps are spent on, what their GPUs wait for, who is late.
import type { App, View, ViewKind } from '../app';
import { linkToStep } from '../app';
import { rankName, type Step } from '../data/report';
import { absent, h, plainTable, section, twin } from '../dom';
import { formatShare, formatTime } from '../format';
import { PART_TITLES } from '../ui/palette';
import { causesOf, largest, type Part, partsBar, partsList } from '../ui/parts';
import { deviceRow, devicesTable } from './overview';
import { collectivesTable } from './lists';
import { capital } from './steps';

interface RankSum {
  readonly rank: number | null;
  readonly steps: readonly Step[];
  readonly hostNs: number;
  readonly parts: readonly Part[];
  readonly totalNs: number;
  readonly idle: readonly Part[];
  readonly idleNs: number;
}

export const ranksView: ViewKind = {
  id: 'ranks',
  title: 'Ranks',
  absentBecause: (app) =>
    rankSums(app).length < 2 && app.report.devices.length < 2
      ? 'The input is of one process: there are no ranks to put beside each other.'
      : null,
  make: (app) => ({ element: makeRanks(app) }) satisfies View,
};

export function rankSums(app: App): RankSum[] {
  const byRank = new Map<number | null, Step[]>();
  for (const step of app.report.steps) {
    const steps = byRank.get(step.rank) ?? [];
    steps.push(step);
    byRank.set(step.rank, steps);
  }
  return [...byRank]
    .sort(([a], [b]) => (a ?? -1) - (b ?? -1))
    .map(([rank, steps]) => sumOf(rank, steps));
}

function sumOf(rank: number | null, steps: readonly Step[]): RankSum {
  const mean = (pick: (step: Step) => number) =>
    steps.reduce((sum, step) => sum + pick(step), 0) / steps.length;
  const idle = causesOf({}).map((cause) => ({
    ...cause,
    ns: mean((step) => step.idle_by_cause_ns[cause.key] ?? 0),
  }));
  return {
    rank,
    steps,
    hostNs: mean((step) => step.host_ns),
    parts: PART_TITLES.map(([key, title]) => ({
      key,
      title,
      ns: mean((step) => step.breakdown_ns[key] ?? 0),
    })),
    totalNs: mean((step) => step.dur_ns),
    idle,
    idleNs: mean((step) => step.idle_ns),
  };
}

function makeRanks(app: App): HTMLElement {
  const sums = rankSums(app);
  return h(
    'div',
    { class: 'view' },
    h('h1', {}, 'Ranks beside each other'),
    lateRank(app),
    section(
      'A mean step of each rank',
      ...rankBars(sums),
      twin('Ranks as a table', () => ranksTable(sums)),
    ),
    section(
      'GPUs',
      ...app.report.devices.map(deviceRow),
      twin('GPUs as a table', () => devicesTable(app.report.devices)),
    ),
    section(
      'Collectives',
      collectivesTable(app) ??
        absent('This version does not list collectives one by one; who comes late stands above.'),
    ),
  );
}

/** What the rules say of single ranks comes first: it is what this view is opened for. */
function lateRank(app: App): HTMLElement | null {
  const found = app.report.findings.filter(
    (finding) => finding.ranks.length > 0 || finding.id.startsWith('ranks.'),
  );
  if (found.length === 0) {
    return null;
  }
  return h(
    'div',
    { class: `card severity-${found[0]?.severity ?? 'low'}` },
    ...found.map((finding) =>
      h(
        'p',
        {},
        h('strong', {}, `${finding.title}: `),
        finding.ranks.length > 0 && `rank ${finding.ranks.join(', ')}. `,
        finding.fix.text,
      ),
    ),
  );
}

function rankBars(sums: readonly RankSum[]): HTMLElement[] {
  const most = Math.max(...sums.map((sum) => sum.totalNs), 1);
  return sums.map((sum) => {
    const cause = largest(sum.idle);
    const first = sum.steps[0];
    return h(
      'div',
      { class: 'device' },
      h(
        'p',
        {},
        h('strong', {}, capital(rankName(sum.rank))),
        ` ${formatTime(Math.round(sum.totalNs))} a step; GPU idle ` +
          `${formatShare(sum.totalNs > 0 ? sum.idleNs / sum.totalNs : 0)}` +
          `${cause ? `, mostly ${cause.title}` : ''} `,
        first ? h('a', { href: linkToStep(first) }, 'Show in timeline') : null,
      ),
      partsBar(sum.parts, sum.totalNs, sum.totalNs / most),
      partsList(
        sum.parts.map((part) => ({ ...part, ns: Math.round(part.ns) })),
        sum.totalNs,
      ),
    );
  });
}

function ranksTable(sums: readonly RankSum[]): HTMLElement {
  const number = (title: string) => ({ title, isNumber: true });
  return plainTable(
    'Ranks',
    [
      { title: 'rank' },
      number('steps'),
      number('mean step'),
      number('on the host'),
      ...PART_TITLES.map(([, title]) => number(title)),
      number('idle'),
    ],
    sums.map((sum) => [
      rankName(sum.rank),
      String(sum.steps.length),
      formatTime(Math.round(sum.totalNs)),
      formatTime(Math.round(sum.hostNs)),
      ...sum.parts.map((part) => formatTime(Math.round(part.ns))),
      formatTime(Math.round(sum.idleNs)),
    ]),
  );
}
