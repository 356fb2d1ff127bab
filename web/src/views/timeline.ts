// The timeline: toolbar, canvas, details of the selected span, and a table of what is in view.
import type { App, ViewKind } from '../app';
import type { Flow, Piece, Span, Timeline, Track } from '../data/timeline';
import { Tiles } from '../data/tiles';
import { firstAbove, spanAt } from '../data/timeline';
import { absent, button, clear, h, plainTable, twin } from '../dom';
import { formatAs, formatCount, formatMoment, formatTime } from '../format';
import { Camera } from '../timeline/camera';
import { paint, type Painted, type Scene, xToTime } from '../timeline/paint';
import { LANE_HEIGHT, laneTop, Rows, RULER_HEIGHT } from '../timeline/rows';
import { Canvas, Fitter } from '../ui/canvas';
import { shortName } from '../ui/names';
import { onThemeChange, readTheme, type Theme } from '../ui/palette';
import { type Column, Table } from '../ui/table';
import { BlockView, type Built } from './block';

const MATCHES_MAX = 5000;
const ROWS_IN_VIEW_MAX = 2000;
const SEARCH_PAUSE_MS = 120; // while somebody types
const GUTTER = { wide: 190, narrow: 112 };

export const timelineView: ViewKind = {
  id: 'timeline',
  title: 'Timeline',
  absentBecause: () => null,
  make: (app) =>
    new BlockView({
      title: null,
      what: 'timeline',
      read: () => app.timeline(),
      build: (timeline, element) => build(app, timeline, element),
    }),
};

function build(app: App, timeline: Timeline | null, element: HTMLElement) {
  if (!timeline) {
    element.append(absent('The inputs hold no spans that could be drawn.'));
    return null;
  }
  return new TimelinePanel(app, timeline, element);
}

class TimelinePanel implements Built {
  private readonly camera: Camera;
  private readonly rows: Rows;
  private readonly canvas: Canvas;
  private readonly fitter: Fitter;
  private theme: Theme;
  private scrollY = 0;
  private selected: Span | null = null;
  private hovered: Span | null = null;
  private flows: readonly Flow[] = [];
  private matches: readonly Span[] = [];
  private matchNames: ReadonlySet<number> = new Set();
  private matchIndex = -1;
  private searched = '';
  private searchTimer = 0;
  /** To be tried again when more of the timeline has come. */
  private pending: (() => void) | null = null;
  private drag: { x: number; y: number; moved: boolean } | null = null;
  private rememberTimer = 0;
  /** Where a server gives any detail; else null. */
  private readonly tiles: Tiles | null;

  private readonly box = h('div', { class: 'timeline-box' });
  private readonly range = h('span', { class: 'range' });
  private readonly note = h('p', { class: 'note', role: 'status' });
  private readonly details = h('div', { class: 'details', 'aria-live': 'polite' });
  private readonly found = h('span', { class: 'found', role: 'status' });
  private readonly query = h('input', {
    type: 'search',
    placeholder: 'Search by name',
    'aria-label': 'Search spans by name',
    spellcheck: 'false',
  });
  private readonly listBox = h('div', {});

  constructor(
    private readonly app: App,
    private readonly timeline: Timeline,
    private readonly element: HTMLElement,
  ) {
    this.camera = new Camera(timeline.startNs, timeline.endNs);
    const { tile } = app.source;
    this.tiles = tile && new Tiles(timeline, tile, () => this.redraw());
    this.rows = new Rows(timeline);
    this.theme = readTheme(document.body);
    this.canvas = new Canvas(this.box, () => this.draw());
    this.fitter = new Fitter(this.canvas.context);
    this.build();
    this.listen();
    onThemeChange(this, () => {
      this.theme = readTheme(document.body);
      this.redraw();
    });
  }

  /** Shows what a link asks for: a range, and a span of some name in it. */
  go(params: URLSearchParams): void {
    const from = Number(params.get('from') ?? NaN);
    const to = Number(params.get('to') ?? NaN);
    const isRange = Number.isFinite(from) && Number.isFinite(to) && from < to;
    if (isRange && params.has('room')) {
      this.camera.frame(from, to);
    } else if (isRange) {
      this.camera.set(from, to); // as remembered: a page that is loaded again shows the same
    }
    const rank = params.get('rank');
    const isOfRank = (each: number | null) => rank === null || each === Number(rank);
    if (rank !== null) {
      this.showRank(Number(rank));
    }
    const find = params.get('find');
    if (find) {
      this.query.value = find;
      const start = isRange ? from : this.timeline.startNs;
      const isWanted = (span: Span) => span.endNs > start && isOfRank(span.track.rank);
      this.search(() => this.pickMatch(this.matches.findIndex(isWanted), isRange));
    }
    this.redraw();
  }

  /** The panel of an older report gives its place: what is in sight, folds, selection, search. */
  takeOver(older: Built): void {
    if (!(older instanceof TimelinePanel)) {
      return;
    }
    const { fromNs, toNs, startNs, endNs } = older.camera;
    if (fromNs > startNs || toNs < endNs) {
      this.camera.set(fromNs, toNs); // who looked at all of it goes on to
    }
    const sameAs = (track: Track) =>
      this.timeline.tracks.find(
        (each) =>
          each.kind === track.kind &&
          each.name === track.name &&
          each.rank === track.rank &&
          each.process === track.process,
      );
    for (const track of older.timeline.tracks) {
      const same = older.rows.isOpen(track) ? sameAs(track) : undefined;
      if (same && !this.rows.isOpen(same)) {
        this.rows.toggle(same);
      }
    }
    this.scrollY = older.scrollY;
    if (older.query.value !== '') {
      this.query.value = older.query.value;
      this.search(() => {
        this.matchIndex = Math.min(older.matchIndex, this.matches.length - 1);
        this.sayMatches();
      });
    }
    const span = older.selected;
    const track = span && sameAs(span.track);
    if (span && track) {
      const name = this.timeline.placeOf(older.timeline.nameOf(span));
      this.selectLater({ ...span, track, name });
    }
    this.redraw();
  }

  /** Selects the span that is as `wanted` was, once it is there. */
  private selectLater(wanted: Span): void {
    const span = this.timeline.held(wanted);
    this.pending = span ? null : () => this.selectLater(wanted);
    if (span) {
      this.select(span, false);
    }
  }

  /** Scrolls to the tracks of a rank, which stand one below the other. */
  private showRank(rank: number): void {
    const row = this.rows.rows.find((each) => each.track?.rank === rank);
    if (row) {
      this.scrollY = row.top; // clipped when it is drawn: the canvas may have no size yet
    }
  }

  private build(): void {
    this.canvas.element.tabIndex = 0;
    this.canvas.element.setAttribute('role', 'application');
    this.canvas.element.setAttribute(
      'aria-label',
      'Timeline. Keys: W and S or plus and minus zoom, A and D or arrows move, 0 shows all, ' +
        'comma and full stop go from span to span, square brackets go in and out.',
    );
    const tools = h(
      'div',
      { class: 'toolbar' },
      this.query,
      button('Previous', () => this.stepMatch(-1), { title: 'Previous match (Shift+Enter)' }),
      button('Next', () => this.stepMatch(1), { title: 'Next match (Enter)' }),
      this.found,
      h('span', { class: 'spring' }),
      this.places(),
      button('−', () => this.zoom(1.6), { 'aria-label': 'Zoom out' }),
      button('+', () => this.zoom(1 / 1.6), { 'aria-label': 'Zoom in' }),
      button('All', () => this.all(), { title: 'Show the whole trace (0)' }),
      this.range,
    );
    this.element.append(
      tools,
      this.note,
      this.box,
      this.details,
      keysHelp(),
      this.tracksTwin(),
      this.spansTwin(),
    );
    this.describe();
  }

  /** Where the file holds every span: around findings, and some steps. */
  private places(): HTMLElement | null {
    const { ranges, startNs, endNs } = this.timeline;
    const parts = ranges.filter(
      (range) => range.end_ns - range.start_ns < (endNs - startNs) * 0.95,
    );
    if (parts.length === 0) {
      return null;
    }
    const select = h(
      'select',
      { 'aria-label': 'Places in full detail' },
      h('option', { value: '' }, 'Places in full detail'),
      ...parts.map((range, i) =>
        h('option', { value: i }, `${range.why}, at ${formatMoment(range.start_ns)}`),
      ),
    );
    select.addEventListener('change', () => {
      const range = select.value === '' ? undefined : parts[Number(select.value)];
      if (range) {
        this.camera.frame(range.start_ns, range.end_ns);
        this.redraw();
      }
      select.value = '';
    });
    return select;
  }

  private tracksTwin(): HTMLElement {
    const unfold = (track: Track) =>
      button('Fold or unfold', () => {
        this.rows.toggle(track);
        this.scrollTo(this.rows.of(track)?.top ?? 0);
        this.redraw();
      });
    const ofRank = (rank: number | null) => (rank === null ? '' : `rank ${rank}`);
    return twin('Tracks as a table', () =>
      plainTable(
        'Tracks of the timeline',
        [{ title: 'track' }, { title: 'of' }, { title: 'holds', isNumber: true }, { title: '' }],
        [
          ...this.timeline.tracks.map((track) => [
            track.name,
            [ofRank(track.rank), track.process].filter(Boolean).join(', '),
            `${formatCount(track.events)} spans`,
            unfold(track),
          ]),
          ...this.timeline.counters.map((counter) => [
            counter.name,
            ofRank(counter.rank),
            `${formatAs(counter.least, counter.unit)} to ${formatAs(counter.top, counter.unit)}`,
            '',
          ]),
        ],
      ),
    );
  }

  private spansTwin(): HTMLElement {
    const details = h(
      'details',
      { class: 'twin' },
      h('summary', {}, 'Spans in view as a table'),
      button('List what is in view now', () => this.listView()),
      this.listBox,
    );
    details.addEventListener('toggle', () => details.open && this.listView());
    return details;
  }

  private listView(): void {
    const { spans, total } = this.spansInView();
    const columns: Column<Span>[] = [
      { key: 'name', title: 'name', value: (s) => this.timeline.nameOf(s), isName: true },
      { key: 'track', title: 'track', value: (s) => s.track.name },
      {
        key: 'start',
        title: 'start',
        value: (s) => s.startNs,
        text: (s) => formatMoment(s.startNs),
      },
      {
        key: 'dur',
        title: 'duration',
        value: (s) => s.endNs - s.startNs,
        text: (s) => formatTime(s.endNs - s.startNs),
      },
      { key: 'count', title: 'spans', value: (s) => s.count, text: (s) => formatCount(s.count) },
    ];
    const table = new Table({
      name: 'spans in view',
      columns,
      rows: spans,
      total,
      rest: 'are in view: zoom in to list them',
      sortBy: 'dur',
      onOpen: (span) => this.select(span, true),
    });
    this.listBox.replaceChildren(table.element);
  }

  private spansInView(): { spans: Span[]; total: number } {
    const { fromNs, toNs } = this.camera;
    const spans: Span[] = [];
    let total = 0;
    for (const track of this.timeline.tracks) {
      track.cover(fromNs, toNs).forEach((piece, at) => {
        piece.level.lanes.forEach((lane, depth) => {
          // What reaches from one piece into the next is listed with the one it starts in.
          const first =
            at === 0 ? firstAbove(lane.reach, piece.fromNs) : firstAbove(lane.ts, piece.fromNs - 1);
          for (let i = first; i < lane.ts.length && (lane.ts[i] ?? 0) < piece.toNs; i++) {
            total++;
            const span = spans.length < ROWS_IN_VIEW_MAX && spanAt(track, piece.level, depth, i);
            if (span) {
              spans.push(span);
            }
          }
        });
      });
    }
    return { spans, total };
  }

  private scene(): Scene {
    const wanted = this.canvas.width < 760 ? GUTTER.narrow : GUTTER.wide;
    const gutter = Math.min(wanted, this.canvas.width / 2); // time goes forward in any frame
    return {
      timeline: this.timeline,
      camera: this.camera,
      rows: this.rows,
      theme: this.theme,
      fitter: this.fitter,
      width: this.canvas.width,
      height: this.canvas.height,
      gutter,
      scrollY: this.scrollY,
      selected: this.selected,
      hovered: this.hovered,
      matches: this.matchNames,
      flows: this.flows,
    };
  }

  /** The box is no taller than its rows. */
  private fitBox(): void {
    const height = `${this.rows.height + RULER_HEIGHT + 2}px`;
    if (this.box.style.maxHeight !== height) {
      this.box.style.maxHeight = height;
    }
  }

  private draw(): void {
    this.fitBox();
    this.scrollTo(this.scrollY);
    const painted = paint(this.canvas.context, this.scene());
    this.say(painted);
    this.askForDetail();
    window.clearTimeout(this.rememberTimer);
    this.rememberTimer = window.setTimeout(() => this.remember(), 400);
  }

  /** What is in sight may be had finer; when it comes, all is drawn anew. */
  private askForDetail(): void {
    if (!this.tiles) {
      return;
    }
    const bottom = this.scrollY + this.canvas.height - RULER_HEIGHT;
    const inSight = this.rows.rows.flatMap((row) =>
      row.track &&
      row.track.kind !== 'other' &&
      row.top < bottom &&
      row.top + row.height > this.scrollY
        ? [row.track]
        : [],
    );
    this.tiles.want(this.camera.fromNs, this.camera.toNs, inSight);
    this.element.toggleAttribute('data-waiting', this.tiles.isWaiting);
    this.pending?.();
  }

  /** Texts beside the canvas; only those that changed are touched. */
  private say(painted: Painted): void {
    const { fromNs, toNs, widthNs } = this.camera;
    setText(
      this.range,
      `${formatMoment(fromNs)} to ${formatMoment(toNs)} (${formatTime(Math.round(widthNs))})`,
    );
    const note = this.noteOf(painted);
    setText(this.note, note);
    this.note.hidden = note === '';
  }

  private noteOf(painted: Painted): string {
    const { namesLeftOut, samplesLeftOut } = this.timeline;
    const merged = formatCount(painted.mergedSpans);
    return [
      painted.mergedSpans > 0 &&
        `Merged detail: bars with a dark foot stand for several spans each (${merged} here). ` +
          (this.tiles
            ? 'Zoom in to see the single ones.'
            : 'The single ones are not in this file, except around findings and some steps.'),
      namesLeftOut > 0 && `${formatCount(namesLeftOut)} names are not in this file.`,
      samplesLeftOut > 0 && `${formatCount(samplesLeftOut)} samples of counters are not, either.`,
    ]
      .filter(Boolean)
      .join(' ');
  }

  private remember(): void {
    const { fromNs, toNs, startNs, endNs } = this.camera;
    const isAll = fromNs <= startNs && toNs >= endNs;
    this.app.rememberPlace(
      isAll ? {} : { from: String(Math.round(fromNs)), to: String(Math.round(toNs)) },
    );
  }

  private redraw(): void {
    this.canvas.redraw();
  }

  private zoom(factor: number, aroundNs?: number): void {
    this.camera.zoom(factor, aroundNs);
    this.redraw();
  }

  private all(): void {
    this.camera.all();
    this.redraw();
  }

  private scrollTo(y: number): void {
    const most = Math.max(0, this.rows.height - (this.canvas.height - RULER_HEIGHT));
    this.scrollY = Math.min(Math.max(0, y), most);
  }

  private select(span: Span | null, isShown: boolean): void {
    this.selected = span;
    this.flows = span ? this.timeline.flowsOf(span) : [];
    if (span) {
      this.rows.reveal(span.track, span.depth);
      if (isShown) {
        this.bringToSight(span);
      }
    }
    this.describe();
    this.redraw();
  }

  private bringToSight(span: Span): void {
    const { fromNs, toNs, widthNs } = this.camera;
    const dur = span.endNs - span.startNs;
    if (dur < widthNs / 300 || dur > widthNs) {
      this.camera.frame(span.startNs - dur * 4, span.endNs + dur * 4);
    } else if (span.startNs < fromNs || span.endNs > toNs) {
      this.camera.set(span.startNs - widthNs / 2, span.startNs + widthNs / 2);
    }
    const row = this.rows.of(span.track);
    if (row) {
      const y = laneTop(row, span.depth);
      const room = this.canvas.height - RULER_HEIGHT;
      if (y < this.scrollY || y + LANE_HEIGHT > this.scrollY + room) {
        this.scrollTo(y - room / 3);
      }
    }
  }

  private describe(): void {
    clear(this.details);
    const span = this.selected;
    if (!span) {
      this.details.append(
        h('p', { class: 'muted' }, 'Choose a span to see its name, time and launches.'),
      );
      return;
    }
    const name = this.timeline.nameOf(span);
    const isMerged = span.count > 1;
    const facts: (readonly [string, string])[] = [
      ['start', formatMoment(span.startNs)],
      [isMerged ? 'from first to last' : 'duration', formatTime(span.endNs - span.startNs)],
      ['track', span.track.name],
      ['spans', isMerged ? `${formatCount(span.count)} merged; the longest gives the name` : '1'],
    ];
    this.details.append(
      h('h2', { class: 'name' }, isMerged ? `${formatCount(span.count)} × ${name}` : name),
      h(
        'dl',
        { class: 'facts' },
        ...facts.map(([key, value]) => h('div', {}, h('dt', {}, key), h('dd', {}, value))),
      ),
      h(
        'p',
        { class: 'actions' },
        button('Zoom to it', () => {
          this.camera.frame(span.startNs, Math.max(span.endNs, span.startNs + 1));
          this.redraw();
        }),
        button('Find all of this name', () => {
          this.query.value = name;
          this.search();
        }),
        ...this.flowButtons(span),
      ),
    );
  }

  /** The other ends of the launches: from a call to its work, from work to its call. */
  private flowButtons(span: Span): HTMLElement[] {
    const shown = this.flows.slice(0, 4).flatMap((flow) => {
      const isLaunch =
        flow.fromTrack === span.track.id &&
        flow.fromNs >= span.startNs &&
        flow.fromNs < Math.max(span.endNs, span.startNs + 1);
      const other = isLaunch
        ? this.spanNear(flow.toTrack, flow.toNs)
        : this.spanNear(flow.fromTrack, flow.fromNs);
      if (!other) {
        return [];
      }
      const title = shortName(this.timeline.nameOf(other));
      const text = isLaunch ? `Its work: ${title}` : `Launched by ${title}`;
      return [button(text, () => this.select(other, true), { class: 'flow' })];
    });
    const more = this.flows.length - shown.length;
    return more > 0 && shown.length > 0
      ? [...shown, h('span', { class: 'muted' }, `and ${more} more`)]
      : shown;
  }

  /** The innermost span of a track at a moment. */
  private spanNear(trackId: number, ns: number): Span | null {
    const track = this.timeline.track(trackId);
    const piece = track?.cover(ns, ns + 1)[0];
    if (!track || !piece) {
      return null;
    }
    for (let depth = piece.level.lanes.length - 1; depth >= 0; depth--) {
      const span = this.hit(piece, depth, ns, 0, track);
      if (span) {
        return span;
      }
    }
    return null;
  }

  private hit(
    piece: Piece,
    depth: number,
    ns: number,
    slackNs: number,
    track = this.selected?.track,
  ): Span | null {
    const lane = piece.level.lanes[depth];
    if (!lane || !track) {
      return null;
    }
    const i = firstAbove(lane.reach, ns - slackNs);
    return i < lane.ts.length && (lane.ts[i] ?? 0) <= ns + slackNs
      ? spanAt(track, piece.level, depth, i)
      : null;
  }

  private spanAtPoint(x: number, y: number): Span | null {
    const scene = this.scene();
    const row = this.rows.at(y - RULER_HEIGHT + this.scrollY);
    if (!row?.track || x < scene.gutter || y < RULER_HEIGHT) {
      return null;
    }
    const depth = Math.floor((y - RULER_HEIGHT + this.scrollY - laneTop(row, 0)) / LANE_HEIGHT);
    const ns = xToTime(scene, x);
    const piece = row.track.cover(ns, ns + 1)[0];
    const slack = (this.camera.widthNs / (scene.width - scene.gutter)) * 2;
    return piece && depth >= 0 && depth < row.lanes
      ? (this.hit(piece, depth, ns, 0, row.track) ?? this.hit(piece, depth, ns, slack, row.track))
      : null;
  }

  // Searching.

  /** Looks at all spans: of the page at once, or with the help of the server, as that answers. */
  private search(then: () => void = () => {}): void {
    const text = this.query.value.trim();
    const { find } = this.app.source;
    this.searched = text;
    window.clearTimeout(this.searchTimer);
    if (!find || text === '') {
      this.showMatches(text === '' ? [] : this.timeline.search(text, MATCHES_MAX), then);
      return;
    }
    this.searchTimer = window.setTimeout(() => {
      find(text)
        .then((raw) => this.timeline.addFound(raw))
        .catch(() => this.timeline.search(text, MATCHES_MAX)) // what is here, when it has ended
        .then((spans) => {
          if (this.searched === text) {
            this.showMatches(spans, then);
          }
        });
    }, SEARCH_PAUSE_MS);
  }

  private showMatches(spans: readonly Span[], then: () => void): void {
    this.matches = spans;
    this.matchNames = new Set(spans.map((span) => span.name));
    this.matchIndex = -1;
    this.sayMatches();
    then();
    this.redraw();
  }

  private sayMatches(): void {
    const count = this.matches.length;
    const more = count >= MATCHES_MAX ? ' or more' : '';
    const text =
      this.query.value.trim() === ''
        ? ''
        : count === 0
          ? 'no match'
          : this.matchIndex < 0
            ? `${formatCount(count)}${more} found`
            : `${formatCount(this.matchIndex + 1)} of ${formatCount(count)}${more}`;
    setText(this.found, text);
  }

  private stepMatch(direction: number): void {
    if (this.searched !== this.query.value.trim() || this.matches.length === 0) {
      this.search(() => this.goToMatch(direction));
    } else {
      this.goToMatch(direction);
    }
  }

  private goToMatch(direction: number): void {
    if (this.matches.length > 0) {
      const { fromNs } = this.camera;
      const start = this.matches.findIndex((span) => span.startNs >= fromNs);
      const next = this.matchIndex < 0 ? Math.max(start, 0) : this.matchIndex + direction;
      this.pickMatch((next + this.matches.length) % this.matches.length, false);
    }
  }

  private pickMatch(index: number, isInSight: boolean): void {
    const span = this.matches[index];
    if (span) {
      this.matchIndex = index;
      this.sayMatches();
      this.select(span, !isInSight);
    }
  }

  // Mouse and keys.

  private listen(): void {
    const canvas = this.canvas.element;
    this.query.addEventListener('input', () => this.search());
    this.query.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') {
        this.stepMatch(event.shiftKey ? -1 : 1);
      }
    });
    canvas.addEventListener('wheel', (event) => this.onWheel(event), { passive: false });
    canvas.addEventListener('keydown', (event) => this.onKey(event));
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) {
        return; // a menu can swallow the release of another button
      }
      this.drag = { x: event.clientX, y: event.clientY, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => this.onMove(event));
    canvas.addEventListener('pointerup', (event) => this.onUp(event));
    canvas.addEventListener('pointercancel', () => (this.drag = null));
    canvas.addEventListener('pointerleave', () => this.hover(null));
    canvas.addEventListener('dblclick', (event) => {
      const span = this.spanAtPoint(event.offsetX, event.offsetY);
      if (span) {
        this.camera.frame(span.startNs, span.endNs);
        this.redraw();
      }
    });
  }

  private onWheel(event: WheelEvent): void {
    const perPixel = this.camera.widthNs / this.canvas.width;
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    if (event.ctrlKey || event.metaKey) {
      const around = xToTime(this.scene(), event.offsetX);
      this.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY * unit)) * 0.008), around);
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.camera.pan((event.deltaX || event.deltaY) * unit * perPixel);
    } else {
      const before = this.scrollY;
      this.scrollTo(this.scrollY + event.deltaY * unit);
      if (this.scrollY === before) {
        return; // at its end: the page scrolls on
      }
    }
    event.preventDefault();
    this.redraw();
  }

  private onMove(event: PointerEvent): void {
    if (!this.drag) {
      const span = this.spanAtPoint(event.offsetX, event.offsetY);
      this.hover(span);
      this.canvas.element.title = span
        ? `${shortName(this.timeline.nameOf(span))}: ${formatTime(span.endNs - span.startNs)}`
        : this.counterAtPoint(event.offsetX, event.offsetY);
      return;
    }
    const dx = event.clientX - this.drag.x;
    const dy = event.clientY - this.drag.y;
    if (!this.drag.moved && Math.hypot(dx, dy) < 4) {
      return;
    }
    const scene = this.scene();
    this.camera.pan((-dx * this.camera.widthNs) / (scene.width - scene.gutter));
    this.scrollTo(this.scrollY - dy);
    this.drag = { x: event.clientX, y: event.clientY, moved: true };
    this.redraw();
  }

  private onUp(event: PointerEvent): void {
    const drag = this.drag;
    this.drag = null;
    if (!drag || drag.moved) {
      return;
    }
    const scene = this.scene();
    if (event.offsetX < scene.gutter) {
      const row = this.rows.at(event.offsetY - RULER_HEIGHT + this.scrollY);
      if (row?.track) {
        this.rows.toggle(row.track);
        this.redraw();
      }
      return;
    }
    this.select(this.spanAtPoint(event.offsetX, event.offsetY), false);
  }

  private hover(span: Span | null): void {
    const isSame =
      span?.index === this.hovered?.index &&
      span?.depth === this.hovered?.depth &&
      span?.track === this.hovered?.track;
    if (isSame) {
      return;
    }
    this.hovered = span;
    this.redraw();
  }

  /** What a counter says at the pointer, or nothing. */
  private counterAtPoint(x: number, y: number): string {
    const scene = this.scene();
    const counter = this.rows.at(y - RULER_HEIGHT + this.scrollY)?.counter;
    if (!counter || x < scene.gutter || y < RULER_HEIGHT) {
      return '';
    }
    const ns = xToTime(scene, x);
    const i = firstAbove(counter.ts, ns) - 1;
    const least = formatAs(counter.min[i], counter.unit);
    const most = formatAs(counter.max[i], counter.unit);
    const value = least === most ? most : `${least} to ${most}`;
    return i < 0 ? '' : `${counter.name} at ${formatMoment(ns)}: ${value}`;
  }

  private onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const action = this.actionOf(event.key);
    if (action) {
      event.preventDefault();
      action();
      this.redraw();
    }
  }

  private actionOf(key: string): (() => void) | null {
    const part = this.camera.widthNs * 0.1;
    const actions: Record<string, () => void> = {
      w: () => this.camera.zoom(0.8),
      s: () => this.camera.zoom(1.25),
      '+': () => this.camera.zoom(0.8),
      '=': () => this.camera.zoom(0.8),
      '-': () => this.camera.zoom(1.25),
      a: () => this.camera.pan(-part),
      d: () => this.camera.pan(part),
      ArrowLeft: () => this.camera.pan(-part),
      ArrowRight: () => this.camera.pan(part),
      ArrowUp: () => this.scrollTo(this.scrollY - 40),
      ArrowDown: () => this.scrollTo(this.scrollY + 40),
      PageUp: () => this.scrollTo(this.scrollY - this.canvas.height * 0.8),
      PageDown: () => this.scrollTo(this.scrollY + this.canvas.height * 0.8),
      Home: () => this.camera.set(this.camera.startNs, this.camera.startNs + this.camera.widthNs),
      End: () => this.camera.set(this.camera.endNs - this.camera.widthNs, this.camera.endNs),
      '0': () => this.camera.all(),
      '/': () => this.query.focus(),
      n: () => this.stepMatch(1),
      N: () => this.stepMatch(-1),
      ',': () => this.walk(-1, 0),
      '.': () => this.walk(1, 0),
      '[': () => this.walk(0, -1),
      ']': () => this.walk(0, 1),
      Enter: () => this.selected && this.camera.frame(this.selected.startNs, this.selected.endNs),
      Escape: () => this.select(null, false),
    };
    return actions[key] ?? actions[key.toLowerCase()] ?? null;
  }

  /** From the selected span to its neighbour in the lane, or one level out or in. */
  private walk(aside: number, inwards: number): void {
    const from = this.selected && (this.timeline.held(this.selected) ?? this.selected);
    if (!from) {
      const row = this.rows.rows.find((each) => each.track && each.top >= this.scrollY);
      const ns = (this.camera.fromNs + this.camera.toNs) / 2;
      const level = row?.track?.cover(ns, ns + 1)[0]?.level;
      const lane = level?.lanes[0];
      if (row?.track && level && lane) {
        const i = Math.min(firstAbove(lane.reach, ns), lane.ts.length - 1);
        this.select(spanAt(row.track, level, 0, i), true);
      }
      return;
    }
    if (inwards === 0) {
      const next = spanAt(from.track, from.level, from.depth, from.index + aside);
      this.select(next ?? from, true);
      return;
    }
    const lane = from.level.lanes[from.depth + inwards];
    const i = lane ? firstAbove(lane.reach, from.startNs) : 0;
    const next = spanAt(from.track, from.level, from.depth + inwards, i);
    if (next && next.startNs < from.endNs) {
      this.select(next, true);
    }
  }
}

function setText(element: HTMLElement, text: string): void {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

function keysHelp(): HTMLElement {
  const keys: (readonly [string, string])[] = [
    ['W, S, + and −', 'zoom in and out; also Ctrl with the wheel'],
    ['A, D, ← and →', 'move; also drag, or Shift with the wheel'],
    ['↑, ↓, wheel', 'other tracks'],
    ['0', 'the whole trace'],
    ['/', 'search; Enter and Shift+Enter, or N, go from match to match'],
    [', and .', 'the span before and after'],
    ['[ and ]', 'the span outside and inside'],
    ['Enter', 'zoom to the selected span; also a double click'],
    ['click on a track’s name', 'show all of its levels, or fold it'],
  ];
  return h(
    'details',
    { class: 'twin' },
    h('summary', {}, 'Keys and mouse'),
    h(
      'dl',
      { class: 'keys' },
      ...keys.map(([key, text]) => h('div', {}, h('dt', {}, key), h('dd', {}, text))),
    ),
  );
}
