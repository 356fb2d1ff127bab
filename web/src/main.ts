// Starts the page: reads the report, puts up the navigation, shows the view that the address names.
import { App, parseRoute, type View, type ViewKind } from './app';
import { readBlock } from './data/blocks';
import { asReport, type Report } from './data/report';
import { absent, h } from './dom';
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
  private readonly app: App;
  private readonly made = new Map<string, View>();
  private readonly links = new Map<string, HTMLAnchorElement>();
  private readonly main = h('main', { id: 'view', tabindex: -1 });
  private hash: string | null = null;
  private current: ViewKind = overviewView;

  constructor(
    report: Report,
    private readonly root: HTMLElement,
  ) {
    this.app = new App(report, (params) => this.remember(params));
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
    for (const [id, link] of this.links) {
      if (id === kind.id) {
        link.setAttribute('aria-current', 'page');
        link.scrollIntoView({ block: 'nearest', inline: 'nearest' });
      } else {
        link.removeAttribute('aria-current');
      }
    }
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

  private viewOf(kind: ViewKind): View {
    let view = this.made.get(kind.id);
    if (!view) {
      const reason = kind.absentBecause(this.app);
      view =
        reason === null
          ? kind.make(this.app)
          : { element: h('div', { class: 'view' }, h('h1', {}, kind.title), absent(reason)) };
      this.made.set(kind.id, view);
    }
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

async function start(): Promise<void> {
  const root = document.getElementById('app');
  if (!root) {
    return;
  }
  try {
    const report = asReport(await readBlock('report'));
    if (report) {
      document.title = `${report.verdict.text} – Kinetoscope`;
      new Page(report, root);
      return;
    }
  } catch {
    // Said below: a page that was cut has no report that can be read.
  }
  root.replaceChildren(
    h(
      'main',
      {},
      absent('This page is damaged or cut: its report cannot be read. Write it again.'),
    ),
  );
}

void start();
