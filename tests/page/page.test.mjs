// Tests of the report page in Chromium. Run by test_browser.py, which writes the pages.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  axeSource,
  bigTimeline,
  launch,
  openTab,
  readJson,
  readText,
  ROOT,
  settle,
  smallReport,
  urlOf,
  VIEWS,
  writePage,
} from './support.mjs';

const ALL_PAGES = ['gpu', 'ranks', 'cpu', 'memory', 'empty', 'damaged', 'hostile'];
const THEMES = ['light', 'dark'];
// Views have the same structure in both themes: colours alone can differ in the dark one.
const AXE = {
  light: {
    rules: ['wcag2a', 'wcag2aa', 'wcag21aa'],
    views: [
      ['gpu', ['overview', 'timeline', 'operators', 'flame', 'copies', 'about']],
      ['ranks', ['ranks']],
      ['memory', ['memory']],
      ['damaged', ['overview', 'kernels']],
      ['compared', ['compare']],
    ],
  },
  dark: {
    rules: ['color-contrast'],
    views: [
      ['gpu', ['overview', 'timeline', 'operators']],
      ['damaged', ['overview']],
      ['compared', ['compare']],
    ],
  },
};
let browser;

before(async () => {
  browser = await launch();
});
after(() => browser?.close());

let shared; // a tab of its own for each test would take as long as the tests

async function withTab(work, options) {
  const opened = options ? await openTab(browser, options) : (shared ??= await openTab(browser));
  try {
    await opened.tab.emulateMedia({ media: null });
    await work(opened.tab, opened);
  } finally {
    if (options) {
      await opened.close();
    }
  }
}

async function goTo(tab, view) {
  await tab.evaluate((id) => document.querySelector(`nav a[href="#${id}"]`).click(), view);
  await settle(tab);
}

/** A module of the page, without the page. */
async function load(path) {
  const webRequire = createRequire(join(ROOT, 'web/package.json'));
  const { build } = webRequire('esbuild');
  const bundled = await build({
    entryPoints: [join(ROOT, 'web/src', path)],
    bundle: true,
    write: false,
    format: 'esm',
  });
  const code = Buffer.from(bundled.outputFiles[0].contents).toString('base64');
  return import(`data:text/javascript;base64,${code}`);
}

test('numbers are written as the terminal writes them', async () => {
  const format = await load('format.ts');
  const cases = readFileSync(join(ROOT, 'tests/unit/test_units.c'), 'utf8');
  const kinds = {
    time: format.formatTime,
    bytes: format.formatBytes,
    rate: format.formatRate,
    flops: format.formatFlops,
    count: format.formatCount,
    share: format.formatShare,
  };
  const row = /(?:ks_units_|check_)(\w+)\(([^,()]*?)\)?(?:\.text)?, "([^"]*)"\)/g;
  let count = 0;
  for (const [, kind, value, expected] of cases.matchAll(row)) {
    const number = Number(value.replace(/LL.*/, ''));
    const shift = /<< (\d+)/.exec(value);
    const exact = shift ? number * 2 ** Number(shift[1]) : number;
    if (kinds[kind] && Number.isFinite(exact)) {
      assert.equal(kinds[kind](exact), expected, `${kind} of ${value}`);
      count++;
    }
  }
  assert.ok(count > 30, `only ${count} cases of the C tests were understood`);
  // Exact ties go to the even digit in C, and upwards in toFixed.
  assert.equal(format.formatTime(1125), '1.12 us');
  assert.equal(format.formatTime(1375), '1.38 us');
  assert.equal(format.formatTime(null), '–');
  assert.equal(format.formatCount(1234.996), '1,235');
  assert.equal(format.formatCount(-0.126), '-0.13');
});

test('kernels are named by what tells them apart', async () => {
  const { shortName } = await load('ui/names.ts');
  for (const [name, short] of [
    ['void at::native::vectorized_elementwise_kernel<4, f<float>, a<char*, 2ul> >(int, f)', null],
    ['ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)', null],
    ['void (anonymous namespace)::softmax_warp_forward<float>(float*)', 'softmax_warp_forward'],
    ['Memcpy DtoH (Device -> Pinned)', 'Memcpy DtoH (Device -> Pinned)'],
    ['train.py(12): <module>', 'train.py(12): <module>'],
    ['aten::addmm', 'aten::addmm'],
    ['', ''],
    ['((((', '(((('],
  ]) {
    assert.equal(shortName(name), short ?? /(\w+)[<(]/.exec(name)[1]);
  }
});

/** Ten spans of 10 ns side by side: merged in pairs, and one by one in the middle. */
function twoLevels() {
  const row = { depth: 0, name: 0 };
  const column = (rows, key) => rows.map((each) => each[key]);
  const level = (startNs, endNs, resolution, rows) => ({
    start_ns: startNs,
    end_ns: endNs,
    resolution_ns: resolution,
    is_exact: resolution === 0,
    ts: rows.map((each, i) => each.ts - (rows[i - 1]?.ts ?? 0)),
    dur: column(rows, 'dur'),
    depth: column(rows, 'depth'),
    name: column(rows, 'name'),
    count: column(rows, 'count'),
  });
  const merged = [0, 20, 40, 60, 80].map((ts) => ({ ...row, ts, dur: 20, count: 2 }));
  const single = [40, 50].map((ts) => ({ ...row, ts, dur: 10, count: 1 }));
  const levels = [level(0, 100, 16, merged), level(40, 60, 0, single)];
  const track = { id: 0, kind: 'thread', name: 't', rank: 0, depth_max: 1, events: 10, levels };
  return { origin_ns: '0', start_ns: 0, end_ns: 100, strings: ['op'], tracks: [track] };
}

test('each moment is drawn and found in the finest level that has it', async () => {
  const { asTimeline } = await load('data/timeline.ts');
  const timeline = asTimeline(twoLevels());
  const pieces = timeline.tracks[0]
    .cover(10, 90)
    .map(({ level, fromNs, toNs }) => [fromNs, toNs, level.isExact]);
  assert.deepEqual(pieces, [
    [10, 40, false],
    [40, 60, true],
    [60, 90, false],
  ]);
  const found = timeline.search('OP', 100).map((span) => [span.startNs, span.count]);
  assert.deepEqual(found, [
    [0, 2],
    [20, 2],
    [40, 1],
    [50, 1],
    [60, 2],
    [80, 2],
  ]);
  assert.equal(timeline.search('none', 100).length, 0);
  assert.equal(asTimeline({ tracks: [], strings: [] }), null);
});

test('frames of a damaged tree lead to a root', async () => {
  const { asFlame } = await load('data/flame.ts');
  const ones = [1, 1, 1, 1];
  const nodes = {
    parent: [-1, 0, 2, 9],
    name: [0, 0, 0, 0],
    self: ones,
    total: [4, 1, 2, 3],
    calls: ones,
  };
  const [tree] = asFlame({ kinds: [{ name: 'python', unit: 'ns', strings: ['f'], nodes }] });
  assert.deepEqual([...tree.parent], [-1, 0, -1, -1]);
  assert.deepEqual([...tree.offset], [0, 0, 4, 6]);
  assert.deepEqual([...tree.depth], [0, 1, 0, 0]);
  assert.equal(tree.total0, 9);
});

test('names of files are one word of a shell', async () => {
  const { quoted } = await load('views/about.ts');
  for (const [name, word] of [
    ['a-1.pt.trace.json.gz', 'a-1.pt.trace.json.gz'],
    ['two words', "'./two words'"],
    ['$(x)`y`', "'./$(x)`y`'"],
    ["it's", "'./it'\\''s'"],
    ['--html', "'./--html'"],
  ]) {
    assert.equal(quoted(name), word);
  }
});

test('a span that ends late is found behind those that begin after it', async () => {
  const { asTimeline, firstAbove } = await load('data/timeline.ts');
  const level = { start_ns: 0, end_ns: 130, resolution_ns: 0, is_exact: true };
  const ts = [0, 6, 4, 10, 20, 60]; // the third of them lasts until the last one begins
  const [zeros, ones] = [ts.map(() => 0), ts.map(() => 1)];
  const columns = { ts, dur: [5, 2, 90, 10, 5, 10], name: [1, 1, 0, 1, 1, 1], depth: zeros };
  const track = { id: 0, kind: 'async', name: 't', depth_max: 1, events: 3 };
  const tracks = [
    { ...track, levels: [{ ...level, ...columns, count: ones }] },
    { ...track, id: 1, levels: [] },
  ];
  const flows = { from_track: [0, 1], from_ns: [50, 50], to_track: [1, 0], to_ns: [60, 60] };
  const all = { origin_ns: '0', start_ns: 0, end_ns: 130, strings: ['f', 'g'], tracks, flows };
  const timeline = asTimeline(all);
  const [span] = timeline.search('f', 1);
  assert.equal(firstAbove(span.level.lanes[0].reach, 50), 2);
  const ends = timeline.flowsOf(span).map((flow) => [flow.fromTrack, flow.toTrack]);
  assert.deepEqual(ends, [
    [0, 1],
    [1, 0],
  ]);
  const own = asTimeline({ ...all, flows: { ...flows, from_track: [1, 1], to_track: [1, 1] } });
  assert.deepEqual(own.flowsOf(span), []);
});

test('a zoom keeps the moment below the pointer, and stays inside of the trace', async () => {
  const { Camera } = await load('timeline/camera.ts');
  const camera = new Camera(0, 1000);
  camera.zoom(0.5, 200);
  assert.deepEqual([camera.fromNs, camera.toNs], [100, 600]);
  camera.pan(9999);
  assert.deepEqual([camera.fromNs, camera.toNs], [500, 1000]);
  camera.zoom(100);
  assert.deepEqual([camera.fromNs, camera.toNs], [0, 1000]);
});

/** What `paint` fills in the lane of the first track, as [from, to] in pixels, by place. */
async function paintedBoxes(timeline, width) {
  const { paint } = await load('timeline/paint.ts');
  const { Rows } = await load('timeline/rows.ts');
  const filled = [];
  const fillRect = (x, y, w, h) => h === 16 && filled.push([x, x + w]);
  const context = new Proxy({ fillRect }, { get: (own, key) => own[key] ?? (() => undefined) });
  paint(context, {
    timeline,
    camera: { fromNs: 0, toNs: timeline.endNs, widthNs: timeline.endNs, endNs: timeline.endNs },
    rows: new Rows(timeline),
    theme: {},
    fitter: { fit: () => '' },
    gutter: 100,
    scrollY: 0,
    selected: null,
    hovered: null,
    matches: new Set(),
    flows: [],
    height: 400,
    width,
  });
  return filled.sort(([a], [b]) => a - b);
}

test('no pixel of a dense lane is left out, and a span by itself is drawn', async () => {
  const { asTimeline } = await load('data/timeline.ts');
  const raw = bigTimeline(1, 20_000);
  const [level] = raw.tracks[0].levels;
  Object.assign(level, { depth: level.ts.map(() => 0), dur: level.ts.map(() => 90) });
  level.ts[19_999] = 1_000_000; // alone, after a gap
  Object.assign(raw, { end_ns: 4_000_000 });
  level.end_ns = 4_000_000;
  const boxes = await paintedBoxes(asTimeline(raw), 900);
  let reached = 100;
  for (const [from, to] of boxes.slice(0, -1)) {
    assert.ok(from <= reached + 1, `nothing is drawn from ${reached} to ${from}`);
    reached = Math.max(reached, to);
  }
  assert.ok(Math.abs(reached - 500) < 2, `${reached}`);
  const [from] = boxes.at(-1);
  assert.ok(Math.abs(from - 700) < 1, `${from}`);
  assert.ok(boxes.length < 400, `${boxes.length} boxes`);
});

test('a bar of several steps is the longest of them', async () => {
  const { columnsOf } = await load('views/steps.ts');
  const steps = [5, 9, 7, 1, 2].map((dur, i) => ({ number: i, index: i, rank: null, dur_ns: dur }));
  const bars = columnsOf(steps, 3).map(({ step, count }) => [step.dur_ns, count]);
  assert.deepEqual(bars, [
    [9, 2],
    [7, 2],
    [2, 1],
  ]);
});

test('the search in a lane finds what a walk finds', async () => {
  const { firstAbove } = await load('data/timeline.ts');
  let seed = 7;
  const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
  for (let turn = 0; turn < 2000; turn++) {
    const values = Float64Array.from({ length: random(40) }, () => random(50)).sort();
    const limit = random(55) - 2;
    const low = random(values.length + 1);
    const walked = values.findIndex((value, i) => i >= low && value > limit);
    assert.equal(firstAbove(values, limit, low), walked < 0 ? values.length : walked);
  }
});

for (const name of ALL_PAGES) {
  test(`every view of the ${name} page shows something, asks nothing of the network`, () =>
    withTab(async (tab, { noise, open }) => {
      await open(urlOf(name));
      for (const view of VIEWS) {
        await goTo(tab, view);
        const text = await tab.innerText('main');
        assert.ok(text.trim().length > 30, `${view} is empty`);
        assert.doesNotMatch(text, /undefined|NaN|\[object|Infinity|This page is damaged/, view);
        const isWide = await tab.evaluate(
          () => document.documentElement.scrollWidth > document.documentElement.clientWidth,
        );
        assert.ok(!isWide, `${view} is wider than the window`);
      }
      assert.deepEqual(noise, []);
    }));
}

test('findings, savings and verdict are those of the terminal and of the JSON', () =>
  withTab(async (tab, { open }) => {
    for (const name of ['gpu', 'ranks', 'cpu', 'memory']) {
      const report = readJson(name);
      await open(urlOf(name));
      assert.equal(await tab.innerText('.verdict'), report.verdict.text);
      const savings = await tab.locator('.card:has(.evidence) > .saving').allInnerTexts();
      const titles = await tab.locator('.card[id^=finding] h3').allInnerTexts();
      assert.equal(titles.length, report.findings.length, name);
      report.findings.forEach((finding, i) => {
        assert.ok(titles[i].includes(finding.title), finding.title);
      });
      // The terminal shows the first findings, in lines of its own width.
      const terminal = readText(name).replace(/\s+/g, ' ');
      const said = terminal.match(/saves .*?confidence \w+/g) ?? [];
      assert.deepEqual(savings.slice(0, said.length), said, name);
      assert.ok(said.length > 0 || report.findings.length === 0, name);
    }
  }));

test('the tables hold the rows of the JSON, in its order of size', () =>
  withTab(async (tab, { open }) => {
    const report = readJson('gpu');
    await open(urlOf('gpu', '#kernels'));
    const kernels = [...report.kernels].sort((a, b) => b.total_ns - a.total_ns);
    const rows = tab.locator('.grid tbody tr:not(.spacer)');
    assert.match(
      await tab.innerText('.table-view [role=status]'),
      new RegExp(`^${kernels.length} `),
    );
    for (const index of [0, 1, 5]) {
      const cells = await rows.nth(index).locator('td').allInnerTexts();
      const kernel = kernels[index];
      assert.equal(await rows.nth(index).locator('td.name').getAttribute('title'), kernel.name);
      assert.ok(cells.includes(kernel.calls.toLocaleString('en-US')), cells.join());
    }
    await goTo(tab, 'operators');
    const byCpu = [...report.operators].sort((a, b) => b.cpu_ns - a.cpu_ns);
    await tab.click('.grid th button:text-is("CPU")');
    assert.equal(await rows.first().locator('td.name').getAttribute('title'), byCpu[0].name);
    await tab.click('.grid th button:text-is("CPU")');
    const last = byCpu.at(-1).cpu_ns;
    const first = await rows.first().locator('td.name').getAttribute('title');
    assert.equal(report.operators.find((each) => each.name === first).cpu_ns, last);
  }));

test('the mean of some steps is not said to be that of all', () =>
  withTab(async (tab, { open }) => {
    const report = readJson('gpu');
    await open(writePage({ report }).url);
    assert.match(await tab.innerText('.tiles'), /Mean step/i);
    assert.match(await tab.innerText('.saving >> nth=0'), /of it\)/);
    await open(writePage({ report: { ...report, truncated: { steps: 4321 } } }).url);
    const cut = await tab.innerText('.tiles');
    const held = report.steps.length;
    assert.match(cut, new RegExp(`Mean of the first ${held} steps[\\s\\S]*4,321`, 'i'));
    assert.doesNotMatch(await tab.innerText('.saving >> nth=0'), /of it\)/);
    assert.match(await tab.innerText('main'), new RegExp(`The first ${held} steps; the others`));
  }));

test('step bars say the numbers of the JSON when chosen by key', () =>
  withTab(async (tab, { open }) => {
    const report = readJson('gpu');
    const format = await load('format.ts');
    await open(urlOf('gpu'));
    await tab.focus('.steps');
    await tab.keyboard.press('Home');
    for (const step of report.steps) {
      const text = await tab.innerText('.readout');
      assert.ok(text.includes(`Step ${step.number}: ${format.formatTime(step.dur_ns)}`), text);
      assert.ok(text.includes(format.formatTime(step.breakdown_ns.kernel)), text);
      assert.ok(text.includes(format.formatTime(step.idle_by_cause_ns.host_code)), text);
      await tab.keyboard.press('ArrowRight');
    }
  }));

test('names of the input stay text', () =>
  withTab(async (tab, { noise, open }) => {
    await open(urlOf('hostile'));
    for (const view of VIEWS) {
      await goTo(tab, view);
      for (const details of await tab.locator('main details').all()) {
        await details.evaluate((element) => (element.open = true));
      }
      const strange = await tab.locator('#app :is(img, script, iframe, object, b, style)').count();
      assert.equal(strange, 0, view);
    }
    assert.equal(await tab.evaluate(() => window.hit), undefined);
    await goTo(tab, 'operators');
    const text = await tab.innerText('main');
    assert.ok(text.includes('<img src=x onerror="window.hit=1">'), text);
    assert.ok(text.includes('</script><script>window.hit=1</script>'), text);
    assert.deepEqual(noise, []);
  }));

test('what the input has lost stands on top of the damaged page', () =>
  withTab(async (tab, { open }) => {
    await open(urlOf('damaged'));
    const counts = readJson('damaged').inputs[0].counts;
    const banner = await tab.innerText('.banner');
    assert.ok(Object.keys(counts).length > 0);
    for (const name of Object.keys(counts)) {
      assert.ok(banner.includes(`(${name})`), banner);
    }
    assert.equal(await tab.evaluate(() => document.querySelector('.view > *').className), 'banner');
  }));

test('absent sections say why', () =>
  withTab(async (tab, { open }) => {
    await open(urlOf('cpu', '#kernels'));
    assert.match(await tab.innerText('main'), /No GPU work was recorded/);
    await goTo(tab, 'ranks');
    assert.match(await tab.innerText('main'), /one process/);
    await open(urlOf('gpu', '#memory'));
    await settle(tab);
    assert.match(await tab.innerText('main'), /profile_memory=True/);
  }));

async function seriousFaults(tab, rules) {
  return tab.evaluate(async (runOnly) => {
    const result = await window.axe.run(document, { runOnly, resultTypes: ['violations'] });
    return result.violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 160)}`);
  }, rules);
}

for (const theme of THEMES) {
  test(`axe finds nothing serious in the ${theme} theme`, () =>
    withTab(
      async (tab, { open }) => {
        const source = axeSource();
        const { rules, views: pages } = AXE[theme];
        for (const [name, views] of pages) {
          await open(urlOf(name));
          await tab.evaluate(source);
          for (const view of views) {
            await goTo(tab, view);
            await tab.evaluate(() => {
              document.querySelectorAll('main details').forEach((each) => (each.open = true));
            });
            const found = await seriousFaults(tab, rules);
            assert.deepEqual(found, [], `${name} ${view}`);
          }
        }
        await tab.evaluate(() => {
          const faint = document.createElement('p');
          faint.textContent = 'A planted fault.';
          faint.style.color = 'rgb(128 128 128 / 40%)';
          document.querySelector('main').append(faint);
        });
        assert.equal((await seriousFaults(tab, rules)).length, 1, 'the planted fault is not seen');
      },
      { colorScheme: theme },
    ));
}

/** Counts what a user does; a task is done when `text` can be read. */
class User {
  clicks = 0;

  constructor(tab) {
    this.tab = tab;
  }

  async click(selector) {
    this.clicks++;
    await this.tab.locator(selector).first().click();
    await settle(this.tab);
  }

  async sees(pattern, inside = 'main') {
    assert.match(await this.tab.locator(inside).first().innerText(), pattern);
    assert.ok(this.clicks <= 4, `took ${this.clicks} clicks`);
  }
}

test('task: find the slow rank', () =>
  withTab(async (tab, { open }) => {
    await open(urlOf('ranks'));
    const user = new User(tab);
    await user.sees(/All ranks wait for one that comes late/);
    await user.click('.card a:text("Ranks beside each other")');
    await user.sees(/Look at rank 1/);
    await user.sees(/Rank 1 .*GPU idle 8\d %/);
    const durs = readJson('ranks').steps.filter(({ rank }) => rank === 1);
    const meanNs = durs.reduce((sum, step) => sum + step.dur_ns, 0) / durs.length;
    const { formatTime } = await load('format.ts');
    assert.ok((await tab.innerText('main')).includes(`Rank 1 ${formatTime(meanNs)} a step`));
    await user.click('.device:has(strong:text-is("Rank 1")) a');
    await user.sees(/ms to .* ms/, '.range');
    assert.match(await tab.evaluate(() => location.hash), /rank=1/);
  }));

test('task: why is the GPU idle in step 3', () =>
  withTab(async (tab, { open }) => {
    await open(urlOf('gpu'));
    const user = new User(tab);
    await user.click('.step[aria-label^="step 3:"]');
    await user.sees(
      /Step 3: [\s\S]*The GPU is idle for .* most of all because of launch/,
      '.readout',
    );
    await user.click('.readout a');
    await user.sees(/ms to .* ms/, '.range');
    const step = readJson('gpu').steps.find(({ number }) => number === 3);
    const hash = await tab.evaluate(() => location.hash);
    const params = new URLSearchParams(hash.split('?')[1]);
    const [from, to] = [Number(params.get('from')), Number(params.get('to'))];
    assert.ok(from <= step.start_ns && to >= step.start_ns + step.dur_ns, hash);
    assert.ok(to - from < 3 * step.dur_ns, hash);
  }));

test('task: what held memory at the peak', () =>
  withTab(async (tab, { open }) => {
    await open(urlOf('memory'));
    const user = new User(tab);
    await user.click('nav a[href="#memory"]');
    await user.sees(/Peak: [\d.]+ [KMG]iB/);
    await user.sees(/What holds memory[\s\S]*aten::/);
    await user.click('a:text("Show the peak in the timeline")');
    await user.sees(/ms to .* ms/, '.range');
  }));

test('task: which line waits for the GPU', () =>
  withTab(async (tab, { open }) => {
    await open(urlOf('gpu'));
    const user = new User(tab);
    await user.sees(/gen_corpus\.py:109, aten::item/);
    await user.click('.card a:text("All copies and waits")');
    await user.sees(/cudaStreamSynchronize\s+gen_corpus\.py:109\s+step\s+aten::item/);
  }));

test('task: compare two runs', () =>
  withTab(async (tab, { open }) => {
    await open(urlOf('compared'));
    const user = new User(tab);
    await user.click('nav a[href="#compare"]');
    await user.sees(/B is faster: a step takes [\d.]+ ms instead of [\d.]+ ms/);
    await user.sees(/gone\s+.*\s+device\.round_trip/);
    await user.sees(/which is 0\.\d+ \(0\.\d+ to 0\.\d+\) times as long/);
  }));

/** Texts of the cells of a plain table, by row. */
function cellsOf(tab, caption) {
  return tab
    .locator(`[aria-label="${caption}"] tbody tr`)
    .evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)));
}

test('two runs beside each other say the numbers of kscope diff', () =>
  withTab(async (tab, { noise, open }) => {
    const { formatBytes, formatCount, formatTime } = await load('format.ts');
    const diff = readJson('compared.diff');
    await open(urlOf('compared', '#compare'));
    await settle(tab);
    assert.equal(await tab.innerText('.compared .verdict'), diff.verdict.text);
    await tab.click('summary:text("Step times as a table")');
    const time = (ns) => formatTime(Math.round(ns));
    const change = (ns) => (ns > 0 ? '+' : '') + time(ns);
    const times = await cellsOf(tab, 'Step times');
    diff.runs.forEach((run, i) => {
      const { value, low, high } = run.mean_step_ns;
      const want = [run.name, formatCount(run.step_count), ...[value, low, high].map(time)];
      assert.deepEqual(times[i].slice(0, 5), want);
      assert.equal(times[i][5], formatTime(run.median_step_ns));
    });
    const text = await tab.innerText('main');
    const { value, low, high } = diff.step.change_ns;
    assert.ok(text.includes(`${change(value)} (${change(low)} to ${change(high)})`));
    const parts = diff.parts.filter(({ group }) => group === 'breakdown');
    const shown = await cellsOf(tab, 'Parts of a mean step');
    assert.deepEqual(
      shown.map((cells) => cells.slice(1)),
      parts.map((part) => [time(part.a_ns), time(part.b_ns), change(part.change_ns)]),
    );
    const memory = await cellsOf(tab, 'Memory at the peak');
    diff.memory.forEach((row, i) => {
      assert.equal(memory[i][1], formatBytes(row.a.peak_allocated_bytes));
    });
    const findings = await cellsOf(tab, 'Findings of both runs');
    assert.deepEqual(
      findings.map((cells) => [cells[0], cells[2]]),
      diff.findings.map((row) => [row.state, row.id]),
    );
    for (const list of ['operators', 'kernels']) {
      const view = tab.locator(`.table-view:has([aria-label="${list} of a mean step"])`);
      const count = formatCount(diff[list].length);
      assert.ok((await view.locator('[role=status]').innerText()).startsWith(`${count} rows`));
      for (const index of [0, 1, 4]) {
        const row = view.locator('.grid tbody tr:not(.spacer)').nth(index);
        const of = diff[list][index];
        assert.equal(await row.locator('td.name').getAttribute('title'), of.name);
        const cells = await row.locator('td').allInnerTexts();
        const total = list === 'kernels' ? of.change_ns : of.change.self_cpu_ns;
        assert.ok(cells.includes(change(total)) && cells.includes(of.state), cells.join());
      }
    }
    // The longer mean has the longer bar, as many times as it is longer.
    const widths = await tab
      .locator('.compared-bar')
      .evaluateAll((bars) => bars.map((bar) => bar.getBoundingClientRect().width));
    assert.ok(Math.abs(widths[1] / widths[0] - diff.step.ratio.value) < 0.01, widths.join());
    assert.deepEqual(noise, []);
  }));

test('names of two runs stay text, and a page of one run does not compare', () =>
  withTab(async (tab, { noise, open }) => {
    await open(urlOf('hostile_compared', '#compare'));
    await settle(tab);
    const text = await tab.innerText('main');
    assert.match(text, /<img src=x onerror="window\.hit=1">/);
    assert.equal(await tab.evaluate(() => window.hit), undefined);
    assert.equal(await tab.locator('main img, main script, main b').count(), 0);
    assert.deepEqual(noise, []);
    await open(urlOf('cpu', '#compare'));
    assert.equal(await tab.locator('nav a[href="#compare"]').count(), 0);
    assert.equal(await tab.locator('nav a[aria-current]').getAttribute('href'), '#overview');
  }));

test('copying twice leaves the button as it was, and the focus on it', () =>
  withTab(async (tab, { open }) => {
    await open(urlOf('gpu'));
    await tab.evaluate(() => {
      Object.defineProperty(navigator, 'clipboard', { value: undefined });
      document.querySelector('.card .copy').scrollIntoView();
    });
    const copy = tab.locator('.card .copy').first();
    await copy.focus();
    await tab.keyboard.press('Enter');
    await tab.keyboard.press('Enter');
    await tab.waitForTimeout(1700);
    assert.equal(await copy.innerText(), 'Copy');
    assert.equal(await tab.evaluate(() => document.activeElement.className), 'copy');
  }));

test('a link to the place in sight adds nothing to the history', () =>
  withTab(async (tab, { open }) => {
    await open(urlOf('gpu'));
    await goTo(tab, 'kernels');
    const before = await tab.evaluate(() => history.length);
    await goTo(tab, 'kernels');
    assert.equal(await tab.evaluate(() => history.length), before);
  }));

test('a finding leads to its place in the timeline', () =>
  withTab(async (tab, { open }) => {
    await open(urlOf('gpu'));
    await tab.click('.card a:text("Show me in the timeline")');
    await settle(tab);
    assert.equal(await tab.innerText('.details h2'), 'aten::item');
    assert.match(await tab.innerText('.found'), /^\d+ of 296$/);
    assert.match(await tab.innerText('.details'), /Its work: Memcpy DtoH/);
    await tab.click('.details button.flow');
    assert.match(await tab.innerText('.details h2'), /^Memcpy DtoH/);
    assert.match(await tab.innerText('.details'), /Launched by cudaMemcpyAsync/);
    await tab.goBack();
    await tab.waitForSelector('.verdict');
    await tab.focus('.card a:text("Show me in the timeline")');
    await tab.keyboard.press('Enter');
    await settle(tab);
    assert.equal(await tab.evaluate(() => document.activeElement.id), 'view');
  }));

test('the timeline is worked by keys alone, and its place can be shared', () =>
  withTab(async (tab, { open }) => {
    await open(urlOf('gpu', '#timeline'));
    await settle(tab);
    const range = () => tab.innerText('.range');
    const press = async (key) => {
      await tab.keyboard.press(key);
      await settle(tab);
      return range();
    };
    await tab.focus('canvas');
    const all = await range();
    const closer = await press('w');
    assert.notEqual(closer, all);
    const moved = await press('d');
    assert.notEqual(moved, closer);
    assert.equal(await press('ArrowLeft'), closer);
    assert.notEqual(await press('+'), closer);
    assert.equal(await press('-'), closer);
    await tab.waitForFunction(() => location.hash.includes('from='));
    const link = await tab.evaluate(() => location.hash);
    assert.equal(await press('0'), all);
    await press('.');
    assert.notEqual(await tab.innerText('.details'), '');
    await press('Enter');
    assert.notEqual(await range(), all);
    await tab.keyboard.press('/');
    await tab.keyboard.type('addmm');
    assert.match(await tab.innerText('.found'), /found|of/);
    await open(urlOf('gpu', link));
    await settle(tab);
    assert.equal(await range(), closer);
  }));

test('the timeline is worked by mouse and wheel', () =>
  withTab(async (tab, { open }) => {
    await open(urlOf('gpu', '#timeline'));
    await settle(tab);
    const box = await tab.locator('canvas').boundingBox();
    const all = await tab.innerText('.range');
    await tab.mouse.move(box.x + 600, box.y + 40);
    await tab.keyboard.down('Control');
    await tab.mouse.wheel(0, -300);
    await tab.keyboard.up('Control');
    await settle(tab);
    const closer = await tab.innerText('.range');
    assert.notEqual(closer, all);
    await tab.mouse.down();
    await tab.mouse.move(box.x + 500, box.y + 40, { steps: 3 });
    await tab.mouse.up();
    await settle(tab);
    assert.notEqual(await tab.innerText('.range'), closer);
    await tab.mouse.click(box.x + 500, box.y + 40, { button: 'right' });
    assert.equal(await tab.locator('.details h2').count(), 0, 'the other button is for a menu');
    await tab.mouse.click(box.x + 500, box.y + 40);
    assert.match(await tab.innerText('.details h2'), /ProfilerStep#\d/);
  }));

test('links that come while the timeline is read make one of it', () =>
  withTab(async (tab, { open }) => {
    await open(urlOf('gpu'));
    await tab.evaluate(() => {
      for (const id of ['timeline', 'overview', 'timeline']) {
        document.querySelector(`nav a[href="#${id}"]`).click();
      }
    });
    await settle(tab);
    assert.equal(await tab.locator('canvas').count(), 1);
  }));

test('merged detail is said to be merged', () =>
  withTab(async (tab, { open }) => {
    const timeline = bigTimeline(1, 400);
    const level = timeline.tracks[0].levels[0];
    Object.assign(level, {
      is_exact: false,
      resolution_ns: 1000,
      count: level.count.map(() => 5),
    });
    await open(writePage({ report: smallReport(), timeline }).url + '#timeline');
    await settle(tab);
    assert.match(await tab.innerText('.note'), /Merged detail.*2,000 here/);
    await tab.mouse.click(640, 190);
    assert.match(await tab.innerText('.details'), /5 merged; the longest gives the name/);
  }));

test('a timeline in a frame narrower than its names is drawn', () =>
  withTab(
    async (tab, { open }) => {
      const timeline = bigTimeline(1, 400);
      timeline.end_ns = 3e9;
      await open(writePage({ report: smallReport(), timeline }).url + '#timeline');
      await settle(tab);
      assert.match(await tab.innerText('.range'), /0.000 ms to 3000.000 ms/);
    },
    { viewport: { width: 120, height: 400 } },
  ));

test('counters say their values at the pointer and in the table', () =>
  withTab(async (tab, { open }) => {
    const counter = { name: 'memory', unit: 'bytes', rank: 1, ts: [0, 20_000] };
    const timeline = bigTimeline(1, 400);
    timeline.counters = [{ ...counter, min: [1024, 2048], max: [1024, 4096] }];
    await open(writePage({ report: smallReport(), timeline }).url + '#timeline');
    await settle(tab);
    const box = await tab.locator('canvas').boundingBox();
    await tab.mouse.move(box.x + 300, box.y + 180);
    assert.match(await tab.getAttribute('canvas', 'title'), /^memory at .* ms: 1.00 KiB$/);
    await tab.mouse.move(box.x + box.width - 60, box.y + 180);
    assert.match(await tab.getAttribute('canvas', 'title'), /2.00 KiB to 4.00 KiB$/);
    await tab.mouse.move(box.x + 20, box.y + 180); // its name, which is of no moment
    assert.equal(await tab.getAttribute('canvas', 'title'), '');
    await tab.click('summary:text("Tracks as a table")');
    assert.match(await tab.innerText('.twin table'), /memory\s+rank 1\s+1.00 KiB to 4.00 KiB/);
  }));

test('a pan over a million spans costs at most 16 ms a frame for 95 % of frames', () =>
  withTab(async (tab, { open }) => {
    await open(writePage({ report: smallReport(), timeline: bigTimeline(20, 50_000) }).url);
    await goTo(tab, 'timeline');
    await tab.focus('canvas');
    const costs = await frameCosts(tab, async () => {
      for (const key of ['w', 'w', 'w', ...Array(60).fill('d'), ...Array(40).fill('a')]) {
        await tab.keyboard.press(key);
        await tab.waitForTimeout(20); // no frame but the one that the key asks for
      }
    });
    costs.sort((a, b) => a - b);
    const p95 = costs[Math.floor(costs.length * 0.95)];
    console.log(`pan: ${costs.length} frames, p50 ${costs[costs.length >> 1]} ms, p95 ${p95} ms`);
    assert.ok(costs.length > 40, `${costs.length} frames`);
    assert.ok(p95 <= 16, `95 % of frames take ${p95} ms or less`);
  }));

/** Script, style, layout and paint of each frame, in ms of the main thread's processor time. */
async function frameCosts(tab, work) {
  const session = await tab.context().newCDPSession(tab);
  const events = [];
  session.on('Tracing.dataCollected', ({ value }) => events.push(...value));
  const done = new Promise((resolve) => session.once('Tracing.tracingComplete', resolve));
  await session.send('Tracing.start', { categories: 'devtools.timeline,toplevel' });
  await work();
  await session.send('Tracing.end');
  await done;
  const frames = events
    .filter((event) => event.name === 'FireAnimationFrame')
    .sort((a, b) => a.ts - b.ts);
  const tasks = events.filter(
    (event) => event.tid === frames[0]?.tid && /RunTask$/.test(event.name) && event.ph === 'X',
  );
  const drawn = tasks.filter((task) =>
    frames.some((frame) => frame.ts >= task.ts && frame.ts < task.ts + task.dur),
  );
  return drawn.map((task) => (task.tdur ?? task.dur) / 1000);
}

test('a table of 100,000 rows draws only those in sight', () =>
  withTab(async (tab, { open }) => {
    const operators = Array.from({ length: 100_000 }, (_, i) => ({
      name: `op_${i}`,
      kind: 'op',
      calls: i,
      self_cpu_ns: i * 1000,
      cpu_ns: i * 2000,
      device_ns: 0,
    }));
    const report = smallReport({ operators, truncated: { operators: 123_456 } });
    await open(writePage({ report }).url + '#operators');
    const rows = tab.locator('.grid tbody tr:not(.spacer)');
    assert.ok((await rows.count()) < 80);
    assert.match(await tab.innerText('main'), /100,000 rows; 23,456 more are not in this file/);
    assert.equal(await rows.first().locator('td.name').innerText(), 'op_99999');
    await tab.focus('.grid');
    await tab.keyboard.press('End');
    await tab.keyboard.press('Enter');
    assert.equal(await tab.innerText('.opened h3'), 'op_0');
    assert.ok((await rows.count()) < 80);
    const begin = Date.now();
    await tab.fill('.table-view input', 'op_4242');
    assert.match(await tab.innerText('.table-view [role=status]'), /^11 of 100,000 rows/);
    assert.ok(Date.now() - begin < 2000);
  }));

test('a short table shows the filter that hides rows, and sorts words from the first', () =>
  withTab(async (tab, { open }) => {
    const row = { kind: 'op', calls: 1, self_cpu_ns: 5 };
    const operators = ['aten::mm', 'aten::relu'].map((name) => ({ ...row, name }));
    const counters = ['b', 'a', 'c'].map((name) => ({ name, count: 1 }));
    const { url } = writePage({ report: smallReport({ operators, counters }) });
    await open(`${url}#operators`);
    const filter = tab.locator('.table-view input');
    assert.equal(await filter.isVisible(), false);
    await open(`${url}#operators?filter=relu`);
    const rows = tab.locator('.grid tbody tr:not(.spacer)');
    assert.equal(await rows.count(), 1);
    await filter.fill('');
    assert.equal(await rows.count(), 2);
    await goTo(tab, 'code');
    assert.deepEqual(await rows.locator('td.name').allInnerTexts(), ['a', 'b', 'c']);
  }));

test('a list of what is in view does not call the rest missing', () =>
  withTab(async (tab, { open }) => {
    const timeline = bigTimeline(1, 3000);
    await open(writePage({ report: smallReport(), timeline }).url + '#timeline');
    await settle(tab);
    await tab.click('summary:text("Spans in view as a table")');
    const said = await tab.innerText('.table-view [role=status]');
    assert.equal(said, '2,000 rows; 1,000 more are in view: zoom in to list them');
  }));

test('flame graphs go to the largest frame below, and count what is inside of a match once', () =>
  withTab(async (tab, { open }) => {
    const nodes = {
      parent: [-1, 0, 0, -1],
      name: [0, 1, 2, 3],
      self: [2, 2, 6, 10],
      total: [10, 2, 6, 10],
      calls: [1, 1, 1, 1],
    };
    const strings = ['fa', 'small', 'fa inner', 'other'];
    const flame = { kinds: [{ name: 'python', unit: 'ns', strings, nodes }] };
    await open(writePage({ report: smallReport(), flame }).url + '#flame');
    await settle(tab);
    await tab.focus('canvas');
    await tab.keyboard.press('ArrowDown');
    assert.equal(await tab.innerText('.details h2'), 'fa inner');
    await tab.fill('input[type=search]', 'fa');
    assert.equal(await tab.innerText('main [role=status]'), '2 frames, 50 % of all');
  }));

test('the peak is the largest value of the curve', () =>
  withTab(async (tab, { open }) => {
    const curve = { device: 0, rank: null, ts: [1e6, 1e6, 1e6], reserved: [null, 8192, null] };
    const allocated = { allocated_min: [0, 1024, 512], allocated_max: [1024, 4096, 2048] };
    const memory = { devices: [{ ...curve, ...allocated }] };
    await open(writePage({ report: smallReport(), memory }).url + '#memory');
    await settle(tab);
    const text = await tab.innerText('main');
    assert.match(text, /Peak: 4.00 KiB allocated at 2.000 ms; reserved at most 8.00 KiB/);
  }));

test('rows without a value come last in either order', () =>
  withTab(async (tab, { open }) => {
    const operators = [3, null, 7].map((ns, i) => ({ name: `op_${i}`, self_cpu_ns: ns, calls: 1 }));
    await open(writePage({ report: smallReport({ operators }) }).url + '#operators');
    const names = tab.locator('.grid tbody tr:not(.spacer) td.name');
    assert.deepEqual(await names.allInnerTexts(), ['op_2', 'op_0', 'op_1']);
    await tab.click('.grid th button:text-is("self CPU")');
    assert.deepEqual(await names.allInnerTexts(), ['op_0', 'op_2', 'op_1']);
  }));

test('damage of several inputs is added up', () =>
  withTab(async (tab, { open }) => {
    const input = { path: 'a.json', format: null, compression: null, status: 'ok', events: 1 };
    const inputs = [2, 3].map((lost) => ({ ...input, bytes: 1, counts: { events_lost: lost } }));
    await open(writePage({ report: smallReport({ inputs }) }).url);
    assert.match(await tab.innerText('.banner'), /^[\s\S]*\n5 events [^\n]*\(events_lost\)$/);
  }));

test('the page works inside of a sandboxed frame made from text', () =>
  withTab(async (tab, { noise }) => {
    const { html } = writePage({ report: smallReport(), timeline: bigTimeline(2, 100) });
    await tab.goto('about:blank');
    noise.length = 0;
    await tab.setContent('<iframe sandbox="allow-scripts" width="1000" height="700"></iframe>');
    await tab.evaluate(
      (text) => document.querySelector('iframe').setAttribute('srcdoc', text),
      html,
    );
    const frame = tab.frameLocator('iframe');
    await frame.locator('nav a[href="#timeline"]').click();
    await frame.locator('canvas').waitFor();
    await frame.locator('nav a[href="#about"]').click();
    await frame.locator('h1:text("About this report")').waitFor();
    assert.deepEqual(
      noise.filter((line) => !line.startsWith('request: about:srcdoc')),
      [],
    );
  }));

test('a page that was cut says so', () =>
  withTab(async (tab, { open }) => {
    await open(writePage({}).url);
    assert.match(await tab.innerText('main'), /damaged or cut/);
    const damaged = writePage({ report: smallReport(), timeline: { tracks: 'no' }, flame: 7 });
    await open(damaged.url);
    await goTo(tab, 'timeline');
    assert.match(await tab.innerText('main'), /no spans/);
    await goTo(tab, 'flame');
    assert.match(await tab.innerText('main'), /no operators and no stacks/);
  }));

test('flame graphs open by key and by click, and find names', () =>
  withTab(async (tab, { open }) => {
    await open(urlOf('gpu', '#flame'));
    await settle(tab);
    await tab.focus('canvas');
    const root = await tab.innerText('.details h2');
    await tab.keyboard.press('ArrowDown');
    await tab.keyboard.press('ArrowDown');
    await tab.keyboard.press('Enter');
    assert.notEqual(await tab.innerText('.details h2'), root);
    await tab.keyboard.press('Escape');
    await tab.fill('input[type=search]', 'addmm');
    assert.match(await tab.innerText('main [role=status]'), /frames, .* % of all/);
    const box = await tab.locator('canvas').boundingBox();
    await tab.mouse.click(box.x + 300, box.y + 30);
    assert.match(await tab.innerText('.details'), /total[\s\S]*self[\s\S]*calls/);
    await tab.click('summary:text("Frames as a table")');
    assert.match(await tab.innerText('.twin .table-view'), /aten::/);
  }));

test('the focus is always visible, and the first key leads past the navigation', () =>
  withTab(async (tab, { open }) => {
    await open(urlOf('gpu'));
    await tab.keyboard.press('Tab');
    assert.equal(await tab.evaluate(() => document.activeElement.className), 'skip');
    for (let i = 0; i < 40; i++) {
      await tab.keyboard.press('Tab');
      const style = await tab.evaluate(() => {
        const active = document.activeElement;
        const { outlineStyle, outlineWidth } = getComputedStyle(active);
        return active === document.body ? 'end' : `${outlineStyle} ${outlineWidth}`;
      });
      assert.ok(style === 'end' || style === 'solid 2px', style);
    }
  }));

test('in print the navigation is left out, and the paper is light', () =>
  withTab(
    async (tab, { open }) => {
      await open(urlOf('gpu'));
      await tab.emulateMedia({ media: 'print' });
      assert.equal(await tab.isVisible('nav'), false);
      assert.equal(await tab.isVisible('.card'), true);
      const paper = await tab.evaluate(() => getComputedStyle(document.body).backgroundColor);
      assert.equal(paper, 'rgb(255, 255, 255)');
    },
    { colorScheme: 'dark' },
  ));
