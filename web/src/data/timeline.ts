// The block `timeline`: tracks of spans at several levels of detail. Columns are decoded when a
// track is first looked at, into one set of typed arrays for each lane (depth) of each level.
import { undelta } from './blocks';

interface RawLevel {
  readonly start_ns: number;
  readonly end_ns: number;
  readonly resolution_ns: number;
  readonly is_exact: boolean;
  readonly ts: readonly number[];
  readonly dur: readonly number[];
  readonly depth: readonly number[];
  readonly name: readonly number[];
  readonly count: readonly number[];
}

interface RawTrack {
  readonly id: number;
  readonly kind: string;
  readonly name: string;
  readonly rank?: number | null;
  readonly process?: string | null;
  readonly depth_max: number;
  readonly events: number;
  readonly levels: readonly RawLevel[];
}

interface RawCounter {
  readonly name: string;
  readonly unit?: string | null;
  readonly rank?: number | null;
  readonly ts: readonly number[];
  readonly min: readonly number[];
  readonly max: readonly number[];
}

interface RawFlows {
  readonly from_track: readonly number[];
  readonly from_ns: readonly number[];
  readonly to_track: readonly number[];
  readonly to_ns: readonly number[];
}

/** What a server gives for a part of the timeline; names are places in its own `strings`. */
export interface RawTile {
  readonly strings: readonly string[];
  readonly tracks: readonly { readonly id: number; readonly levels: readonly RawLevel[] }[];
  readonly flows?: RawFlows;
}

/** Spans that a server found, by time; names are places in its own `strings`. */
export interface RawFound {
  readonly is_cut: boolean;
  readonly strings: readonly string[];
  readonly track: readonly number[];
  readonly start_ns: readonly number[];
  readonly dur: readonly number[];
  readonly depth: readonly number[];
  readonly name: readonly number[];
}

/** A stretch that is held span by span, and what it is there for. */
export interface ExactRange {
  readonly start_ns: number;
  readonly end_ns: number;
  readonly why: string;
}

export interface RawTimeline {
  readonly origin_ns: string;
  readonly start_ns: number;
  readonly end_ns: number;
  readonly strings: readonly string[];
  readonly names_left_out?: number;
  readonly samples_left_out?: number;
  readonly ranges?: readonly ExactRange[];
  readonly tracks: readonly RawTrack[];
  readonly counters?: readonly RawCounter[];
  readonly flows?: RawFlows;
}

/** Spans of one depth, by start. */
export interface Lane {
  readonly ts: Float64Array;
  readonly end: Float64Array;
  /** The latest end up to here: never falls, so that it can be searched. */
  readonly reach: Float64Array;
  readonly name: Uint32Array;
  readonly count: Uint32Array;
}

export interface Level {
  readonly startNs: number;
  readonly endNs: number;
  readonly resolutionNs: number;
  readonly isExact: boolean;
  readonly lanes: readonly Lane[];
}

/** A part of what is seen, and the level to draw it from. */
export interface Piece {
  readonly level: Level;
  readonly fromNs: number;
  readonly toNs: number;
}

export interface Counter {
  readonly name: string;
  readonly rank: number | null;
  readonly unit: string;
  readonly ts: Float64Array;
  readonly min: readonly number[];
  readonly max: readonly number[];
  readonly least: number;
  readonly top: number;
  /** Where its axis begins: at 0, or below it. */
  readonly bottom: number;
}

export interface Flow {
  readonly fromTrack: number;
  readonly fromNs: number;
  readonly toTrack: number;
  readonly toNs: number;
}

/** One span of a level: what is hovered, selected or found. */
export interface Span {
  readonly track: Track;
  readonly level: Level;
  readonly depth: number;
  readonly index: number;
  readonly startNs: number;
  readonly endNs: number;
  readonly name: number;
  readonly count: number;
}

export class Track {
  readonly id: number;
  readonly kind: string;
  readonly name: string;
  readonly rank: number | null;
  readonly process: string;
  readonly events: number;
  readonly depthCount: number;
  private decoded: readonly Level[] | null = null;

  constructor(private readonly raw: RawTrack) {
    this.id = raw.id;
    this.kind = raw.kind;
    this.name = raw.name;
    this.rank = raw.rank ?? null;
    this.process = raw.process ?? '';
    this.events = raw.events;
    this.depthCount = Math.max(1, raw.depth_max);
  }

  /** From the finest to the coarsest. */
  get levels(): readonly Level[] {
    this.decoded ??= this.raw.levels.map((level) => decodeLevel(level)).sort(byFineness);
    return this.decoded;
  }

  addLevel(level: Level): void {
    this.decoded = [...this.levels, level].sort(byFineness);
  }

  removeLevel(level: Level): void {
    this.decoded = this.levels.filter((each) => each !== level);
  }

  /** Cuts [fromNs, toNs) into pieces, each of the finest level that covers it, by time. */
  cover(fromNs: number, toNs: number): Piece[] {
    const pieces: Piece[] = [];
    let open: (readonly [number, number])[] = [[fromNs, toNs]];
    for (const level of this.levels) {
      const left: (readonly [number, number])[] = [];
      for (const [from, to] of open) {
        const a = Math.max(from, level.startNs);
        const b = Math.min(to, level.endNs);
        if (a >= b) {
          left.push([from, to]);
          continue;
        }
        pieces.push({ level, fromNs: a, toNs: b });
        if (from < a) {
          left.push([from, a]);
        }
        if (b < to) {
          left.push([b, to]);
        }
      }
      open = left;
    }
    return pieces.sort((a, b) => a.fromNs - b.fromNs);
  }
}

function fineness(level: Level): number {
  return level.isExact ? 0 : Math.max(1, level.resolutionNs);
}

function byFineness(a: Level, b: Level): number {
  return fineness(a) - fineness(b);
}

/** `names`: where the names of the level are; without it they are where the level says. */
function decodeLevel(raw: RawLevel, names?: readonly number[]): Level {
  const ts = undelta(raw.ts);
  const sizes: number[] = [];
  for (const depth of raw.depth) {
    while (sizes.length <= depth) {
      sizes.push(0);
    }
    sizes[depth] = (sizes[depth] ?? 0) + 1;
  }
  const lanes = sizes.map(makeLane);
  const used = new Uint32Array(sizes.length);
  for (let i = 0; i < ts.length; i++) {
    const depth = raw.depth[i] ?? 0;
    const lane = lanes[depth];
    const at = used[depth] ?? 0;
    if (!lane) {
      continue;
    }
    const start = ts[i] ?? 0;
    const end = start + (raw.dur[i] ?? 0);
    lane.ts[at] = start;
    lane.end[at] = end;
    lane.reach[at] = at > 0 ? Math.max(lane.reach[at - 1] ?? 0, end) : end;
    const name = raw.name[i] ?? 0;
    lane.name[at] = names ? (names[name] ?? 0) : name;
    lane.count[at] = raw.count[i] ?? 1;
    used[depth] = at + 1;
  }
  return {
    startNs: raw.start_ns,
    endNs: raw.end_ns,
    resolutionNs: raw.resolution_ns,
    isExact: raw.is_exact,
    lanes,
  };
}

function makeLane(size: number): Lane {
  return {
    ts: new Float64Array(size),
    end: new Float64Array(size),
    reach: new Float64Array(size),
    name: new Uint32Array(size),
    count: new Uint32Array(size),
  };
}

/** The first index from `low` on whose value is above `limit`; values never fall. */
export function firstAbove(values: Float64Array, limit: number, low = 0): number {
  // Most searches of a frame end near where they start: steps double before they are halved.
  let step = 1;
  let high = low;
  while (high < values.length && (values[high] ?? 0) <= limit) {
    low = high + 1;
    high += step;
    step *= 2;
  }
  high = Math.min(high, values.length);
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((values[middle] ?? 0) <= limit) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

export function spanAt(track: Track, level: Level, depth: number, index: number): Span | null {
  const lane = level.lanes[depth];
  if (!lane || index < 0 || index >= lane.ts.length) {
    return null;
  }
  return {
    track,
    level,
    depth,
    index,
    startNs: lane.ts[index] ?? 0,
    endNs: lane.end[index] ?? 0,
    name: lane.name[index] ?? 0,
    count: lane.count[index] ?? 1,
  };
}

export class Timeline {
  readonly startNs: number;
  readonly endNs: number;
  readonly tracks: readonly Track[];
  readonly counters: readonly Counter[];
  readonly ranges: readonly ExactRange[];
  readonly namesLeftOut: number;
  readonly samplesLeftOut: number;
  private readonly names: string[];
  private readonly placeOfName = new Map<string, number>();
  private flowsByFrom: readonly Flow[] = [];
  private flowsByTo: readonly Flow[] = [];
  private readonly flowKeys = new Set<string>();
  private readonly byId = new Map<number, Track>();

  constructor(raw: RawTimeline) {
    this.startNs = raw.start_ns;
    this.endNs = Math.max(raw.end_ns, raw.start_ns + 1);
    this.names = [...raw.strings];
    this.ranges = raw.ranges ?? [];
    this.namesLeftOut = raw.names_left_out ?? 0;
    this.samplesLeftOut = raw.samples_left_out ?? 0;
    this.tracks = raw.tracks.map((track) => new Track(track));
    this.counters = (raw.counters ?? []).map(decodeCounter);
    this.addFlows(decodeFlows(raw.flows));
    for (const track of this.tracks) {
      this.byId.set(track.id, track);
    }
  }

  get strings(): readonly string[] {
    return this.names;
  }

  /** Gives the tracks of the tile their levels; a name that is known keeps its place. */
  addTile(raw: RawTile): (readonly [Track, readonly Level[]])[] {
    const names = raw.strings.map((text) => this.placeOf(text));
    const added: (readonly [Track, readonly Level[]])[] = [];
    for (const { id, levels } of raw.tracks) {
      const track = this.byId.get(id);
      if (track) {
        const decoded = levels.map((level) => decodeLevel(level, names));
        decoded.forEach((level) => track.addLevel(level));
        added.push([track, decoded]);
      }
    }
    this.addFlows(decodeFlows(raw.flows));
    return added;
  }

  /** The spans that a server found. They lie in a level of their own, which no track has. */
  addFound(raw: RawFound): Span[] {
    const names = raw.strings.map((text) => this.placeOf(text));
    const level: Level = { startNs: 0, endNs: 0, resolutionNs: 0, isExact: true, lanes: [] };
    return raw.start_ns.flatMap((startNs, index) => {
      const track = this.byId.get(raw.track[index] ?? -1);
      const endNs = startNs + (raw.dur[index] ?? 0);
      const name = names[raw.name[index] ?? 0] ?? 0;
      const depth = raw.depth[index] ?? 0;
      return track ? [{ track, level, depth, index, startNs, endNs, name, count: 1 }] : [];
    });
  }

  /** The span of a level that is there which is as `wanted` is, or null. */
  held(wanted: Span): Span | null {
    for (const level of wanted.track.levels) {
      const lane = level.lanes[wanted.depth];
      let i = lane ? firstAbove(lane.ts, wanted.startNs - 1) : 0;
      for (; lane && i < lane.ts.length && lane.ts[i] === wanted.startNs; i++) {
        const span = spanAt(wanted.track, level, wanted.depth, i);
        if (span?.name === wanted.name && span.endNs === wanted.endNs) {
          return span;
        }
      }
    }
    return null;
  }

  placeOf(text: string): number {
    if (this.placeOfName.size === 0) {
      this.names.forEach((name, i) => this.placeOfName.set(name, i));
    }
    let place = this.placeOfName.get(text);
    if (place === undefined) {
      place = this.names.push(text) - 1;
      this.placeOfName.set(text, place);
    }
    return place;
  }

  /** Tiles overlap, so a flow may come twice. */
  private addFlows(flows: readonly Flow[]): void {
    const isNew = ({ fromTrack, fromNs, toTrack, toNs }: Flow) => {
      const key = `${fromTrack} ${fromNs} ${toTrack} ${toNs}`;
      const before = this.flowKeys.size;
      return this.flowKeys.add(key).size > before;
    };
    const added = flows.filter(isNew);
    if (added.length > 0) {
      this.flowsByFrom = [...this.flowsByFrom, ...added].sort((a, b) => a.fromNs - b.fromNs);
      this.flowsByTo = [...this.flowsByFrom].sort((a, b) => a.toNs - b.toNs);
    }
  }

  track(id: number): Track | undefined {
    return this.byId.get(id);
  }

  nameOf(span: Span): string {
    return this.names[span.name] ?? '';
  }

  /** Launches inside of `span` with their work, and the launch of `span` itself. */
  flowsOf(span: Span): Flow[] {
    const limit = 200; // lines beyond that are one blot
    const id = span.track.id;
    const found: Flow[] = [];
    const end = Math.max(span.endNs, span.startNs + 1);
    for (const [flows, time, track] of [
      [this.flowsByFrom, 'fromNs', 'fromTrack'],
      [this.flowsByTo, 'toNs', 'toTrack'],
    ] as const) {
      let i = lowerBound(flows, (flow) => flow[time] >= span.startNs);
      for (; i < flows.length && found.length < limit; i++) {
        const flow = flows[i];
        if (!flow || flow[time] >= end) {
          break;
        }
        if (flow[track] === id) {
          found.push(flow);
        }
      }
    }
    return found;
  }

  /** Spans whose name holds `text`, by time; of each moment the finest level that has it. */
  search(text: string, limit: number): Span[] {
    const needle = text.toLowerCase();
    const wanted = new Set<number>();
    this.names.forEach((name, id) => {
      if (name.toLowerCase().includes(needle)) {
        wanted.add(id);
      }
    });
    const found: Span[] = [];
    if (wanted.size > 0 && needle !== '') {
      for (const track of this.tracks) {
        collect(track, track.cover(this.startNs, this.endNs), wanted, found, limit);
      }
    }
    return found.sort((a, b) => a.startNs - b.startNs).slice(0, limit);
  }
}

function collect(
  track: Track,
  pieces: readonly Piece[],
  wanted: ReadonlySet<number>,
  found: Span[],
  limit: number,
): void {
  pieces.forEach(({ level, fromNs, toNs }, piece) => {
    level.lanes.forEach((lane, depth) => {
      // Exact levels hold what reaches into them, too: a span belongs to the piece it starts in.
      const first = piece === 0 ? 0 : firstAbove(lane.ts, fromNs - 1);
      for (let i = first; i < lane.ts.length && (lane.ts[i] ?? 0) < toNs; i++) {
        if (wanted.has(lane.name[i] ?? 0) && found.length < limit * 4) {
          const span = spanAt(track, level, depth, i);
          if (span) {
            found.push(span);
          }
        }
      }
    });
  });
}

function lowerBound<T>(rows: readonly T[], isAtOrAfter: (row: T) => boolean): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const row = rows[middle];
    if (row !== undefined && !isAtOrAfter(row)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

function decodeCounter(raw: RawCounter): Counter {
  const least = raw.min.reduce((a, b) => Math.min(a, b), Infinity);
  return {
    name: raw.name,
    rank: raw.rank ?? null,
    unit: raw.unit ?? '',
    ts: undelta(raw.ts),
    min: raw.min,
    max: raw.max,
    least,
    top: raw.max.reduce((a, b) => Math.max(a, b), -Infinity),
    bottom: Math.min(0, least),
  };
}

function decodeFlows(raw: RawFlows | undefined): Flow[] {
  if (!raw) {
    return [];
  }
  return raw.from_ns.map((fromNs, i) => ({
    fromTrack: raw.from_track[i] ?? 0,
    fromNs,
    toTrack: raw.to_track[i] ?? 0,
    toNs: raw.to_ns[i] ?? 0,
  }));
}

/** Null when `value` is no timeline, or one without any track. */
export function asTimeline(value: unknown): Timeline | null {
  const raw = value as Partial<RawTimeline> | null;
  if (!raw || !Array.isArray(raw.tracks) || !Array.isArray(raw.strings)) {
    return null;
  }
  const hasRows = raw.tracks.length > 0 || (raw.counters?.length ?? 0) > 0;
  return hasRows ? new Timeline(raw as RawTimeline) : null;
}
