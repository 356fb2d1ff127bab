// Views that are tables of the report's lists: operators, kernels, modules, copies and waits,
// compiles.
import { type App, linkToName, type View, type ViewKind } from '../app';
import { lineOf, type Loader, type Place, type Row, totalOf } from '../data/report';
import { absent, h, plainTable, section } from '../dom';
import {
  formatBytes,
  formatCount,
  formatFlops,
  formatRate,
  formatShare,
  formatTime,
  isNumber,
  NOTHING,
  words,
} from '../format';
import { type Column, Table } from '../ui/table';
import { rangesOf } from './findings';

type Cell = Column<Row>;

function number(row: Row, key: string): number | null {
  const value = row[key];
  return isNumber(value) ? value : null;
}

function text(row: Row, key: string): string | null {
  const value = row[key];
  return typeof value === 'string' ? value : null;
}

function name(key = 'name', title = 'name'): Cell {
  return { key, title, value: (row) => text(row, key) ?? NOTHING, isName: true };
}

function word(key: string, title = words(key)): Cell {
  return {
    key,
    title,
    value: (row) => {
      const value = row[key];
      return typeof value === 'boolean' || typeof value === 'number' ? value : text(row, key);
    },
  };
}

function measured(format: (value: number | null) => string) {
  return (key: string, title: string, help?: string): Cell => ({
    key,
    title,
    value: (row) => number(row, key),
    text: (row) => format(number(row, key)),
    ...(help ? { help } : {}),
  });
}

const time = measured(formatTime);
const count = measured(formatCount);
const bytes = measured(formatBytes);
const share = measured(formatShare);
const rate = measured(formatRate);
const flops = measured(formatFlops);

const where: Cell = {
  key: 'where',
  title: 'line',
  value: (row) => lineOf((row['where'] ?? {}) as Place),
};
const operator: Cell = {
  key: 'operator',
  title: 'operator',
  value: (row) => ((row['where'] ?? {}) as Place).operator,
};
const steps: Cell = {
  key: 'steps',
  title: 'steps',
  value: (row) => rangesOf(((row['where'] ?? {}) as Place).steps ?? []) || null,
};

/** Columns in which at least one row says something other than no. */
function used(columns: readonly Cell[], rows: readonly Row[]): Cell[] {
  return columns.filter((column) =>
    rows.some((row) => {
      const value = column.value(row);
      return value !== null && value !== undefined && value !== NOTHING && value !== false;
    }),
  );
}

interface List {
  readonly id: string;
  readonly title: string;
  readonly list: string;
  readonly columns: readonly Cell[];
  readonly sortBy: string;
  readonly intro: string;
}

function table(app: App, list: List, filter = ''): Table<Row> {
  const rows = rowsOf(app, list.list);
  return new Table({
    name: list.title.toLowerCase(),
    columns: used(list.columns, rows),
    rows,
    total: totalOf(app.report, list.list, rows.length),
    sortBy: list.sortBy,
    filter,
    more: (row) => {
      const text = row['name'] ?? operator.value(row);
      return typeof text === 'string' ? h('p', { class: 'actions' }, timelineLink(text)) : null;
    },
  });
}

function timelineLink(find: string): HTMLElement {
  return h('a', { class: 'button', href: linkToName(find) }, 'Find in the timeline');
}

function rowsOf(app: App, list: string): readonly Row[] {
  const value = (app.report as unknown as Row)[list];
  return Array.isArray(value) ? (value as Row[]) : [];
}

/** A view of one list. */
function listView(list: List, absence: (app: App) => string): ViewKind {
  return {
    id: list.id,
    title: list.title,
    absentBecause: (app) => (rowsOf(app, list.list).length === 0 ? absence(app) : null),
    make: (app) => {
      const all = table(app, list);
      const element = h('div', { class: 'view' });
      element.append(h('h1', {}, list.title), h('p', { class: 'muted' }, list.intro), all.element);
      return {
        element,
        show: (params) => {
          const filter = params.get('filter');
          if (filter !== null) {
            all.setFilter(filter);
          }
        },
      };
    },
  };
}

export const operatorsView = listView(
  {
    id: 'operators',
    title: 'Operators',
    list: 'operators',
    sortBy: 'self_cpu_ns',
    intro: 'What the host ran, by name. Self times leave out what was called from inside.',
    columns: [
      name(),
      word('kind'),
      { key: 'input_shapes', title: 'shapes', value: (row) => text(row, 'input_shapes') },
      count('calls', 'calls'),
      time('self_cpu_ns', 'self CPU', 'As torch computes it.'),
      time('self_exclusive_ns', 'exclusive', 'Self time without Python frames, never negative.'),
      time('cpu_ns', 'CPU'),
      time('self_device_ns', 'self GPU'),
      time('device_ns', 'GPU'),
      bytes('self_cpu_bytes', 'self CPU memory'),
      bytes('self_device_bytes', 'self GPU memory'),
      flops('flops', 'FLOP'),
    ],
  },
  () => 'The inputs hold no operator: they have no host events.',
);

export const kernelsView = listView(
  {
    id: 'kernels',
    title: 'Kernels',
    list: 'kernels',
    sortBy: 'total_ns',
    intro: 'What the GPUs ran, by name.',
    columns: [
      name(),
      word('kind'),
      word('device', 'GPU'),
      count('calls', 'calls'),
      time('total_ns', 'total'),
      time('mean_ns', 'mean'),
      time('min_ns', 'shortest'),
      time('max_ns', 'longest'),
      word('tensor_core', 'tensor cores'),
      word('communication', 'collective'),
      share('occupancy', 'occupancy'),
    ],
  },
  () => 'No GPU work was recorded: the program ran on the CPU, or without the CUDA activity.',
);

export const modulesView: ViewKind = genericView(
  'modules',
  'Modules',
  'No calls of modules were recorded: with_stack=True of the profiler records them, and so do ' +
    'TorchProfilingHooks in a recording.',
);

export const compileView: ViewKind = genericView(
  'compile',
  'Compile',
  'No compilation was recorded, or this version does not list compiles. Recompiles are judged ' +
    'under Overview: compile.recompiles.',
);

/** A list whose keys are not known here: columns by key, units by the ends of keys. */
function genericView(id: string, title: string, absence: string): ViewKind {
  const rowsIn = (app: App): readonly Row[] => {
    const value = (app.report as unknown as Row)[id];
    if (Array.isArray(value)) {
      return value as Row[];
    }
    return typeof value === 'object' && value !== null ? [value as Row] : [];
  };
  return {
    id,
    title,
    absentBecause: (app) => (rowsIn(app).length === 0 ? absence : null),
    make: (app) => {
      const rows = rowsIn(app);
      const keys = [...new Set(rows.flatMap((row) => Object.keys(row)))];
      const columns = keys.map((key, i) => genericColumn(key, i === 0));
      const total = totalOf(app.report, id, rows.length);
      const all = new Table({
        name: title.toLowerCase(),
        columns: used(columns, rows),
        rows,
        total,
      });
      return {
        element: h('div', { class: 'view' }, h('h1', {}, title), all.element),
      } satisfies View;
    },
  };
}

function genericColumn(key: string, isFirst: boolean): Cell {
  if (key.endsWith('_ns')) {
    return time(key, words(key.slice(0, -3)));
  }
  if (key.endsWith('bytes')) {
    return bytes(key, words(key));
  }
  return isFirst ? name(key, words(key)) : word(key);
}

// Copies, waits and data loading: three lists on one page.

const COPIES: List = {
  id: 'copies',
  title: 'Copies',
  list: 'copies',
  sortBy: 'total_ns',
  intro: '',
  columns: [
    name('kind', 'kind'),
    count('calls', 'calls'),
    bytes('bytes', 'bytes'),
    time('total_ns', 'total'),
    rate('bytes_per_s', 'rate'),
  ],
};

const COPY_SITES: List = {
  id: 'copy_sites',
  title: 'Copies by place',
  list: 'copy_sites',
  sortBy: 'device_ns',
  intro: '',
  columns: [
    name('kind', 'kind'),
    where,
    operator,
    word('call', 'call'),
    word('pageable', 'pageable'),
    count('count', 'count'),
    count('count_per_step', 'a step'),
    bytes('bytes', 'bytes'),
    time('device_ns', 'GPU time'),
    time('operator_ns', 'in operators'),
    steps,
  ],
};

const SYNCS: List = {
  id: 'syncs',
  title: 'Waits for the GPU',
  list: 'syncs',
  sortBy: 'wait_ns',
  intro: '',
  columns: [
    { ...name('call', 'call') },
    where,
    {
      key: 'function',
      title: 'function',
      value: (row) => ((row['where'] ?? {}) as Place).function,
    },
    operator,
    count('count', 'count'),
    count('count_per_step', 'a step'),
    time('wait_ns', 'waits', 'While a GPU of the rank works.'),
    time('total_ns', 'takes'),
    steps,
  ],
};

export const copiesView: ViewKind = {
  id: 'copies',
  title: 'Copies, waits, data',
  absentBecause: (app) => {
    const isEmpty = ['copies', 'copy_sites', 'syncs'].every((key) => rowsOf(app, key).length === 0);
    return isEmpty && app.report.data_loading.loaders.length === 0
      ? 'No copies, no calls that wait for the GPU, and no data loader were recorded.'
      : null;
  },
  make: (app) => ({
    element: h(
      'div',
      { class: 'view' },
      h('h1', {}, 'Copies, waits, and data loading'),
      part(app, SYNCS, 'No call waited for the GPU.'),
      part(app, COPIES, 'No copy between host and GPU was recorded.'),
      rowsOf(app, COPY_SITES.list).length > 0 && part(app, COPY_SITES, ''),
      loaders(app.report.data_loading.loaders),
    ),
  }),
};

function part(app: App, list: List, absence: string): HTMLElement {
  const isEmpty = rowsOf(app, list.list).length === 0;
  return section(list.title, isEmpty ? absent(absence) : table(app, list).element);
}

function loaders(all: readonly Loader[]): HTMLElement {
  if (all.length === 0) {
    return section('Data loading', absent('No data loader was seen on the threads of the steps.'));
  }
  const numbers = [
    'batches',
    'waits',
    'GPU idle',
    'fetch',
    'collate',
    'a step, median',
    'p95',
    'most',
  ];
  return section(
    'Data loading',
    plainTable(
      'Data loaders',
      [{ title: 'loader' }, ...numbers.map((title) => ({ title, isNumber: true }))],
      all.map((loader) => [
        `${loader.name}${isNumber(loader.rank) ? ` (rank ${loader.rank})` : ''}` +
          `${loader.single_process ? ', in the process itself' : ''}`,
        formatCount(loader.batches),
        formatTime(loader.wait_ns),
        formatTime(loader.idle_wait_ns),
        formatTime(loader.fetch_ns),
        formatTime(loader.collate_ns),
        formatTime(loader.step_wait_ns.median),
        formatTime(loader.step_wait_ns.p95),
        formatTime(loader.step_wait_ns.max),
      ]),
    ),
  );
}

// Lists of recordings: regions, functions, samples.

const RECORDED: readonly List[] = [
  {
    id: 'functions',
    title: 'Functions',
    list: 'functions',
    sortBy: 'self_ns',
    intro: '',
    columns: [
      name(),
      { key: 'place', title: 'line', value: (row) => lineOf(row as Place) },
      count('calls', 'calls'),
      time('self_ns', 'self'),
      share('self_share', 'share'),
      time('total_ns', 'total'),
    ],
  },
  {
    id: 'regions',
    title: 'Regions',
    list: 'regions',
    sortBy: 'total_ns',
    intro: '',
    columns: [
      name(),
      word('category'),
      count('calls', 'calls'),
      time('total_ns', 'total'),
      time('self_ns', 'self'),
      time('mean_ns', 'mean'),
      time('min_ns', 'shortest'),
      time('max_ns', 'longest'),
    ],
  },
  {
    id: 'samples',
    title: 'Samples of stacks',
    list: 'samples',
    sortBy: 'self_samples',
    intro: '',
    columns: [
      name(),
      word('rank'),
      word('tid', 'thread'),
      word('thread', 'thread name'),
      { key: 'place', title: 'line', value: (row) => lineOf(row as Place) },
      count('self_samples', 'self'),
      share('self_share', 'share'),
      count('total_samples', 'total'),
      share('running_share', 'running'),
    ],
  },
  {
    id: 'counters',
    title: 'Counters',
    list: 'counters',
    sortBy: 'name',
    intro: '',
    columns: [
      name(),
      word('series'),
      word('unit'),
      word('rank'),
      count('count', 'values'),
      count('mean', 'mean'),
      count('min', 'least'),
      count('max', 'most'),
      count('last', 'last'),
    ],
  },
  {
    id: 'places',
    title: 'Operators by line',
    list: 'places',
    sortBy: 'total_ns',
    intro: '',
    columns: [
      name('operator', 'operator'),
      { key: 'place', title: 'line', value: (row) => lineOf(row as Place) },
      word('function'),
      word('kind'),
      count('calls', 'calls'),
      time('total_ns', 'total'),
    ],
  },
];

export const codeView: ViewKind = {
  id: 'code',
  title: 'Code',
  absentBecause: (app) =>
    RECORDED.every((list) => rowsOf(app, list.list).length === 0)
      ? 'Nothing names lines of the program: with_stack=True of the profiler, or a recording, does.'
      : null,
  make: (app) => ({
    element: h(
      'div',
      { class: 'view' },
      h('h1', {}, 'Code and recordings'),
      ...RECORDED.filter((list) => rowsOf(app, list.list).length > 0).map((list) =>
        section(list.title, table(app, list).element),
      ),
    ),
  }),
};

export const COLLECTIVES: List = {
  id: 'collectives',
  title: 'Collectives',
  list: 'collectives',
  sortBy: 'arrival_skew_ns',
  intro: '',
  columns: [
    name(),
    word('group'),
    word('sequence'),
    time('arrival_skew_ns', 'arrival skew'),
    word('last_rank', 'last rank'),
    time('transfer_ns', 'transfer'),
  ],
};

export function collectivesTable(app: App): HTMLElement | null {
  return rowsOf(app, 'collectives').length > 0 ? table(app, COLLECTIVES).element : null;
}
