// Detail of the timeline on demand: parts of some tracks, as wide as a power of two, asked for when
// they come to sight and the levels that are there are too coarse.
import type { TileWish } from './source';
import type { Level, RawTile, Timeline, Track } from './timeline';

const PARTS = 8192; // at least two for each pixel of a wide screen
const KEPT_MAX = 48;
const ASKED_MAX = 3;
const AGAIN_MS = 3000; // after a failure

interface Tile {
  readonly levels: readonly (readonly [Track, Level])[];
}

export class Tiles {
  /** In the order in which they were last of use. */
  private readonly kept = new Map<string, Tile>();
  private readonly asked = new Set<string>();
  private failedAt = -Infinity;

  constructor(
    private readonly timeline: Timeline,
    private readonly load: (wish: TileWish) => Promise<RawTile>,
    private readonly onLoaded: () => void,
  ) {}

  get isWaiting(): boolean {
    return this.asked.size > 0;
  }

  /** Asks for what is in sight and not there. */
  want(fromNs: number, toNs: number, tracks: readonly Track[]): void {
    const { startNs, endNs } = this.timeline;
    const width = 2 ** Math.ceil(Math.log2(Math.max(toNs - fromNs, 1)));
    const first = Math.floor((fromNs - startNs) / width);
    const last = Math.floor((toNs - startNs) / width);
    for (let i = Math.max(first, 0); i <= last; i++) {
      const from = startNs + i * width;
      const to = Math.min(from + width, endNs);
      const missing = tracks.filter((track) => isTooCoarse(track, from, to, width));
      if (from < to) {
        this.use(`${width}:${i}:`, missing, { startNs: from, endNs: to, parts: PARTS });
      }
    }
  }

  private use(key: string, tracks: readonly Track[], part: Omit<TileWish, 'tracks'>): void {
    const isNew = (track: Track) => !this.asked.has(key + track.id) && !this.touch(key + track.id);
    const wanted = tracks.filter(isNew);
    const isPaused = performance.now() < this.failedAt + AGAIN_MS;
    if (wanted.length === 0 || isPaused || this.asked.size >= ASKED_MAX * wanted.length) {
      return;
    }
    const keys = wanted.map((track) => key + track.id);
    keys.forEach((each) => this.asked.add(each));
    this.load({ ...part, tracks: wanted.map((track) => track.id) })
      .then((raw) => this.keep(key, raw))
      .catch(() => (this.failedAt = performance.now()))
      .finally(() => {
        keys.forEach((each) => this.asked.delete(each));
        this.onLoaded();
      });
  }

  /** Is it there? Then it is the last to go. */
  private touch(key: string): boolean {
    const tile = this.kept.get(key);
    if (tile) {
      this.kept.delete(key);
      this.kept.set(key, tile);
    }
    return tile !== undefined;
  }

  private keep(key: string, raw: RawTile): void {
    for (const [track, levels] of this.timeline.addTile(raw)) {
      this.kept.set(key + track.id, { levels: levels.map((level) => [track, level]) });
    }
    const most = KEPT_MAX * this.timeline.tracks.length;
    for (const [old, tile] of this.kept) {
      if (this.kept.size <= most) {
        break;
      }
      this.kept.delete(old);
      tile.levels.forEach(([track, level]) => track.removeLevel(level));
    }
  }
}

function isTooCoarse(track: Track, from: number, to: number, width: number): boolean {
  return track
    .cover(from, to)
    .some(({ level }) => !level.isExact && level.resolutionNs > (2 * width) / PARTS);
}
