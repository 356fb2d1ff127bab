// Findings as cards: what it costs, where it is, what to do about it.
import { type App, linkTo, linkToName, linkToStep, stepRange } from '../app';
import { type Evidence, type Finding, lineOf, type Opportunity, type Step } from '../data/report';
import { button, h } from '../dom';
import { formatAs, formatBytes, formatShare, formatTime, isNumber, words } from '../format';
import { meanStepNs } from './steps_mean';

/** As the terminal says it (core/show/sentences.c). */
export function savingSentence(finding: Finding, stepNs: number | null): string {
  const { low, high } = finding.saving_ns_per_step;
  let text: string;
  if (!isNumber(low) || !isNumber(high) || high <= 0) {
    const about = finding.impact === 'memory' ? 'about memory' : 'a risk for the run';
    text = `saves no time: ${about}`;
  } else {
    text = `saves ${formatTime(low)} to ${formatTime(high)} a step`;
    if (stepNs) {
      text += ` (${formatShare(low / stepNs)} to ${formatShare(high / stepNs)} of it)`;
    }
  }
  if (finding.bytes) {
    text += `, ${formatBytes(finding.bytes)}`;
  }
  return `${text}, confidence ${finding.confidence}`;
}

export function findingCard(app: App, finding: Finding): HTMLElement {
  const stepNs = meanStepNs(app.report);
  const cause = finding.cause ? ` (cause: ${words(finding.cause)})` : '';
  return h(
    'article',
    { class: `card severity-${finding.severity}`, id: `finding-${finding.order}` },
    h(
      'header',
      {},
      h('h3', {}, `${finding.order}. ${finding.title}${cause}`),
      h('p', { class: 'rule' }, h('code', {}, finding.id), ` ${finding.severity}`),
    ),
    savingBar(finding, stepNs),
    h('p', { class: 'saving' }, savingSentence(finding, stepNs)),
    whereLine(finding),
    finding.fix.text && h('p', {}, finding.fix.text),
    finding.fix.code && codeBlock(finding.fix.code),
    h('p', { class: 'actions' }, ...linksOf(app, finding)),
    evidenceBox(finding.evidence, finding.verify),
  );
}

/** How much of a step would go: surely (dark), and at most (light). */
function savingBar(finding: Finding, stepNs: number | null): HTMLElement | null {
  const { low, high } = finding.saving_ns_per_step;
  if (!stepNs || !isNumber(low) || !isNumber(high) || high <= 0) {
    return null;
  }
  const sure = h('span', { class: 'sure' });
  const most = h('span', { class: 'most' });
  sure.style.width = `${Math.min(100, (low / stepNs) * 100)}%`;
  most.style.width = `${Math.min(100, (high / stepNs) * 100)}%`;
  return h('div', { class: 'saving-bar', 'aria-hidden': 'true' }, most, sure);
}

function whereLine(finding: Finding): HTMLElement | null {
  const { where } = finding;
  const ranks = finding.ranks.length > 0 ? `rank ${finding.ranks.join(', ')}` : null;
  const steps = where.steps ?? [];
  const parts = [
    lineOf(where),
    where.operator,
    where.module && `in ${where.module}`,
    ranks ?? (isNumber(where.rank) ? `rank ${where.rank}` : null),
    isNumber(where.device) ? `GPU ${where.device}` : null,
    isNumber(where.stream) ? `stream ${where.stream}` : null,
    steps.length > 0 ? `step${steps.length > 1 ? 's' : ''} ${rangesOf(steps)}` : null,
  ].filter((part): part is string => Boolean(part));
  return parts.length > 0 ? h('p', { class: 'where' }, `at ${parts.join(', ')}`) : null;
}

/** "2 to 5, 8" */
export function rangesOf(numbers: readonly number[]): string {
  const sorted = [...numbers].sort((a, b) => a - b);
  const out: string[] = [];
  let first = sorted[0] ?? 0;
  sorted.forEach((number, i) => {
    const next = sorted[i + 1];
    if (next !== number + 1) {
      out.push(first === number ? String(number) : `${first} to ${number}`);
      first = next ?? 0;
    }
  });
  return out.join(', ');
}

const COPY = 'Copy';

function codeBlock(code: string): HTMLElement {
  const copy = button(COPY, () => {
    copyText(code).then(
      () => flash(copy, 'Copied'),
      () => flash(copy, 'Not allowed here'),
    );
  });
  copy.className = 'copy';
  return h(
    'div',
    { class: 'code' },
    h('pre', { tabindex: 0, 'aria-label': 'Code of the fix' }, h('code', {}, code)),
    copy,
  );
}

/** Pages opened from a file may not reach the clipboard; then a selection is copied. */
async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    return;
  } catch {
    const focused = document.activeElement;
    const field = h('textarea', { class: 'unseen' });
    field.value = text;
    document.body.append(field);
    field.select();
    const isDone = document.execCommand('copy');
    field.remove();
    if (focused instanceof HTMLElement) {
      focused.focus(); // keys go on from where they were
    }
    if (!isDone) {
      throw new Error('no clipboard');
    }
  }
}

function flash(element: HTMLElement, text: string): void {
  element.textContent = text;
  window.setTimeout(() => (element.textContent = COPY), 1500);
}

function linksOf(app: App, finding: Finding): HTMLElement[] {
  const links: HTMLElement[] = [];
  const step = stepOf(app.report.steps, finding);
  const name = finding.where.operator;
  if (step) {
    links.push(
      h('a', { class: 'button', href: linkToStep(step, name) }, 'Show me in the timeline'),
    );
  } else if (name) {
    links.push(h('a', { class: 'button', href: linkToName(name) }, 'Show me in the timeline'));
  }
  const table = tableOf(finding);
  if (table) {
    links.push(h('a', { href: linkTo(table.view, table.params) }, table.text));
  }
  return links;
}

/** The first step that the finding names, of its rank. */
function stepOf(steps: readonly Step[], finding: Finding): Step | null {
  const number = finding.where.steps?.[0];
  const rank = finding.where.rank ?? finding.ranks[0] ?? null;
  const found = steps.filter((step) => number === undefined || step.number === number);
  const best = found.find((step) => rank === null || step.rank === rank) ?? found[0];
  return best && stepRange(best).to > stepRange(best).from ? best : null;
}

function tableOf(
  finding: Finding,
): { view: string; params: Record<string, string>; text: string } | null {
  const area = finding.id.split('.')[0] ?? '';
  const filter: Record<string, string> = finding.where.operator
    ? { filter: finding.where.operator }
    : {};
  if (area === 'sync' || area === 'copy' || finding.id === 'device.round_trip') {
    return { view: 'copies', params: {}, text: 'All copies and waits' };
  }
  if (area === 'input') {
    return { view: 'copies', params: {}, text: 'Data loading' };
  }
  if (area === 'ranks' || area === 'comm' || area === 'fsdp') {
    return { view: 'ranks', params: {}, text: 'Ranks beside each other' };
  }
  if (area === 'memory') {
    return { view: 'memory', params: {}, text: 'Memory over time' };
  }
  if (finding.where.operator) {
    return { view: 'operators', params: filter, text: 'In the table of operators' };
  }
  return { view: 'kernels', params: {}, text: 'All kernels' };
}

function evidenceBox(evidence: readonly Evidence[], verify: string | null): HTMLElement | null {
  if (evidence.length === 0 && !verify) {
    return null;
  }
  return h(
    'details',
    { class: 'evidence' },
    h('summary', {}, verify ? 'Evidence, and how to check the fix' : 'Evidence'),
    h(
      'dl',
      { class: 'facts' },
      ...evidence.map((item) =>
        h('div', {}, h('dt', {}, words(item.name)), h('dd', {}, formatAs(item.value, item.unit))),
      ),
    ),
    verify && codeBlock(verify),
  );
}

export function opportunityCard(item: Opportunity): HTMLElement {
  const most = item.saves_at_most_ns_per_step;
  return h(
    'article',
    { class: 'card' },
    h('header', {}, h('h3', {}, item.title), h('p', { class: 'rule' }, h('code', {}, item.id))),
    isNumber(most) && h('p', { class: 'saving' }, `saves at most ${formatTime(most)} a step`),
    h('p', {}, item.text),
    item.code && codeBlock(item.code),
    evidenceBox(item.evidence, null),
  );
}
