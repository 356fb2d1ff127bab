// Types of the document `kinetoscope.report/1` (docs/report.schema.json), as far as the page shows
// it. Lists that a version of the program does not write yet are optional.
import type { Maybe } from '../format';

export type Parts = Readonly<Record<string, number>>;

export interface Place {
  readonly steps?: readonly number[];
  readonly rank?: number | null;
  readonly device?: number | null;
  readonly stream?: number | null;
  readonly operator?: string | null;
  readonly module?: string | null;
  readonly file?: string | null;
  readonly line?: number | null;
  readonly function?: string | null;
}

export interface Range {
  readonly low: number | null;
  readonly high: number | null;
}

export interface Evidence {
  readonly name: string;
  readonly value: number | null;
  readonly unit: string;
}

export interface Finding {
  readonly order: number;
  readonly id: string;
  readonly title: string;
  readonly impact: string;
  readonly severity: string;
  readonly confidence: string;
  readonly share: number | null;
  readonly saving_ns_per_step: Range;
  readonly saving_in_trace_ns_per_step: Range;
  readonly bytes: number | null;
  readonly steps_until_oom: number | null;
  readonly cause: string | null;
  readonly group: string;
  readonly primary: boolean;
  readonly ranks: readonly number[];
  readonly evidence: readonly Evidence[];
  readonly where: Place;
  readonly fix: { readonly text: string | null; readonly code: string | null };
  readonly verify: string | null;
}

export interface Step {
  readonly number: number;
  readonly index: number;
  readonly name: string | null;
  readonly rank: number | null;
  readonly kind: string;
  readonly source: string;
  readonly complete: boolean;
  readonly start_ns: number;
  readonly host_start_ns: number;
  readonly host_ns: number;
  readonly dur_ns: number;
  readonly unprofiled_ns: number | null;
  readonly breakdown_ns: Parts;
  readonly idle_ns: number;
  readonly idle_by_cause_ns: Parts;
  readonly phases_ns: Parts;
}

export interface Device {
  readonly rank: number | null;
  readonly device: number | null;
  readonly name: string | null;
  readonly span_ns: number;
  readonly busy_ns: number;
  readonly idle_ns: number;
  readonly util: number | null;
  readonly compute_ns: number;
  readonly comm_ns: number;
  readonly exposed_comm_ns: number;
  readonly memcpy_ns: number;
  readonly tensor_core_share: number | null;
  readonly idle_by_cause_ns: Parts;
}

export interface Input {
  readonly path: string;
  readonly format: string | null;
  readonly compression: string | null;
  readonly status: string;
  readonly events: number;
  readonly bytes: number;
  readonly rank: number | null;
  readonly counts: Readonly<Record<string, number>>;
}

export interface Check {
  readonly id: string;
  readonly state: 'fine' | 'could_not';
  readonly reason: string | null;
}

export interface Opportunity {
  readonly id: string;
  readonly title: string;
  readonly text: string;
  readonly code: string | null;
  readonly saves_at_most_ns_per_step: number | null;
  readonly evidence: readonly Evidence[];
}

export interface Gpu {
  readonly rank: number | null;
  readonly device: number | null;
  readonly name: string | null;
  readonly memory_bytes: number | null;
  readonly sm_count: number | null;
  readonly compute_capability: string | null;
}

export interface Loader {
  readonly rank: number | null;
  readonly name: string;
  readonly single_process: boolean;
  readonly batches: number;
  readonly wait_ns: number;
  readonly idle_wait_ns: number;
  readonly collate_ns: number;
  readonly fetch_ns: number;
  readonly transfer_ns: number;
  readonly first_batch_ns: number;
  readonly step_wait_ns: { readonly median: Maybe; readonly p95: Maybe; readonly max: Maybe };
}

/** A row of a list whose keys the tables name themselves. */
export type Row = Readonly<Record<string, unknown>>;

export interface Report {
  readonly schema: string;
  readonly generator: string;
  readonly verdict: { readonly text: string; readonly bound_by: string; readonly share: Maybe };
  readonly environment: {
    readonly torch: string | null;
    readonly cuda: string | null;
    readonly driver: string | null;
    readonly gpus: readonly Gpu[];
    readonly cpu: string | null;
    readonly cgroup: string | null;
  };
  readonly overhead: {
    readonly profiler_ns: number;
    readonly row_cost_ns: number | null;
    readonly predicted_step_ns: { low: number; middle: number; high: number } | null;
    readonly measured_step_ns: number | null;
  };
  readonly inputs: readonly Input[];
  readonly origin_ns: string;
  readonly steps: readonly Step[];
  readonly devices: readonly Device[];
  readonly operators: readonly Row[];
  readonly kernels: readonly Row[];
  readonly streams: readonly Row[];
  readonly copies: readonly Row[];
  readonly copy_sites: readonly Row[];
  readonly syncs: readonly Row[];
  readonly places: readonly Row[];
  readonly regions: readonly Row[];
  readonly functions: readonly Row[];
  readonly samples: readonly Row[];
  readonly counters: readonly Row[];
  readonly instants: readonly Row[];
  readonly collectives?: readonly Row[];
  readonly modules?: readonly Row[];
  readonly compile?: Row | readonly Row[] | null;
  readonly memory?: { readonly devices?: readonly Row[] } | null;
  readonly links: Readonly<Record<string, unknown>>;
  readonly data_loading: { readonly loaders: readonly Loader[] };
  readonly findings: readonly Finding[];
  readonly plan: readonly {
    readonly finding: string;
    readonly step_ns_after: { readonly low: number; readonly high: number };
  }[];
  readonly checked: readonly Check[];
  readonly opportunities: readonly Opportunity[];
  readonly truncated?: Readonly<Record<string, number>>;
  readonly reasons: Readonly<Record<string, string>>;
}

/** The lists that must be there for the page to work; a document without one is not a report. */
const LISTS = ['inputs', 'steps', 'devices', 'operators', 'kernels', 'findings', 'checked'];

/** Checks what everything else relies on; null when `value` is no report. */
export function asReport(value: unknown): Report | null {
  if (typeof value !== 'object' || value === null) {
    return null;
  }
  const document = value as Record<string, unknown>;
  const isReport =
    String(document['schema']).startsWith('kinetoscope.report/') &&
    LISTS.every((key) => Array.isArray(document[key]));
  return isReport ? (value as Report) : null;
}

/** How many rows of a list there are in all, with those that `--limit` has cut. */
export function totalOf(report: Report, list: string, here: number): number {
  return Math.max(report.truncated?.[list] ?? here, here);
}

/** "train.py:287", or null when no line is known. */
export function lineOf(place: Place): string | null {
  if (!place.file) {
    return null;
  }
  return place.line === null || place.line === undefined
    ? place.file
    : `${place.file}:${place.line}`;
}

/** The rank for people: traces of one process do not say. */
export function rankName(rank: number | null | undefined): string {
  return rank === null || rank === undefined ? 'the one process' : `rank ${rank}`;
}
