// Means of steps, as the terminal counts them.
import { type Report, totalOf } from '../data/report';

/** How many steps there are, with those that this file does not hold. */
export function stepCount(report: Report): number {
  return totalOf(report, 'steps', report.steps.length);
}

/** The mean of the steps at hand that count: the complete ones, or all when none is complete. */
export function meanOfRows(report: Report): number | null {
  const complete = report.steps.filter((step) => step.complete);
  const counted = complete.length > 0 ? complete : report.steps;
  const sum = counted.reduce((total, step) => total + step.dur_ns, 0);
  return counted.length > 0 ? Math.floor(sum / counted.length) : null;
}

/** The mean step; null when this file does not hold all steps: that of some is another number. */
export function meanStepNs(report: Report): number | null {
  return stepCount(report) > report.steps.length ? null : meanOfRows(report);
}
