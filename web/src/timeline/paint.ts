// Draws what is visible of a timeline, and nothing else. Spans narrower than a pixel share one: a
// lane costs at most a search for each pixel, however many spans it has.
import type { Counter, Flow, Lane, Piece, Span, Timeline } from '../data/timeline';
import { firstAbove } from '../data/timeline';
import { formatAs } from '../format';
import type { Fitter } from '../ui/canvas';
import { shortName } from '../ui/names';
import { fillOf, SLIVER_FILL, SPAN_INK, type Theme } from '../ui/palette';
import type { Camera } from './camera';
import { LANE_HEIGHT, laneTop, RULER_HEIGHT, type Row, type Rows } from './rows';

const LABEL_WIDTH_MIN = 26;
const SLIVER_WIDTH = 2.5;
const SPAN_HEIGHT = LANE_HEIGHT - 2;

export interface Scene {
  readonly timeline: Timeline;
  readonly camera: Camera;
  readonly rows: Rows;
  readonly theme: Theme;
  readonly fitter: Fitter;
  readonly width: number;
  readonly height: number;
  readonly gutter: number;
  readonly scrollY: number;
  readonly selected: Span | null;
  readonly hovered: Span | null;
  readonly matches: ReadonlySet<number>;
  readonly flows: readonly Flow[];
}

/** What was drawn from blocks of several spans, so that the page can say so. */
export interface Painted {
  readonly mergedSpans: number;
}

export function timeToX(scene: Scene, ns: number): number {
  const { camera, gutter, width } = scene;
  return gutter + ((ns - camera.fromNs) / camera.widthNs) * (width - gutter);
}

export function xToTime(scene: Scene, x: number): number {
  const { camera, gutter, width } = scene;
  return camera.fromNs + ((x - gutter) / (width - gutter)) * camera.widthNs;
}

export function paint(context: CanvasRenderingContext2D, scene: Scene): Painted {
  const { theme, width, height } = scene;
  context.font = theme.font;
  context.textBaseline = 'middle';
  context.fillStyle = theme.paper;
  context.fillRect(0, 0, width, height);
  const brush = new Brush(context, scene);
  for (const row of scene.rows.rows) {
    const top = row.top - scene.scrollY + RULER_HEIGHT;
    if (top + row.height > RULER_HEIGHT && top < height) {
      paintRow(context, scene, row, brush);
    }
  }
  brush.flush();
  paintFlows(context, scene);
  paintGutter(context, scene);
  paintRuler(context, scene);
  return { mergedSpans: brush.mergedSpans };
}

function paintRow(context: CanvasRenderingContext2D, scene: Scene, row: Row, brush: Brush): void {
  const top = row.top - scene.scrollY + RULER_HEIGHT;
  context.fillStyle = scene.theme.line;
  context.fillRect(0, Math.round(top + row.height) - 1, scene.width, 1);
  if (row.counter) {
    paintCounter(context, scene, row, row.counter);
  }
  if (!row.track) {
    return;
  }
  for (const piece of row.track.cover(scene.camera.fromNs, scene.camera.toNs)) {
    for (let depth = 0; depth < row.lanes; depth++) {
      const lane = piece.level.lanes[depth];
      const y = laneTop(row, depth) - scene.scrollY + RULER_HEIGHT;
      if (lane && y + LANE_HEIGHT > RULER_HEIGHT && y < scene.height) {
        paintLane(scene, row.track.kind, piece, lane, y, brush);
      }
    }
  }
}

function paintLane(
  scene: Scene,
  kind: string,
  piece: Piece,
  lane: Lane,
  y: number,
  brush: Brush,
): void {
  const pixelsPerNs = (scene.width - scene.gutter) / scene.camera.widthNs;
  const left = timeToX(scene, piece.fromNs);
  const right = timeToX(scene, piece.toNs);
  let i = firstAbove(lane.reach, piece.fromNs);
  while (i < lane.ts.length) {
    const ts = lane.ts[i] ?? 0;
    const end = lane.end[i] ?? 0;
    if (ts >= piece.toNs) {
      break;
    }
    const x0 = Math.max(left, scene.gutter + (ts - scene.camera.fromNs) * pixelsPerNs);
    const x1 = Math.min(right, scene.gutter + (end - scene.camera.fromNs) * pixelsPerNs);
    // A span that goes on in the next piece has no edge there, and one name.
    const isCut = end > piece.toNs && piece.toNs < scene.camera.toNs;
    const before = left - Math.max(scene.gutter, timeToX(scene, ts));
    brush.span(kind, lane, i, x0, x1, y, { isCut, isNamed: before >= LABEL_WIDTH_MIN });
    if (x1 - x0 >= 1) {
      i++;
    } else {
      // The rest of this pixel would be drawn over what was just drawn.
      const nextPixelNs = scene.camera.fromNs + (Math.floor(x0) + 1 - scene.gutter) / pixelsPerNs;
      i = Math.max(i + 1, firstAbove(lane.reach, nextPixelNs, i + 1));
    }
  }
}

/** Collects rectangles by fill: changing the fill for each span costs more than drawing it. */
class Brush {
  mergedSpans = 0;
  private readonly boxes = new Map<string, number[]>();
  private readonly marks: number[] = [];
  private readonly hatched: number[] = [];
  private readonly labels: (readonly [string, number, number])[] = [];
  private readonly fills = new Map<string, string[]>();

  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly scene: Scene,
  ) {}

  span(
    kind: string,
    lane: Lane,
    index: number,
    x0: number,
    x1: number,
    y: number,
    piece: { readonly isCut: boolean; readonly isNamed: boolean },
  ): void {
    const name = lane.name[index] ?? 0;
    const count = lane.count[index] ?? 1;
    const width = Math.max(x1 - x0 - (x1 - x0 > 3 && !piece.isCut ? 0.5 : 0), 1);
    addBox(this.boxesOf(kind, name, width), x0, y, width);
    if (count > 1) {
      this.mergedSpans += count;
      if (width > 3) {
        addBox(this.hatched, x0, y, width);
      }
    }
    if (this.scene.matches.size > 0 && this.scene.matches.has(name)) {
      addBox(this.marks, x0, y, width);
    }
    if (width >= LABEL_WIDTH_MIN && !piece.isNamed) {
      const text = shortName(this.scene.timeline.strings[name] ?? '');
      this.labels.push([count > 1 ? `${count} × ${text}` : text, x0, y]);
      this.labelRooms.push(width - 6);
    }
  }

  private readonly labelRooms: number[] = [];
  private readonly slivers: number[] = [];

  private boxesOf(kind: string, name: number, width: number): number[] {
    // Slivers of ten colours are noise; on a stream the colours tell copies from kernels.
    if (width < SLIVER_WIDTH && kind !== 'stream') {
      return this.slivers;
    }
    let fills = this.fills.get(kind);
    if (!fills) {
      fills = [];
      this.fills.set(kind, fills);
    }
    let fill = fills[name];
    if (fill === undefined) {
      fill = fillOf(this.scene.timeline.strings[name] ?? '', kind);
      fills[name] = fill;
    }
    let boxes = this.boxes.get(fill);
    if (!boxes) {
      boxes = [];
      this.boxes.set(fill, boxes);
    }
    return boxes;
  }

  flush(): void {
    const { context, scene } = this;
    context.save();
    context.beginPath();
    context.rect(scene.gutter, RULER_HEIGHT, scene.width, scene.height);
    context.clip();
    context.fillStyle = SLIVER_FILL;
    eachBox(this.slivers, (x, y, width) => context.fillRect(x, y, width, SPAN_HEIGHT));
    for (const [fill, boxes] of this.boxes) {
      context.fillStyle = fill;
      eachBox(boxes, (x, y, width) => context.fillRect(x, y, width, SPAN_HEIGHT));
    }
    // Blocks of several spans carry a bar below, as a stack of paper would.
    context.fillStyle = SPAN_INK;
    eachBox(this.hatched, (x, y, width) => context.fillRect(x, y + SPAN_HEIGHT - 2, width, 2));
    this.flushMarks();
    this.flushLabels();
    for (const span of [scene.hovered, scene.selected]) {
      this.outline(span);
    }
    context.restore();
  }

  /** Matches of the search: framed, or underlined where frames would cover each other. */
  private flushMarks(): void {
    const { context, scene } = this;
    context.strokeStyle = scene.theme.mark;
    context.fillStyle = scene.theme.mark;
    context.lineWidth = 2;
    eachBox(this.marks, (x, y, width) => {
      if (width > 8) {
        context.strokeRect(x + 1, y + 1, width - 2, SPAN_HEIGHT - 2);
      } else {
        context.fillRect(x, y + SPAN_HEIGHT - 4, width, 4);
      }
    });
  }

  private flushLabels(): void {
    this.context.fillStyle = SPAN_INK;
    this.labels.forEach(([text, x, y], i) => {
      const shown = this.scene.fitter.fit(text, this.labelRooms[i] ?? 0);
      if (shown !== '') {
        this.context.fillText(shown, x + 3, y + SPAN_HEIGHT / 2 + 0.5);
      }
    });
  }

  private outline(span: Span | null): void {
    const row = span && this.scene.rows.of(span.track);
    if (!span || !row || span.depth >= row.lanes) {
      return;
    }
    const x0 = Math.max(timeToX(this.scene, span.startNs), this.scene.gutter - 4);
    const x1 = Math.min(timeToX(this.scene, span.endNs), this.scene.width + 4);
    const y = laneTop(row, span.depth) - this.scene.scrollY + RULER_HEIGHT;
    this.context.strokeStyle = this.scene.theme.ink;
    this.context.lineWidth = span === this.scene.selected ? 2.5 : 1;
    this.context.strokeRect(x0, y, Math.max(x1 - x0, 2), SPAN_HEIGHT);
  }
}

const SEAM_WIDTH = 0.6; // narrower gaps cannot be seen

/** Adds a box, or makes the last one longer: a dense lane is one box in place of a thousand. */
function addBox(boxes: number[], x: number, y: number, width: number): void {
  const last = boxes.length - 3;
  if (last >= 0 && boxes[last + 1] === y) {
    const left = boxes[last] ?? 0;
    const right = left + (boxes[last + 2] ?? 0);
    if (width < SLIVER_WIDTH && x >= left && x <= right + SEAM_WIDTH) {
      boxes[last + 2] = Math.max(right, x + width) - left;
      return;
    }
  }
  boxes.push(x, y, width);
}

function eachBox(boxes: number[], draw: (x: number, y: number, width: number) => void): void {
  for (let i = 0; i + 2 < boxes.length; i += 3) {
    draw(boxes[i] ?? 0, boxes[i + 1] ?? 0, boxes[i + 2] ?? 0);
  }
}

/** From the launching call to its work: down and to the right. */
function paintFlows(context: CanvasRenderingContext2D, scene: Scene): void {
  context.save();
  context.beginPath();
  context.rect(scene.gutter, RULER_HEIGHT, scene.width, scene.height);
  context.clip();
  context.strokeStyle = scene.theme.accent;
  context.lineWidth = 1.5;
  for (const flow of scene.flows) {
    const from = flowEnd(scene, flow.fromTrack, flow.fromNs);
    const to = flowEnd(scene, flow.toTrack, flow.toNs);
    if (from && to) {
      const bend = Math.max(12, Math.abs(to.x - from.x) / 3);
      context.beginPath();
      context.moveTo(from.x, from.y);
      context.bezierCurveTo(from.x + bend, from.y, to.x - bend, to.y, to.x, to.y);
      context.stroke();
      context.beginPath();
      context.moveTo(to.x, to.y);
      context.lineTo(to.x - 6, to.y - 4);
      context.lineTo(to.x - 6, to.y + 4);
      context.closePath();
      context.fillStyle = scene.theme.accent;
      context.fill();
    }
  }
  context.restore();
}

function flowEnd(scene: Scene, trackId: number, ns: number): { x: number; y: number } | null {
  const track = scene.timeline.track(trackId);
  const row = track && scene.rows.of(track);
  if (!track || !row) {
    return null;
  }
  const depth = deepestAt(scene, track.id, ns, row.lanes);
  const y = laneTop(row, depth) - scene.scrollY + RULER_HEIGHT + SPAN_HEIGHT / 2;
  return { x: timeToX(scene, ns), y };
}

/** The innermost lane that has a span at a moment. */
function deepestAt(scene: Scene, trackId: number, ns: number, lanes: number): number {
  const level = scene.timeline.track(trackId)?.cover(ns, ns + 1)[0]?.level;
  for (let depth = lanes - 1; depth > 0; depth--) {
    const lane = level?.lanes[depth];
    if (lane) {
      const i = firstAbove(lane.reach, ns);
      if (i < lane.ts.length && (lane.ts[i] ?? 0) <= ns) {
        return depth;
      }
    }
  }
  return 0;
}

function paintCounter(
  context: CanvasRenderingContext2D,
  scene: Scene,
  row: Row,
  counter: Counter,
): void {
  const top = row.top - scene.scrollY + RULER_HEIGHT + 7;
  const height = row.height - 14;
  const range = counter.top - counter.bottom || 1;
  const toY = (value: number) => top + height - ((value - counter.bottom) / range) * height;
  const first = Math.max(0, firstAbove(counter.ts, scene.camera.fromNs) - 1);
  context.save();
  context.beginPath();
  context.rect(scene.gutter, RULER_HEIGHT, scene.width, scene.height);
  context.clip();
  context.fillStyle = scene.theme.accent;
  for (let i = first; i < counter.ts.length; i++) {
    const ns = counter.ts[i] ?? 0;
    if (ns > scene.camera.toNs) {
      break;
    }
    const x0 = timeToX(scene, ns);
    const x1 = timeToX(scene, counter.ts[i + 1] ?? scene.camera.endNs);
    const yMax = toY(counter.max[i] ?? 0);
    const yMin = toY(counter.min[i] ?? 0);
    const width = Math.max(x1 - x0, 1);
    context.globalAlpha = 0.25;
    context.fillRect(x0, yMin, width, top + height - yMin);
    context.globalAlpha = 1;
    context.fillRect(x0, yMax, width, Math.max(1.5, yMin - yMax));
  }
  context.restore();
}

function paintGutter(context: CanvasRenderingContext2D, scene: Scene): void {
  const { theme, gutter, height, rows, scrollY, fitter } = scene;
  context.fillStyle = theme.band;
  context.fillRect(0, 0, gutter, height);
  for (const row of rows.rows) {
    const top = row.top - scrollY + RULER_HEIGHT;
    if (top + row.height <= RULER_HEIGHT || top >= height) {
      continue;
    }
    const y = Math.max(top, RULER_HEIGHT) + 16;
    const isDeep = row.lanesHidden > 0 || (row.track !== null && rows.isOpen(row.track));
    const sign = isDeep ? (row.lanesHidden > 0 ? '▸ ' : '▾ ') : '';
    context.fillStyle = theme.ink;
    context.fillText(fitter.fit(sign + row.title, gutter - 16), 8, y);
    context.fillStyle = theme.muted;
    const more =
      row.lanesHidden > 0 ? `${row.lanesHidden} more level${row.lanesHidden > 1 ? 's' : ''}` : '';
    const peak = row.counter ? `up to ${formatAs(row.counter.top, row.counter.unit)}` : '';
    const notes = [row.counter ? peak : row.subtitle, more].filter((note) => note !== '');
    notes.forEach((note, i) => {
      context.fillText(fitter.fit(note, gutter - 16), 8, y + 15 * (i + 1));
    });
    context.fillStyle = theme.line;
    context.fillRect(0, Math.round(top + row.height) - 1, gutter, 1);
  }
  context.fillStyle = theme.line;
  context.fillRect(gutter - 1, 0, 1, height);
}

function paintRuler(context: CanvasRenderingContext2D, scene: Scene): void {
  const { theme, gutter, width, camera } = scene;
  context.fillStyle = theme.band;
  context.fillRect(0, 0, width, RULER_HEIGHT);
  const step = niceStep((camera.widthNs / (width - gutter)) * 110);
  const [unit, unitNs] = step >= 1e9 ? ['s', 1e9] : ['ms', 1e6];
  const decimals = Math.max(0, Math.ceil(-Math.log10(step / unitNs)));
  let tick = Math.ceil(camera.fromNs / step) * step;
  for (; tick < camera.toNs; tick += step) {
    const x = Math.round(timeToX(scene, tick));
    context.fillStyle = theme.line;
    context.fillRect(x, RULER_HEIGHT - 7, 1, 7);
    context.fillStyle = theme.muted;
    context.fillText(`${(tick / unitNs).toFixed(Math.min(decimals, 6))} ${unit}`, x + 4, 12);
  }
  context.fillStyle = theme.band;
  context.fillRect(0, 0, gutter, RULER_HEIGHT);
  context.fillStyle = theme.line;
  context.fillRect(0, RULER_HEIGHT - 1, width, 1);
}

/** 1, 2 or 5 times a power of ten, at least `least`. */
export function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  const factor = [1, 2, 5, 10].find((each) => each * power >= least) ?? 10;
  return factor * power;
}
