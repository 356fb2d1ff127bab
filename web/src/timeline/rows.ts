// Where tracks and counters stand, from top to bottom.
import type { Counter, Timeline, Track } from '../data/timeline';

export const RULER_HEIGHT = 24;
export const LANE_HEIGHT = 18;
const ROW_PAD = 7;
const COUNTER_HEIGHT = 44;
const LANES_FOLDED = 6; // deep stacks start folded, so that threads and streams are seen together

export interface Row {
  readonly track: Track | null;
  readonly counter: Counter | null;
  readonly title: string;
  readonly subtitle: string;
  readonly top: number;
  readonly height: number;
  readonly lanes: number;
  readonly lanesHidden: number;
}

export class Rows {
  rows: readonly Row[] = [];
  height = 0;
  private readonly open = new Set<number>();

  constructor(private readonly timeline: Timeline) {
    this.lay();
  }

  /** Folds a deep track, or shows all of its lanes. */
  toggle(track: Track): void {
    if (!this.open.delete(track.id)) {
      this.open.add(track.id);
    }
    this.lay();
  }

  isOpen(track: Track): boolean {
    return this.open.has(track.id);
  }

  /** Makes sure that lane `depth` can be seen. */
  reveal(track: Track, depth: number): void {
    if (depth >= LANES_FOLDED && !this.open.has(track.id)) {
      this.toggle(track);
    }
  }

  /** The row at a height counted from the top of all rows. */
  at(y: number): Row | null {
    return this.rows.find((row) => y >= row.top && y < row.top + row.height) ?? null;
  }

  of(track: Track): Row | null {
    return this.rows.find((row) => row.track === track) ?? null;
  }

  private lay(): void {
    const rows: Row[] = [];
    let top = 0;
    for (const track of this.timeline.tracks) {
      const lanes = this.open.has(track.id)
        ? track.depthCount
        : Math.min(track.depthCount, LANES_FOLDED);
      const height = Math.max(lanes * LANE_HEIGHT, 30) + ROW_PAD * 2;
      rows.push({
        track,
        counter: null,
        title: track.name,
        subtitle: subtitleOf(track),
        top,
        height,
        lanes,
        lanesHidden: track.depthCount - lanes,
      });
      top += height;
    }
    for (const counter of this.timeline.counters) {
      rows.push({
        track: null,
        counter,
        title: counter.rank === null ? counter.name : `${counter.name}, rank ${counter.rank}`,
        subtitle: counter.unit,
        top,
        height: COUNTER_HEIGHT + ROW_PAD * 2,
        lanes: 1,
        lanesHidden: 0,
      });
      top += COUNTER_HEIGHT + ROW_PAD * 2;
    }
    this.rows = rows;
    this.height = top;
  }
}

export function laneTop(row: Row, depth: number): number {
  return row.top + ROW_PAD + depth * LANE_HEIGHT;
}

function subtitleOf(track: Track): string {
  const rank = track.rank === null ? '' : `rank ${track.rank}`;
  return [rank, track.process].filter((part) => part !== '' && part !== track.name).join(', ');
}
