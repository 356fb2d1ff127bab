// What the tests of the page share: Debian's Chromium, pages that `kscope report --html` wrote
// (folder PAGES, by test_browser.py), and pages made here of data blocks of any shape.
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
export const PAGES = process.env.PAGES;
export const BUNDLE = process.env.BUNDLE;
const webRequire = createRequire(join(ROOT, 'web/package.json'));
const { chromium } = webRequire('playwright-core');

export const VIEWS = [
  'overview',
  'timeline',
  'operators',
  'kernels',
  'modules',
  'flame',
  'memory',
  'copies',
  'code',
  'ranks',
  'compile',
  'about',
];

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export function launch() {
  const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
  return chromium.launch({ executablePath, args: FLAGS });
}

export function axeSource() {
  return readFileSync(webRequire.resolve('axe-core/axe.min.js'), 'utf8');
}

export function readJson(name) {
  return JSON.parse(readFileSync(join(PAGES, `${name}.json`), 'utf8'));
}

export function readText(name) {
  return readFileSync(join(PAGES, `${name}.txt`), 'utf8');
}

export function urlOf(name, hash = '') {
  return pathToFileURL(join(PAGES, `${name}.html`)).href + hash;
}

/** A tab that notes whatever a quiet page does not do. */
export async function openTab(browser, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    ...options,
  });
  const tab = await context.newPage();
  const noise = [];
  tab.on('console', (message) => noise.push(`console: ${message.text()}`));
  tab.on('pageerror', (error) => noise.push(`error: ${error.message}`));
  tab.on('dialog', (dialog) => {
    noise.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  let opened = '';
  tab.on('request', (request) => {
    if (request.url().split('#')[0] !== opened) {
      noise.push(`request: ${request.url().slice(0, 200)}`);
    }
  });
  return {
    tab,
    noise,
    async open(url) {
      opened = url.split('#')[0];
      await tab.goto('about:blank'); // or a change of the hash alone would not load anything
      noise.length = 0;
      await tab.goto(url);
      await tab.waitForSelector('main');
    },
    close: () => context.close(),
  };
}

/** Waits until the view has drawn what its data block holds. */
export async function settle(tab) {
  await tab.waitForFunction(
    () => !document.querySelector('main')?.textContent?.includes('Reading …'),
  );
  await tab.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
  );
}

/** A report with the fewest keys, for pages made here. */
export function smallReport(more = {}) {
  return {
    schema: 'kinetoscope.report/1',
    generator: 'test',
    verdict: { text: 'A made-up report.', bound_by: 'unknown', share: null },
    environment: { torch: null, cuda: null, driver: null, gpus: [], cpu: null, cgroup: null },
    overhead: {
      profiler_ns: 0,
      row_cost_ns: null,
      predicted_step_ns: null,
      measured_step_ns: null,
    },
    inputs: [],
    origin_ns: '0',
    steps: [],
    devices: [],
    operators: [],
    kernels: [],
    links: {},
    data_loading: { loaders: [] },
    findings: [],
    plan: [],
    checked: [],
    opportunities: [],
    reasons: {},
    ...more,
  };
}

function escapeBlock(value) {
  return JSON.stringify(value).replace(
    /[<>&\u2028\u2029]/g,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

function hashOf(text) {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

/** Writes a page of the given data blocks, as the program would, and gives its address. */
export function writePage(blocks) {
  const script = readFileSync(join(BUNDLE, 'page.js'), 'utf8');
  const style = readFileSync(join(BUNDLE, 'page.css'), 'utf8');
  const policy =
    `default-src 'none'; script-src ${hashOf(script)}; style-src ${hashOf(style)}; ` +
    `img-src data:; base-uri 'none'; form-action 'none'`;
  const data = Object.entries(blocks).map(
    ([id, value]) => `<script type="application/json" id="${id}">${escapeBlock(value)}</script>`,
  );
  const html =
    `<!doctype html><html lang="en"><head><meta charset="utf-8">` +
    `<meta http-equiv="Content-Security-Policy" content="${policy}"><title>test</title>` +
    `<style>${style}</style></head><body><div id="app"></div>${data.join('')}` +
    `<script>${script}</script></body></html>`;
  const path = join(mkdtempSync(join(PAGES ?? tmpdir(), 'page-')), 'page.html');
  writeFileSync(path, html);
  return { path, url: pathToFileURL(path).href, html };
}

/** Spans side by side on several lanes: `count` of them on each of `tracks` tracks. */
export function bigTimeline(tracks, count) {
  const lanes = 6; // as many as are seen of a folded track
  const rows = Array.from({ length: tracks }, (_, id) => {
    const level = { ts: [], dur: [], depth: [], name: [], count: [] };
    for (let i = 0; i < count; i++) {
      const depth = i % lanes;
      level.ts.push(i === 0 ? 0 : 100);
      level.dur.push(100 * lanes - 20);
      level.depth.push(depth);
      level.name.push((i * 7 + id) % 50);
      level.count.push(1);
    }
    return {
      id,
      kind: id % 3 === 0 ? 'stream' : 'thread',
      name: `track ${id}`,
      rank: null,
      process: '',
      depth_max: lanes,
      events: count,
      levels: [
        {
          start_ns: 0,
          end_ns: count * 100 + 1000,
          resolution_ns: 0,
          is_exact: true,
          ...level,
        },
      ],
    };
  });
  return {
    origin_ns: '0',
    start_ns: 0,
    end_ns: count * 100 + 1000,
    strings: Array.from({ length: 50 }, (_, i) => `aten::operator_${i}`),
    tracks: rows,
    counters: [],
    flows: { from_track: [], from_ns: [], to_track: [], to_ns: [] },
  };
}
