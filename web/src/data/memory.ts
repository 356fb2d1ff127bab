// The block `memory`: curves of allocated and reserved bytes of each device.
import { undelta } from './blocks';

export interface MemoryCurve {
  readonly device: string;
  readonly ts: Float64Array;
  readonly allocatedMin: readonly number[];
  readonly allocatedMax: readonly number[];
  readonly reserved: readonly (number | null)[];
}

interface RawCurve {
  readonly device: unknown;
  readonly rank?: number | null;
  readonly ts: readonly number[];
  readonly allocated_min?: readonly number[];
  readonly allocated_max?: readonly number[];
  readonly reserved?: readonly (number | null)[];
}

export function asMemory(value: unknown): MemoryCurve[] {
  const raw = value as { devices?: readonly RawCurve[] } | null;
  if (!raw || !Array.isArray(raw.devices)) {
    return [];
  }
  return raw.devices
    .filter((curve: RawCurve) => curve.ts.length > 0)
    .map((curve: RawCurve) => ({
      device: nameOf(curve.device, curve.rank ?? null),
      ts: undelta(curve.ts),
      allocatedMin: curve.allocated_min ?? curve.allocated_max ?? [],
      allocatedMax: curve.allocated_max ?? [],
      reserved: curve.reserved ?? [],
    }));
}

function nameOf(device: unknown, rank: number | null): string {
  const name = typeof device === 'number' ? `GPU ${device}` : String(device ?? 'device');
  return rank === null ? name : `${name}, rank ${rank}`;
}
