// A line chart by uPlot, in the colours of the style sheet; it zooms by dragging.
import uPlot from 'uplot';
import { h } from '../dom';
import { formatMoment, NOTHING } from '../format';
import { onThemeChange } from './palette';

export interface Series {
  readonly title: string;
  readonly values: readonly (number | null)[];
  /** A variable of the style sheet. */
  readonly colour: string;
  readonly isDashed?: boolean;
}

export interface LineChartOptions {
  readonly label: string;
  readonly ts: Float64Array;
  readonly series: readonly Series[];
  readonly format: (value: number | null) => string;
}

const HEIGHT = 260;
const POWERS_OF_TWO = Array.from({ length: 52 }, (_, i) => 2 ** i); // ticks of bytes

export function lineChart(options: LineChartOptions): HTMLElement {
  const box = h('div', { class: 'line-chart', role: 'img', 'aria-label': options.label });
  let plot: uPlot | null = null;
  const make = () => {
    plot?.destroy();
    plot = new uPlot(configOf(options, box), dataOf(options), box);
  };
  new ResizeObserver(() => {
    if (box.clientWidth === 0) {
      return;
    }
    if (plot) {
      plot.setSize({ width: box.clientWidth, height: HEIGHT });
    } else {
      make();
    }
  }).observe(box);
  onThemeChange(box, () => plot && make());
  return box;
}

function dataOf(options: LineChartOptions): uPlot.AlignedData {
  return [Array.from(options.ts), ...options.series.map((series) => [...series.values])];
}

function configOf(options: LineChartOptions, box: HTMLElement): uPlot.Options {
  const style = getComputedStyle(document.body);
  const get = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: get('--muted'),
    grid: { stroke: get('--line'), width: 1 },
    ticks: { stroke: get('--line'), width: 1 },
    font: `11px ${style.fontFamily}`,
  };
  return {
    width: box.clientWidth,
    height: HEIGHT,
    scales: { x: { time: false } },
    legend: { live: true },
    axes: [
      { ...axis, values: (_, ticks) => ticks.map((tick) => formatMoment(tick)), space: 110 },
      {
        ...axis,
        size: 78,
        incrs: POWERS_OF_TWO,
        values: (_, ticks) => ticks.map((tick) => options.format(tick)),
      },
    ],
    series: [
      { label: 'time', value: (_, ns) => (ns === null ? NOTHING : formatMoment(ns)) },
      ...options.series.map((series) => seriesOf(series, get, options.format)),
    ],
  };
}

function seriesOf(
  series: Series,
  get: (name: string) => string,
  format: (value: number | null) => string,
): uPlot.Series {
  const stepped = uPlot.paths.stepped?.({ align: 1 });
  return {
    label: series.title,
    ...(stepped ? { paths: stepped } : {}),
    stroke: get(series.colour),
    width: 1.5,
    points: { show: false },
    value: (_, value) => format(value),
    ...(series.isDashed ? { dash: [6, 4] } : {}),
  };
}
