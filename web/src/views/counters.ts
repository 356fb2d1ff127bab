// Counters of what was repaired, dropped or guessed, with the sentences of core/store/stats.def.
import type { Input } from '../data/report';
import { words } from '../format';

/** Put in by build.mjs. */
declare const KS_COUNTERS: Readonly<Record<string, { severity: string; sentence: string }>>;

export interface CounterRow {
  readonly name: string;
  readonly count: number;
  /** info, repair, loss or cut */
  readonly severity: string;
  readonly sentence: string;
}

/** Sums over all inputs, by name. A counter that this page does not know counts as a loss. */
export function countersOf(inputs: readonly Input[]): CounterRow[] {
  const sums = new Map<string, number>();
  for (const input of inputs) {
    for (const [name, count] of Object.entries(input.counts)) {
      sums.set(name, (sums.get(name) ?? 0) + count);
    }
  }
  return [...sums].map(([name, count]) => {
    const known = Object.hasOwn(KS_COUNTERS, name) ? KS_COUNTERS[name] : undefined;
    return {
      name,
      count,
      severity: known?.severity ?? 'loss',
      sentence: known?.sentence ?? words(name),
    };
  });
}
