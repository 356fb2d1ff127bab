import type { Report } from '../data/report';

/** The mean of the steps that count: the complete ones, or all when none is complete. */
export function meanStepNs(report: Report): number | null {
  const complete = report.steps.filter((step) => step.complete);
  const counted = complete.length > 0 ? complete : report.steps;
  const sum = counted.reduce((total, step) => total + step.dur_ns, 0);
  return counted.length > 0 ? Math.floor(sum / counted.length) : null;
}
