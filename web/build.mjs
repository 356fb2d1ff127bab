// Bundles the page: build.mjs [OUT-FOLDER] writes page.js and page.css (by default to web/dist).
//
// The sentences of the counters come from core/store/stats.def, so that the page says the same
// words as the terminal. Fails when the script outgrows its budget.
import { readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const SCRIPT_BYTES_MAX = 250 * 1024;
const WEB = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(WEB, 'dist'));

function readCounters() {
  const text = readFileSync(join(WEB, '../core/store/stats.def'), 'utf8');
  const rows = text.matchAll(/^KS_STAT\((\w+), (\w+), "((?:[^"\\]|\\.)*)"\)/gm);
  const counters = {};
  for (const [, name, severity, sentence] of rows) {
    counters[name] = {
      severity: severity.toLowerCase(),
      sentence: JSON.parse(`"${sentence}"`),
    };
  }
  if (Object.keys(counters).length === 0) {
    throw new Error('core/store/stats.def holds no KS_STAT line');
  }
  return counters;
}

const common = { bundle: true, minify: true, legalComments: 'none', logLevel: 'warning' };

await build({
  ...common,
  entryPoints: [join(WEB, 'src/main.ts')],
  outfile: join(out, 'page.js'),
  format: 'iife',
  target: ['es2022'],
  charset: 'ascii', // the script stands in a page whose bytes are hashed
  define: { KS_COUNTERS: JSON.stringify(readCounters()) },
});
await build({
  ...common,
  entryPoints: [join(WEB, 'style/page.css')],
  outfile: join(out, 'page.css'),
  target: ['chrome110', 'firefox113', 'safari16'],
});

const bytes = statSync(join(out, 'page.js')).size;
if (bytes > SCRIPT_BYTES_MAX) {
  throw new Error(`page.js has ${bytes} bytes; it may have ${SCRIPT_BYTES_MAX}`);
}
