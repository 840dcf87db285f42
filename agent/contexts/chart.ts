import { isRawNumber } from './exact-json.ts';

/** A chart in the scripts' and displayed JSON's form. */
export interface Chart {
  type: string;
  title: string;
  elements: ChartElement[];
  extra: Record<string, string>;
}

export type ChartElement =
  | { kind: 'point'; label: string; points: Point[] }
  | { kind: 'bar'; label: string; group: string; value: string }
  | { kind: 'pie'; label: string; angle: number; radius: number }
  | { kind: 'box'; label: string; box: BoxFacts }
  | { kind: 'nested'; chart: Chart };

/**
 * A coordinate is a number, a text (a category, a date, an integer with more digits than a number can hold), or absent
 * at a gap of the data.
 */
export interface Point {
  x: string | number | undefined;
  y: string | number | undefined;
}

export interface BoxFacts {
  min: number;
  firstQuartile: number;
  median: number;
  thirdQuartile: number;
  max: number;
  outliers: number[];
}

const deepestNesting = 8;

/**
 * Reads `{type, title, elements, extra?}`. Its elements have the contract's form (`{"point_data": {…}}`, in snake or
 * camel case), or a bare form (`{label, points}`, `{label, value}`, `{label, angle}`, `{label, median, …}`, `{type,
 * elements}`).
 * @returns undefined for any other JSON, which is not a chart
 */
export function parseChart(value: unknown, depth = 0): Chart | undefined {
  if (!isRecord(value) || typeof value.type !== 'string' || value.type === '' || depth > deepestNesting)
    return undefined;
  if (!Array.isArray(value.elements) || value.elements.length === 0) return undefined;
  const elements: ChartElement[] = [];
  for (const given of value.elements) {
    const element = parseElement(given, depth);
    if (!element) return undefined;
    elements.push(element);
  }
  return { type: value.type, title: text(value.title), elements, extra: parseExtra(value.extra) };
}

function parseElement(given: unknown, depth: number): ChartElement | undefined {
  if (!isRecord(given)) return undefined;
  const nested = field(given, 'nested_chart') ?? ('elements' in given ? given : undefined);
  if (nested) {
    const chart = parseChart(nested, depth + 1);
    return chart && { kind: 'nested', chart };
  }
  const wrapped =
    field(given, 'point_data') ??
    field(given, 'bar_data') ??
    field(given, 'pie_data') ??
    field(given, 'box_whisker_data');
  const data = wrapped ?? given;
  if (!isRecord(data)) return undefined;
  const label = text(data.label);
  if (Array.isArray(data.points)) {
    const points = data.points.map(parsePoint);
    return points.includes(undefined) ? undefined : { kind: 'point', label, points: points as Point[] };
  }
  if ('median' in data) return { kind: 'box', label, box: parseBox(data) };
  if ('angle' in data) {
    return {
      kind: 'pie',
      label,
      angle: number(data.angle),
      radius: data.radius === undefined ? 1 : number(data.radius),
    };
  }
  if ('value' in data) return { kind: 'bar', label, group: text(data.group), value: text(data.value) };
  return undefined;
}

function parsePoint(given: unknown): Point | undefined {
  if (Array.isArray(given)) return { x: coordinate(given[0]), y: coordinate(given[1]) };
  if (!isRecord(given)) return undefined;
  return {
    x: coordinate(field(given, 'x_str') ?? field(given, 'x_num') ?? given.x),
    y: coordinate(field(given, 'y_str') ?? field(given, 'y_num') ?? given.y),
  };
}

function parseBox(data: Record<string, unknown>): BoxFacts {
  return {
    min: number(data.min),
    firstQuartile: number(field(data, 'first_quartile')),
    median: number(data.median),
    thirdQuartile: number(field(data, 'third_quartile')),
    max: number(data.max),
    outliers: Array.isArray(data.outliers) ? data.outliers.map(number) : [],
  };
}

function parseExtra(given: unknown): Record<string, string> {
  if (!isRecord(given)) return {};
  return Object.fromEntries(Object.entries(given).map(([name, value]) => [name, text(value)]));
}

/** A field by its proto name or its JSON name, such as `point_data` or `pointData`. */
function field(record: Record<string, unknown>, name: string): unknown {
  return record[name] ?? record[name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function coordinate(value: unknown): string | number | undefined {
  if (isRawNumber(value)) return isTooLong(value.rawJSON) ? value.rawJSON : Number(value.rawJSON);
  return typeof value === 'string' || typeof value === 'number' ? value : undefined;
}

/** Whether a number changes the integer. */
function isTooLong(text: string): boolean {
  return /^-?\d+$/.test(text) && BigInt(text) !== BigInt(Number(text));
}

/** NaN for a value that is not a number. Protobuf doubles can represent NaN. */
function number(value: unknown): number {
  if (isRawNumber(value)) return Number(value.rawJSON);
  return value === null || value === '' ? Number.NaN : Number(value);
}

function text(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
