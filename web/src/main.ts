// Starts the page: reads the report, puts up the navigation, shows the view that the address names.
import { App, parseRoute, type View, type ViewKind } from './app';
import { asReport, type Report } from './data/report';
import { isServed, Refused, Server } from './data/served';
import { embeddedSource, type Source } from './data/source';
import { absent, h } from './dom';
import { type Place, placeIn, putPlace } from './ui/place';
import { aboutView } from './views/about';
import { compareView } from './views/compare';
import { flameView } from './views/flame';
import {
  codeView,
  compileView,
  copiesView,
  kernelsView,
  modulesView,
  operatorsView,
} from './views/lists';
import { memoryView } from './views/memory';
import { overviewView } from './views/overview';
import { ranksView } from './views/ranks';
import { timelineView } from './views/timeline';

const ALL_VIEWS: readonly ViewKind[] = [
  overviewView,
  compareView,
  timelineView,
  operatorsView,
  kernelsView,
  modulesView,
  flameView,
  memoryView,
  copiesView,
  codeView,
  ranksView,
  compileView,
  aboutView,
];

/** Blocks leave the document when they are read: this is asked before. */
const VIEWS = ALL_VIEWS.filter(
  (kind) => kind.needsBlock === undefined || document.getElementById(kind.needsBlock) !== null,
);

class Page {
  private app: App;
  private made = new Map<string, View>();
  private links = new Map<string, HTMLAnchorElement>();
  private readonly main = h('main', { id: 'view', tabindex: -1 });
  private hash: string | null = null;
  private current: ViewKind = overviewView;
  private readonly unreachable = h(
    'p',
    { class: 'unreachable', role: 'status', hidden: true },
    'kscope view has ended, or cannot be reached: this page shows what it had.',
  );

  constructor(
    report: Report,
    source: Source,
    private readonly root: HTMLElement,
  ) {
    this.app = this.appOf(report, source);
    this.build();
    window.addEventListener('hashchange', () => this.go(window.location.hash));
    // Pages inside of a frame made from text have no address of their own for links to lead to.
    document.addEventListener('click', (event) => {
      const target = event.target instanceof Element ? event.target.closest('a') : null;
      const hash = target?.getAttribute('href');
      const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
      if (hash?.startsWith('#') && isPlain) {
        event.preventDefault();
        if (hash === this.hash) {
          return; // no second entry in the history for the same place
        }
        this.go(hash);
        try {
          window.history.pushState(null, '', hash);
        } catch {
          // A sandbox without an address: the view has changed all the same.
        }
      }
    });
    this.go(window.location.hash);
  }

  private appOf(report: Report, source: Source): App {
    return new App(report, source, (params) => this.remember(params));
  }

  /** Shows a newer report where the reader is, once all that is in sight of it is there. */
  async renew(report: Report, source: Source): Promise<void> {
    const app = this.appOf(report, source);
    const kind = this.current;
    const view = viewOf(kind, app);
    const older = this.made.get(kind.id);
    view.show?.(parseRoute(this.hash ?? '').params);
    await view.ready;
    if (this.current !== kind) {
      return this.renew(report, source); // the reader went on meanwhile
    }
    const place = placeIn(this.main);
    this.app = app;
    this.made = new Map([[kind.id, view]]);
    this.links = new Map();
    this.build();
    this.mark(kind);
    this.main.replaceChildren(view.element);
    if (older) {
      view.takeOver?.(older);
    }
    this.settle(place);
  }

  /** Heights are known when all is laid out. */
  private settle(place: Place): void {
    putPlace(this.main, place);
    requestAnimationFrame(() => window.scrollTo(0, place.y));
  }

  sayReach(isThere: boolean): void {
    this.unreachable.hidden = isThere;
  }

  private build(): void {
    const items = VIEWS.map((kind) => {
      const isAbsent = kind.absentBecause(this.app) !== null;
      const link = h(
        'a',
        { href: `#${kind.id}`, class: isAbsent ? 'is-absent' : null },
        kind.title,
        isAbsent && h('span', { class: 'unseen' }, ' (nothing recorded)'),
      );
      this.links.set(kind.id, link);
      return h('li', {}, link);
    });
    this.root.replaceChildren(
      h('a', { class: 'skip', href: '#view' }, 'Skip to the content'),
      h(
        'header',
        { class: 'top' },
        h('span', { class: 'brand' }, 'Kinetoscope'),
        h('nav', { 'aria-label': 'Views' }, h('ul', {}, ...items)),
      ),
      this.unreachable,
      this.main,
    );
    this.root.querySelector('.skip')?.addEventListener('click', (event) => {
      event.preventDefault();
      event.stopPropagation();
      this.main.focus();
    });
  }

  private go(hash: string): void {
    if (hash === this.hash) {
      return;
    }
    const isFirst = this.hash === null;
    this.hash = hash;
    const route = parseRoute(hash);
    const kind = VIEWS.find((each) => each.id === route.view) ?? overviewView;
    this.current = kind;
    const view = this.viewOf(kind);
    this.mark(kind);
    this.main.replaceChildren(view.element);
    view.show?.(route.params);
    if (!isFirst) {
      window.scrollTo(0, 0);
      // The link that led here may be gone: keys go on from the top of the new view.
      if (!document.activeElement || document.activeElement === document.body) {
        this.main.focus({ preventScroll: true });
      }
    }
  }

  private mark(kind: ViewKind): void {
    for (const [id, link] of this.links) {
      if (id === kind.id) {
        link.setAttribute('aria-current', 'page');
        link.scrollIntoView({ block: 'nearest', inline: 'nearest' });
      } else {
        link.removeAttribute('aria-current');
      }
    }
  }

  private viewOf(kind: ViewKind): View {
    const view = this.made.get(kind.id) ?? viewOf(kind, this.app);
    this.made.set(kind.id, view);
    return view;
  }

  /** Changes the address without a new entry in the history. */
  private remember(params: Record<string, string>): void {
    if (this.current.id !== 'timeline') {
      return;
    }
    const query = new URLSearchParams(params).toString();
    const hash = query === '' ? '#timeline' : `#timeline?${query}`;
    if (hash === this.hash) {
      return;
    }
    try {
      window.history.replaceState(null, '', hash);
      this.hash = hash;
    } catch {
      // As above.
    }
  }
}

function viewOf(kind: ViewKind, app: App): View {
  const reason = kind.absentBecause(app);
  return reason === null
    ? kind.make(app)
    : { element: h('div', { class: 'view' }, h('h1', {}, kind.title), absent(reason)) };
}

/** The report of a source, named in the title of the page. */
async function reportOf(source: Source): Promise<Report> {
  const report = asReport(await source.block('report'));
  if (!report) {
    throw new Error('no report');
  }
  document.title = `${report.verdict.text} – Kinetoscope`;
  return report;
}

async function startServed(root: HTMLElement): Promise<void> {
  const { server, source } = await Server.open();
  const page = new Page(await reportOf(source), source, root);
  server.watch(
    async (newer) => page.renew(await reportOf(newer), newer),
    (isThere) => page.sayReach(isThere),
  );
}

async function start(): Promise<void> {
  const root = document.getElementById('app');
  if (!root) {
    return;
  }
  let why = 'This page is damaged or cut: its report cannot be read. Write it again.';
  try {
    if (isServed()) {
      why = 'The report cannot be read: kscope view has ended, or cannot be reached.';
      await startServed(root);
    } else {
      new Page(await reportOf(embeddedSource), embeddedSource, root);
    }
    return;
  } catch (error) {
    why = error instanceof Refused ? error.message : why;
  }
  root.replaceChildren(h('main', {}, h('div', { class: 'view' }, absent(why))));
}

void start();
