import type { Chart, ChartElement, Point } from '../contexts/chart.ts';
import { parseExactly } from '../contexts/exact-json.ts';

const kinds = new Set(['line', 'scatter', 'bar', 'pie', 'box_and_whisker', 'superchart']);
const angleDigits = 8;

/** A chart in the form that E2B's clients read. Its facts about axes are in `extra` of ours. */
export function chartJson(chart: Chart): object {
  const { type, title, elements, extra } = chart;
  const common = { type: kinds.has(type) ? type : 'unknown', title: title || null };
  const list = elements.map(elementJson);
  switch (type) {
    case 'line':
      nameAll(list, 'label', 'Line');
      return { ...common, ...axisLabels(extra), ...axisScales(extra), elements: list };
    case 'scatter':
      return { ...common, ...axisLabels(extra), ...axisScales(extra), elements: list };
    case 'bar':
      nameGroups(list);
      return { ...common, ...axisLabels(extra), elements: list };
    case 'box_and_whisker':
      return { ...common, ...axisLabels(extra), elements: list };
    default:
      return { ...common, elements: list };
  }
}

type ElementJson = Record<string, unknown>;

function elementJson(element: ChartElement): ElementJson {
  switch (element.kind) {
    case 'point':
      return { label: element.label, points: element.points.map(pointJson) };
    case 'bar':
      return { label: element.label, group: element.group, value: barValue(element.value) };
    case 'pie':
      return { label: element.label, angle: withoutNoise(Math.abs(element.angle)), radius: element.radius };
    case 'box': {
      const { min, firstQuartile, median, thirdQuartile, max, outliers } = element.box;
      const box = { min, first_quartile: firstQuartile, median, third_quartile: thirdQuartile, max, outliers };
      return { label: element.label, ...box };
    }
    case 'nested':
      return chartJson(element.chart) as ElementJson;
  }
}

function pointJson({ x, y }: Point): [unknown, unknown] {
  return [x ?? null, y ?? null];
}

/** A height is a number, unless it has more digits than one. */
function barValue(text: string): unknown {
  try {
    const value = parseExactly(text);
    return typeof value === 'number' ? value : text;
  } catch {
    return text;
  }
}

/** matplotlib computes angles with single precision. */
function withoutNoise(angle: number): number {
  if (!Number.isFinite(angle) || angle === 0) return angle;
  const magnitude = Math.floor(Math.log10(angle));
  return Number(angle.toPrecision(Math.min(100, Math.max(1, angleDigits - magnitude))));
}

function axisLabels(extra: Chart['extra']) {
  const text = (name: string) => extra[name] || null;
  return { x_label: text('x_label'), y_label: text('y_label'), x_unit: text('x_unit'), y_unit: text('y_unit') };
}

function axisScales(extra: Chart['extra']) {
  const list = (name: string) => parseList(extra[name]);
  return {
    x_ticks: list('x_ticks'),
    x_tick_labels: list('x_tick_labels'),
    x_scale: extra.x_scale ?? 'linear',
    y_ticks: list('y_ticks'),
    y_tick_labels: list('y_tick_labels'),
    y_scale: extra.y_scale ?? 'linear',
  };
}

/** A displayed chart may have any text there. */
function parseList(text = '[]'): unknown[] {
  try {
    const value = parseExactly(text);
    return Array.isArray(value) ? value : [];
  } catch {
    return [];
  }
}

/** Artists without a label have their number as name. */
function nameAll(list: ElementJson[], field: string, word: string): void {
  list.forEach((element, at) => {
    if (element[field] === '') element[field] = `${word} ${at}`;
  });
}

/** Bars without a group are in the order of their groups, and a group has each label once. */
function nameGroups(bars: ElementJson[]): void {
  let group = 0;
  let labels = new Set<unknown>();
  for (const bar of bars) {
    if (bar.group !== '') continue;
    if (labels.has(bar.label)) {
      group++;
      labels = new Set();
    }
    labels.add(bar.label);
    bar.group = `Group ${group}`;
  }
}
