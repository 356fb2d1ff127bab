// Tests of the page that `kscope view` serves, in Chromium. Run by test_view.py, which names the
// program by KSCOPE_BIN and a folder for traces by PAGES.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { launch, PAGES, settle, VIEWS } from './support.mjs';

const STEP_US = 1000;
let browser;

before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** Starts the program, gives its address, and ends it after `work`. */
async function withServer(paths, work) {
  const child = spawn(process.env.KSCOPE_BIN, ['view', '--no-cache', '-q', ...paths], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const lines = createInterface({ input: child.stdout });
    const url = await new Promise((resolve, reject) => {
      lines.once('line', resolve);
      child.once('exit', (code) => reject(new Error(`kscope view ended: ${code}`)));
    });
    await work(url, child);
  } finally {
    child.removeAllListeners('exit');
    child.kill();
  }
}

/** A tab that notes what it asks for, and what it complains of. */
async function openTab() {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const tab = await context.newPage();
  const asked = [];
  const noise = [];
  tab.on('request', (request) => asked.push(request.url()));
  tab.on('console', (message) => noise.push(message.text()));
  tab.on('pageerror', (error) => noise.push(error.message));
  return { tab, asked, noise, context };
}

async function goTo(tab, view) {
  await tab.evaluate((id) => document.querySelector(`nav a[href="#${id}"]`).click(), view);
  await settle(tab);
}

function event(name, startUs, durUs, thread = 1, category = 'cpu_op') {
  const args = {};
  return { ph: 'X', cat: category, name, pid: 1, tid: thread, ts: startUs, dur: durUs, args };
}

function stepsOf(count, name) {
  const events = [];
  for (let step = 0; step < count; step++) {
    const start = 1000 + step * STEP_US;
    events.push(event(`ProfilerStep#${step}`, start, STEP_US - 10, 1, 'user_annotation'));
    for (let i = 0; i < 30; i++) {
      events.push(event(`aten::op_${i}`, start + 10 + i * 30, 20));
    }
    events.push(event(name, start + 920, 40));
  }
  return events;
}

/** Many short spans on two threads, each with a start and a name that can be foretold. */
function denseEvents(count) {
  return Array.from({ length: count }, (_, i) =>
    event(`span_${i % 1000}`, 1000 + Math.floor(i / 2) * 3, 2, 1 + (i % 2)),
  );
}

function writeTrace(path, traceEvents) {
  writeFileSync(`${path}.fresh`, JSON.stringify({ schemaVersion: 1, traceEvents }));
  renameSync(`${path}.fresh`, path);
}

function freshPath(name) {
  return join(mkdtempSync(join(PAGES, 'view-')), name);
}

/** Waits until all of the timeline that is in sight is there. */
async function settleTiles(tab) {
  await settle(tab);
  await tab.waitForFunction(() => !document.querySelector('[data-waiting]'));
  await settle(tab);
}

/** Lists "Spans in view as a table". */
async function spansInView(tab) {
  await tab.evaluate(() => {
    const details = [...document.querySelectorAll('details')].find((each) =>
      each.textContent.startsWith('Spans in view'),
    );
    details.open = true;
    [...details.querySelectorAll('button')].find((b) => b.textContent.startsWith('List')).click();
  });
  await settle(tab);
}

async function drawnRows(tab) {
  return tab.evaluate(() =>
    [...document.querySelectorAll('table.grid[aria-label="spans in view"] tbody tr[id]')].map(
      (row) => [...row.children].map((cell) => cell.textContent.trim()),
    ),
  );
}

test('the address opens the page once, and all requests go to its server', async () => {
  const path = freshPath('small.pt.trace.json');
  writeTrace(path, stepsOf(3, 'aten::linear'));
  await withServer([path], async (url) => {
    const origin = new URL(url).origin;
    const { tab, asked, noise, context } = await openTab();
    await tab.goto(url);
    await tab.waitForSelector('nav');
    assert.equal(await tab.evaluate(() => window.location.href), `${origin}/`);
    for (const view of VIEWS) {
      await goTo(tab, view);
      assert.ok((await tab.textContent('main')).length > 20, view);
    }
    await tab.reload();
    await tab.waitForSelector('nav');
    assert.deepEqual(
      asked.filter((each) => !each.startsWith(`${origin}/`) && !each.startsWith('data:,')),
      [],
    );
    assert.deepEqual(noise, []);
    const cookies = await context.cookies();
    assert.deepEqual(
      cookies.map(({ httpOnly, sameSite }) => ({ httpOnly, sameSite })),
      [{ httpOnly: true, sameSite: 'Strict' }],
    );
    assert.equal(await tab.evaluate(() => document.cookie), '');
    await context.close();

    const other = await openTab();
    await other.tab.goto(url);
    await other.tab.waitForSelector('main');
    assert.match(await other.tab.textContent('main'), /for the browser that opened it first/);
    await other.context.close();
  });
});

test('the timeline asks for what is in sight, and shows the spans of the trace', async () => {
  const path = freshPath('dense.pt.trace.json');
  const events = denseEvents(60_000);
  writeTrace(path, events);
  await withServer([path], async (url) => {
    const { tab, asked, noise, context } = await openTab();
    await tab.goto(url);
    await tab.waitForSelector('nav');
    await goTo(tab, 'timeline');
    await settleTiles(tab);
    const note = () => tab.textContent('.note');
    assert.match(await note(), /Merged detail: .*Zoom in to see the single ones/);

    const from = 60_000_000;
    const to = from + 60_000;
    await tab.evaluate(
      ([a, b]) => (window.location.hash = `#timeline?from=${a}&to=${b}`),
      [from, to],
    );
    await settleTiles(tab);
    const tiles = asked.filter((each) => each.includes('/api/tile?'));
    assert.ok(tiles.length >= 1 && tiles.length <= 6, `${tiles.length} tiles`);
    assert.equal(await tab.isHidden('.note'), true, await note());

    await spansInView(tab);
    await tab.fill('input[aria-label="Filter spans in view"]', 'span_'); // without the step
    const rows = await drawnRows(tab);
    const inSight = events.filter((each) => {
      const start = (each.ts - 1000) * 1000;
      return start < to && start + each.dur * 1000 > from;
    });
    const count = await tab.textContent('.table-view .muted');
    assert.equal(count, `${inSight.length} of ${inSight.length + 1} rows`);
    const names = new Set(inSight.map((each) => each.name));
    assert.ok(rows.length > 10);
    assert.deepEqual(
      rows.filter((row) => !names.has(row[0].split(' ')[0]) || row[4] !== '1'),
      [],
    );

    // Back and forth: what is there is not asked for again.
    const before = asked.length;
    await tab.focus('canvas');
    for (const key of ['d', 'a', 'd', 'a']) {
      await tab.keyboard.press(key);
    }
    await settleTiles(tab);
    const again = asked.slice(before).filter((each) => each.includes('/api/tile?'));
    assert.deepEqual(
      again.filter((each) => tiles.includes(each)),
      [],
    );
    assert.deepEqual(noise, []);
    await context.close();
  });
});

test('the search finds spans that the page does not hold', async () => {
  const path = freshPath('dense.pt.trace.json');
  const events = denseEvents(60_000);
  events[20_001].name = 'a needle <b>';
  events[40_000].name = 'a NEEDLE <b>';
  writeTrace(path, events);
  await withServer([path], async (url) => {
    const { tab, asked, noise, context } = await openTab();
    await tab.goto(url);
    await tab.waitForSelector('nav');
    await goTo(tab, 'timeline');
    await settleTiles(tab);
    await tab.fill('input[aria-label="Search spans by name"]', 'needle <B>');
    await tab.waitForFunction(() => document.querySelector('.found').textContent === '2 found');
    await tab.keyboard.press('Enter');
    await settleTiles(tab);
    const details = await tab.textContent('.details');
    assert.match(details, /^a needle <b>start30\.000 msduration2\.00 us/);
    assert.equal(await tab.isHidden('.note'), true);
    await tab.focus('canvas');
    await tab.keyboard.press('.'); // the neighbour, which no search has found
    await settleTiles(tab);
    assert.match(await tab.textContent('.details'), /^span_3start30\.003 ms/);
    assert.equal(asked.filter((each) => each.includes('/api/find?')).length, 1);
    assert.deepEqual(noise, []);
    await context.close();
  });
});

test('a finding leads to its span, which is asked for', async () => {
  const path = freshPath('steps.pt.trace.json');
  writeTrace(path, stepsOf(20, 'aten::linear'));
  await withServer([path], async (url) => {
    const { tab, noise, context } = await openTab();
    await tab.goto(url);
    await tab.waitForSelector('nav');
    await tab.evaluate(() => {
      window.location.hash = '#timeline?from=5000000&to=6000000&room=1&find=aten%3A%3Alinear';
    });
    await tab.waitForFunction(() =>
      document.querySelector('.details')?.textContent.startsWith('aten::linear'),
    );
    await settleTiles(tab);
    assert.match(await tab.textContent('.details'), /start5\.920 ms/);
    assert.match(await tab.textContent('.range'), /^4\.92 ms to 6\.08 ms|^4\.9/);
    assert.deepEqual(noise, []);
    await context.close();
  });
});

test('a newer report is shown where the reader is', async () => {
  const path = freshPath('run.pt.trace.json');
  writeTrace(path, stepsOf(4, 'aten::older'));
  await withServer([path], async (url) => {
    const { tab, noise, context } = await openTab();
    await tab.goto(url);
    await tab.waitForSelector('nav');

    await goTo(tab, 'operators');
    await tab.fill('input[aria-label^="Filter"]', 'aten::');
    await tab.click('th button:text-is("calls")');
    await tab.evaluate(() => (document.querySelector('.table-scroll').scrollTop = 120));
    writeTrace(path, stepsOf(5, 'aten::newer'));
    await tab.waitForFunction(
      () => document.querySelector('.grid td.number')?.textContent.trim() === '5',
    );
    assert.equal(await tab.inputValue('input[aria-label^="Filter"]'), 'aten::');
    const sorted = '.grid th[aria-sort]:not([aria-sort="none"])';
    assert.equal(await tab.textContent(sorted), 'calls');
    assert.equal(await tab.evaluate(() => document.querySelector('.table-scroll').scrollTop), 120);

    await goTo(tab, 'timeline');
    await tab.evaluate(() => (window.location.hash = '#timeline?from=1000000&to=2000000'));
    await settleTiles(tab);
    await tab.fill('input[aria-label="Search spans by name"]', 'aten::newer');
    await tab.keyboard.press('Enter');
    await tab.waitForFunction(() => document.querySelector('.found').textContent.endsWith('of 5'));
    await tab.keyboard.press('Enter');
    await settle(tab);
    const range = await tab.textContent('.range');
    const chosen = await tab.textContent('.details');
    const found = await tab.textContent('.found');
    assert.match(chosen, /aten::newer/);
    assert.match(found, /of 5$/);
    writeTrace(path, stepsOf(9, 'aten::newer'));
    await tab.waitForFunction(() => document.querySelector('.found').textContent.endsWith('of 9'));
    await settleTiles(tab);
    assert.equal(await tab.textContent('.range'), range);
    assert.equal(await tab.textContent('.details'), chosen);
    assert.equal(await tab.textContent('.found'), found.replace('of 5', 'of 9'));
    assert.equal(
      await tab.evaluate(() => document.activeElement?.getAttribute('aria-label')),
      'Search spans by name',
    );
    assert.deepEqual(noise, []);
    await context.close();
  });
});

test('a page whose server has ended says so, and shows what it had', async () => {
  const path = freshPath('small.pt.trace.json');
  writeTrace(path, stepsOf(3, 'aten::linear'));
  await withServer([path], async (url, child) => {
    const { tab, context } = await openTab();
    await tab.goto(url);
    await tab.waitForSelector('nav');
    assert.equal(await tab.isHidden('.unreachable'), true);
    child.removeAllListeners('exit');
    child.kill();
    await tab.waitForSelector('.unreachable:visible');
    assert.match(await tab.textContent('.unreachable'), /has ended/);
    await goTo(tab, 'operators');
    assert.match(await tab.textContent('main'), /aten::op_1/);
    await context.close();
  });
});
