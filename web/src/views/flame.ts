// Flame graphs, drawn from the root downwards. Width is time; a frame opens by click or Enter.
import { linkToName, type ViewKind } from '../app';
import type { FlameTree } from '../data/flame';
import { absent, button, clear, h, twin } from '../dom';
import { formatAs, formatCount, formatShare, words } from '../format';
import { Canvas, Fitter } from '../ui/canvas';
import { shortName } from '../ui/names';
import { fillOf, onThemeChange, readTheme, SPAN_INK, type Theme } from '../ui/palette';
import { type Column, Table } from '../ui/table';
import { BlockView } from './block';

const FRAME_HEIGHT = 19;
const FRAME_WIDTH_MIN = 0.6;
const TITLES: Record<string, string> = {
  operators: 'Operators by CPU time',
  python: 'Python frames',
  device: 'GPU time by caller',
};

export const flameView: ViewKind = {
  id: 'flame',
  title: 'Flame graph',
  absentBecause: () => null,
  make: (app) =>
    new BlockView({ title: 'Flame graph', what: 'flame graphs', read: () => app.flame(), build }),
};

function build(trees: readonly FlameTree[], element: HTMLElement): null {
  if (trees.length === 0) {
    element.append(absent('The inputs hold no operators and no stacks to nest.'));
    return null;
  }
  const place = h('div', {});
  const panels = new Map<FlameTree, FlamePanel>(); // each keeps what was opened in it
  const choose = (tree: FlameTree) => {
    const panel = panels.get(tree) ?? new FlamePanel(tree);
    panels.set(tree, panel);
    place.replaceChildren(panel.element);
    buttons.forEach((each, i) => each.setAttribute('aria-pressed', String(trees[i] === tree)));
  };
  const buttons = trees.map((tree) =>
    button(TITLES[tree.name] ?? words(tree.name), () => choose(tree), { class: 'choice' }),
  );
  element.append(h('div', { class: 'toolbar' }, ...buttons), place);
  trees.slice(0, 1).forEach(choose);
  return null;
}

class FlamePanel {
  readonly element = h('div', {});
  private readonly box = h('div', { class: 'flame-box' });
  private readonly details = h('div', { class: 'details', 'aria-live': 'polite' });
  private readonly found = h('span', { class: 'muted', role: 'status' });
  private readonly query = h('input', {
    type: 'search',
    placeholder: 'Search by name',
    'aria-label': 'Search frames by name',
  });
  private readonly canvas: Canvas;
  private readonly fitter: Fitter;
  private theme: Theme = readTheme(document.body);
  /** The frame that fills the width; -1 shows all roots. */
  private root = -1;
  private chosen = 0;
  private scrollY = 0;
  private matches: Uint8Array | null = null;
  private readonly children: readonly (readonly number[])[];

  constructor(private readonly tree: FlameTree) {
    this.children = childrenOf(tree);
    const rows = Math.min(tree.depthCount, 34);
    this.box.style.height = `${Math.max(rows, 6) * FRAME_HEIGHT + 2}px`;
    this.canvas = new Canvas(this.box, () => this.draw());
    this.fitter = new Fitter(this.canvas.context);
    this.build();
    onThemeChange(this, () => {
      this.theme = readTheme(document.body);
      this.canvas.redraw();
    });
  }

  private build(): void {
    const canvas = this.canvas.element;
    canvas.tabIndex = 0;
    canvas.setAttribute('role', 'application');
    canvas.setAttribute(
      'aria-label',
      'Flame graph. Arrow keys go from frame to frame, Enter opens one, Escape shows all.',
    );
    canvas.addEventListener('click', (event) => {
      const node = this.nodeAt(event.offsetX, event.offsetY);
      if (node >= 0) {
        this.choose(node);
        this.open(node);
      }
    });
    canvas.addEventListener('pointermove', (event) => {
      const node = this.nodeAt(event.offsetX, event.offsetY);
      canvas.title = node >= 0 ? this.sentence(node) : '';
    });
    canvas.addEventListener('keydown', (event) => this.onKey(event));
    canvas.addEventListener('wheel', (event) => this.onWheel(event), { passive: false });
    this.query.addEventListener('input', () => this.search());
    this.element.append(
      h(
        'div',
        { class: 'toolbar' },
        this.query,
        this.found,
        h('span', { class: 'spring' }),
        button('Show all', () => this.open(-1)),
      ),
      this.box,
      this.details,
      twin('Frames as a table', () => this.table()),
    );
    this.choose(0);
  }

  private get span(): { offset: number; total: number; depth: number } {
    const { tree, root } = this;
    return root < 0
      ? { offset: 0, total: tree.total0, depth: 0 }
      : {
          offset: tree.offset[root] ?? 0,
          total: tree.total[root] ?? 1,
          depth: tree.depth[root] ?? 0,
        };
  }

  private draw(): void {
    const { context, width, height } = this.canvas;
    context.font = this.theme.font;
    context.textBaseline = 'middle';
    context.fillStyle = this.theme.paper;
    context.fillRect(0, 0, width, height);
    const path = this.pathOf(this.root);
    path.slice(0, -1).forEach((node) => this.drawNode(node, 0, width));
    const roots = this.root < 0 ? this.children[this.tree.size] : [this.root];
    this.drawAll(roots ?? []);
  }

  /** Walks down without recursion, and leaves out what is too narrow to see. */
  private drawAll(roots: readonly number[]): void {
    const { tree } = this;
    const { offset, total } = this.span;
    const scale = this.canvas.width / (total || 1);
    const open = [...roots];
    while (open.length > 0) {
      const node = open.pop() ?? 0;
      const width = (tree.total[node] ?? 0) * scale;
      const y = this.rowTop(node);
      if (width < FRAME_WIDTH_MIN || y > this.canvas.height) {
        continue;
      }
      this.drawNode(node, ((tree.offset[node] ?? 0) - offset) * scale, width);
      open.push(...(this.children[node] ?? []));
    }
  }

  private rowTop(node: number): number {
    return (this.tree.depth[node] ?? 0) * FRAME_HEIGHT - this.scrollY;
  }

  private drawNode(node: number, x: number, width: number): void {
    const y = this.rowTop(node);
    const { context } = this.canvas;
    if (y + FRAME_HEIGHT < 0) {
      return;
    }
    const name = this.tree.nameOf(node);
    const isOther = /^other \(/.test(name);
    context.globalAlpha = this.matches && !this.matches[node] ? 0.35 : 1;
    context.fillStyle = isOther ? '#c9cdd3' : fillOf(shortName(name), this.tree.name);
    context.fillRect(x, y, Math.max(width - 0.5, 0.5), FRAME_HEIGHT - 1);
    context.globalAlpha = 1;
    const label = this.fitter.fit(shortName(name), width - 6);
    if (label !== '') {
      context.fillStyle = this.matches && !this.matches[node] ? this.theme.muted : SPAN_INK;
      context.fillText(label, x + 3, y + FRAME_HEIGHT / 2);
    }
    if (node === this.chosen) {
      context.strokeStyle = this.theme.ink;
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, Math.max(width - 2, 1), FRAME_HEIGHT - 3);
    }
  }

  private nodeAt(x: number, y: number): number {
    const { tree } = this;
    const { offset, total, depth: top } = this.span;
    const depth = Math.floor((y + this.scrollY) / FRAME_HEIGHT);
    const at = offset + (x / this.canvas.width) * total;
    if (this.root >= 0 && depth < top) {
      return this.pathOf(this.root)[depth] ?? -1;
    }
    let node = -1;
    let nodes = this.children[tree.size] ?? [];
    for (let level = 0; level <= depth; level++) {
      node =
        nodes.find((each) => {
          const from = tree.offset[each] ?? 0;
          return at >= from && at < from + (tree.total[each] ?? 0);
        }) ?? -1;
      if (node < 0) {
        return -1;
      }
      nodes = this.children[node] ?? [];
    }
    return node;
  }

  /** From the outermost frame to `node`. */
  private pathOf(node: number): number[] {
    const path: number[] = [];
    for (let each = node; each >= 0; each = this.tree.parent[each] ?? -1) {
      path.unshift(each);
    }
    return path;
  }

  private open(node: number): void {
    this.root = node;
    const top = node < 0 ? 0 : (this.tree.depth[node] ?? 0) * FRAME_HEIGHT;
    this.scrollTo(Math.min(this.scrollY, top));
    this.canvas.redraw();
  }

  private choose(node: number): void {
    this.chosen = node;
    const y = this.rowTop(node);
    const room = this.canvas.height || this.box.clientHeight;
    if (y < 0 || (room > 0 && y + FRAME_HEIGHT > room)) {
      this.scrollTo(this.scrollY + y - room / 2);
    }
    this.describe(node);
    this.canvas.redraw();
  }

  private scrollTo(y: number): void {
    const most = this.tree.depthCount * FRAME_HEIGHT - this.canvas.height;
    this.scrollY = Math.max(0, Math.min(y, most));
  }

  private onWheel(event: WheelEvent): void {
    const before = this.scrollY;
    this.scrollTo(this.scrollY + event.deltaY);
    if (this.scrollY !== before) {
      event.preventDefault();
      this.canvas.redraw();
    }
  }

  private onKey(event: KeyboardEvent): void {
    const to = this.neighbour(event.key);
    if (to !== null) {
      event.preventDefault();
      if (to >= 0) {
        this.choose(to);
      }
    } else if (event.key === 'Enter') {
      this.open(this.chosen);
    } else if (event.key === 'Escape' || event.key === '0') {
      this.open(-1);
    }
  }

  /** -1 when the key is an arrow and there is nothing in that direction; null for other keys. */
  private neighbour(key: string): number | null {
    const parent = this.tree.parent[this.chosen] ?? -1;
    const siblings = this.children[parent < 0 ? this.tree.size : parent] ?? [];
    const at = siblings.indexOf(this.chosen);
    switch (key) {
      case 'ArrowUp':
        return parent;
      case 'ArrowDown': {
        const below = this.children[this.chosen] ?? [];
        return below.reduce(
          (most, each) =>
            most < 0 || (this.tree.total[each] ?? 0) > (this.tree.total[most] ?? 0) ? each : most,
          -1,
        );
      }
      case 'ArrowLeft':
        return siblings[at - 1] ?? -1;
      case 'ArrowRight':
        return siblings[at + 1] ?? -1;
      default:
        return null;
    }
  }

  private search(): void {
    const text = this.query.value.trim().toLowerCase();
    if (text === '') {
      this.matches = null;
      this.found.textContent = '';
    } else {
      const matches = new Uint8Array(this.tree.size);
      let covered = 0;
      let count = 0;
      let coveredTo = -1; // frames inside of a match add nothing to it
      for (let i = 0; i < this.tree.size; i++) {
        if (this.tree.nameOf(i).toLowerCase().includes(text)) {
          matches[i] = 1;
          count++;
          const from = this.tree.offset[i] ?? 0;
          if (from >= coveredTo) {
            covered += this.tree.total[i] ?? 0;
            coveredTo = from + (this.tree.total[i] ?? 0);
          }
        }
      }
      this.matches = matches;
      const share = formatShare(covered / (this.tree.total0 || 1));
      this.found.textContent =
        count === 0 ? 'no match' : `${formatCount(count)} frames, ${share} of all`;
    }
    this.canvas.redraw();
  }

  private sentence(node: number): string {
    const { tree } = this;
    const total = tree.total[node] ?? 0;
    return (
      `${tree.nameOf(node)}: ${formatAs(total, tree.unit)} ` +
      `(${formatShare(total / (tree.total0 || 1))}), self ${formatAs(tree.self[node], tree.unit)}`
    );
  }

  private describe(node: number): void {
    const { tree } = this;
    clear(this.details);
    const name = tree.nameOf(node);
    const total = tree.total[node] ?? 0;
    const facts: (readonly [string, string])[] = [
      ['total', formatAs(total, tree.unit)],
      ['share of all', formatShare(total / (tree.total0 || 1))],
      ['self', formatAs(tree.self[node], tree.unit)],
      ['calls', formatCount(tree.calls[node])],
      [
        'inside of',
        this.pathOf(tree.parent[node] ?? -1)
          .map((n) => shortName(tree.nameOf(n)))
          .pop() ?? '–',
      ],
    ];
    this.details.append(
      h('h2', { class: 'name' }, name),
      h(
        'dl',
        { class: 'facts' },
        ...facts.map(([key, value]) => h('div', {}, h('dt', {}, key), h('dd', {}, value))),
      ),
      h(
        'p',
        { class: 'actions' },
        button('Open', () => this.open(node)),
        h('a', { class: 'button', href: linkToName(name) }, 'Find in the timeline'),
      ),
    );
  }

  private table(): HTMLElement {
    const { tree } = this;
    const columns: Column<number>[] = [
      { key: 'name', title: 'frame', value: (n) => tree.nameOf(n), isName: true },
      { key: 'depth', title: 'level', value: (n) => tree.depth[n] },
      amount('self', 'self', (n) => tree.self[n] ?? 0, tree.unit),
      amount('total', 'total', (n) => tree.total[n] ?? 0, tree.unit),
      {
        key: 'calls',
        title: 'calls',
        value: (n) => tree.calls[n],
        text: (n) => formatCount(tree.calls[n]),
      },
      {
        key: 'parent',
        title: 'inside of',
        value: (n) => shortName(tree.nameOf(tree.parent[n] ?? -1)),
      },
    ];
    return new Table({
      name: 'frames',
      columns,
      rows: Array.from({ length: tree.size }, (_, i) => i),
      sortBy: 'self',
      onOpen: (node) => this.choose(node),
    }).element;
  }
}

function amount(
  key: string,
  title: string,
  value: (node: number) => number,
  unit: string,
): Column<number> {
  return { key, title, value, text: (node) => formatAs(value(node), unit) };
}

/** Children by node; the last entry holds the roots. */
function childrenOf(tree: FlameTree): number[][] {
  const children: number[][] = Array.from({ length: tree.size + 1 }, () => []);
  for (let i = 0; i < tree.size; i++) {
    const parent = tree.parent[i] ?? -1;
    children[parent < 0 ? tree.size : parent]?.push(i);
  }
  return children;
}
