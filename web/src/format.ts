// Numbers as the terminal report writes them (core/show/units.c): three significant digits.

/** Shown where a value is null: the report says why under `reasons`. */
export const NOTHING = '–';

export type Maybe = number | null | undefined;

/** As printf("%.*f") rounds: exact ties go to the even digit, where toFixed goes up. */
function fixed(value: number, decimals: number): string {
  const shifted = value * 10 ** decimals;
  const whole = Math.floor(shifted);
  const isTie = shifted - whole === 0.5 && Number.isInteger(value * 2 ** (decimals + 1));
  return isTie && whole % 2 === 0
    ? (whole / 10 ** decimals).toFixed(decimals)
    : value.toFixed(decimals);
}

function threeDigits(value: number): string {
  return fixed(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

function scaled(value: number, step: number, units: readonly string[]): string {
  const sign = value < 0 ? '-' : '';
  let size = Math.abs(value);
  let unit = 0;
  while (unit + 1 < units.length && size >= 999.5) {
    size /= step;
    unit++;
  }
  const name = units[unit] ?? '';
  if (size >= 999.5) {
    return `${sign}${formatCount(Math.round(size))} ${name}`;
  }
  if (unit === 0 && Number.isInteger(size)) {
    return `${sign}${size} ${name}`;
  }
  return `${sign}${threeDigits(size)} ${name}`;
}

export function formatTime(ns: Maybe): string {
  return isNumber(ns) ? scaled(ns, 1e3, ['ns', 'us', 'ms', 's']) : NOTHING;
}

export function formatBytes(bytes: Maybe): string {
  return isNumber(bytes) ? scaled(bytes, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']) : NOTHING;
}

export function formatRate(bytesPerS: Maybe): string {
  const units = ['B/s', 'kB/s', 'MB/s', 'GB/s', 'TB/s'];
  return isNumber(bytesPerS) ? scaled(bytesPerS, 1e3, units) : NOTHING;
}

export function formatFlops(flops: Maybe): string {
  if (!isNumber(flops)) {
    return NOTHING;
  }
  const units = ['', 'k', 'M', 'G', 'T', 'P', 'E'];
  return Math.abs(flops) < 999.5 ? fixed(flops, 0) : scaled(flops, 1e3, units);
}

export function formatCount(count: Maybe): string {
  if (!isNumber(count)) {
    return NOTHING;
  }
  const size = Math.abs(count);
  const [whole = '', rest] = String(Number.isInteger(size) ? size : +size.toFixed(2)).split('.');
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ',');
  return (count < 0 ? '-' : '') + grouped + (rest === undefined ? '' : `.${rest}`);
}

export function formatShare(share: Maybe): string {
  if (!isNumber(share)) {
    return NOTHING;
  }
  const percent = share * 100;
  if (percent > 0 && percent < 0.05) {
    return '<0.1 %';
  }
  return percent === 0 || percent >= 9.95 ? `${fixed(percent, 0)} %` : `${fixed(percent, 1)} %`;
}

/** A number whose unit the report names itself, as in `evidence[]`. */
export function formatAs(value: Maybe, unit: string): string {
  switch (unit) {
    case 'ns':
      return formatTime(value);
    case 'bytes':
      return formatBytes(value);
    case 'share':
      return formatShare(value);
    case 'count':
      return formatCount(value);
    default:
      return isNumber(value) ? `${Number(value.toPrecision(6))} ${unit}` : NOTHING;
  }
}

/** Moments get more digits than durations: where things lie apart is what one looks for. */
export function formatMoment(ns: number): string {
  return Math.abs(ns) < 1e10 ? `${(ns / 1e6).toFixed(3)} ms` : `${(ns / 1e9).toFixed(4)} s`;
}

/** "host_code" is a key, "host code" a word. */
export function words(key: string): string {
  return key.replace(/_/g, ' ');
}

export function isNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}
