// The block `compare`: the document `kinetoscope.diff/1` (docs/diff.schema.json), as far as the
// page shows it.
import type { Maybe } from '../format';
import type { Row } from './report';

export interface Estimate {
  readonly value: Maybe;
  readonly low: Maybe;
  readonly high: Maybe;
}

export interface Run {
  readonly name: string;
  readonly path: string | null;
  readonly paths: number;
  readonly events: number;
  readonly ranks: number;
  readonly torch: string | null;
  readonly device: string;
  readonly step_count: number;
  readonly cut_steps: number;
  readonly complete: boolean;
  readonly mean_step_ns: Estimate;
  readonly median_step_ns: Maybe;
  readonly min_step_ns: Maybe;
  readonly max_step_ns: Maybe;
  readonly std_step_ns: Maybe;
  readonly measured_step_ns: Maybe;
  readonly predicted_step_ns: { readonly middle: number } | null;
  readonly steps: readonly { readonly number: number; readonly dur_ns: number }[];
}

export interface ChangedPart {
  readonly group: string;
  readonly name: string;
  readonly a_ns: Maybe;
  readonly b_ns: Maybe;
  readonly change_ns: Maybe;
}

export interface ChangedFinding {
  readonly state: 'gone' | 'new' | 'still';
  readonly id: string;
  readonly title: string;
  readonly a: { readonly saving_low_ns: Maybe; readonly saving_high_ns: Maybe };
  readonly b: { readonly saving_low_ns: Maybe; readonly saving_high_ns: Maybe };
}

export interface Comparison {
  readonly verdict: { readonly text: string; readonly step: string; readonly reason: string };
  readonly runs: readonly Run[];
  readonly step: { readonly change_ns: Estimate; readonly ratio: Estimate };
  readonly recording: readonly {
    readonly what: string;
    readonly a: string | null;
    readonly b: string | null;
    readonly note: string;
  }[];
  readonly parts: readonly ChangedPart[];
  readonly operators: readonly Row[];
  readonly kernels: readonly Row[];
  readonly memory: readonly Row[];
  readonly findings: readonly ChangedFinding[];
  readonly truncated?: Readonly<Record<string, number>>;
}

/** Throws when the block is something else: the view then says that the page is damaged. */
export function asComparison(value: unknown): Comparison {
  const document = value as { schema?: unknown; runs?: unknown[] } | null;
  if (!String(document?.schema).startsWith('kinetoscope.diff/') || document?.runs?.length !== 2) {
    throw new Error('no comparison');
  }
  return value as Comparison;
}
