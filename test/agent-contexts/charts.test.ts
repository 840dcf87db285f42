import type { Chart } from '../../agent/contexts/chart.ts';
import { TestContexts } from './support/contexts.ts';
import { makingMs, realPython } from './support/real-kernels.ts';

let python: TestContexts;
let contextId: string;

beforeAll(async () => {
  python = new TestContexts({ PATH: await realPython() });
  contextId = await python.create('python');
  await python.run({ contextId, code: 'import datetime, matplotlib.pyplot as plt, numpy, pandas' });
}, makingMs);
afterAll(() => python?.close());

/** The figure of the code. */
async function figure(code: string): Promise<{ png: string | undefined; chart: Chart | undefined }> {
  const { displays, error } = await python.run({ contextId, code: `${code}\nplt.show()` });
  expect(error).toBeUndefined();
  expect(displays).toHaveLength(1);
  expect(Buffer.from(displays[0]!.png!, 'base64').subarray(1, 4).toString()).toBe('PNG');
  return { png: displays[0]!.png, chart: displays[0]!.chart };
}

test('lines are a chart with their points, labels, units, ticks and scales', async () => {
  const { chart } = await figure(`
plt.plot([1, 2, 3], [10, float("nan"), 1000], label="first")
plt.plot([1, 3], [5, 6])
plt.axhline(500)
plt.title("Growth"); plt.xlabel("Time (s)"); plt.ylabel("Size [MB]"); plt.yscale("log"); plt.xticks([1, 3], ["one", "three"])`);
  expect(chart).toMatchObject({
    type: 'line',
    title: 'Growth',
    elements: [
      {
        kind: 'point',
        label: 'first',
        points: [
          { x: 1, y: 10 },
          { x: 2, y: undefined },
          { x: 3, y: 1000 },
        ],
      },
      {
        kind: 'point',
        label: '',
        points: [
          { x: 1, y: 5 },
          { x: 3, y: 6 },
        ],
      },
    ],
    extra: {
      x_label: 'Time (s)',
      x_unit: 's',
      x_scale: 'linear',
      x_ticks: '[1.0, 3.0]',
      x_tick_labels: '["one", "three"]',
      y_label: 'Size [MB]',
      y_unit: 'MB',
      y_scale: 'log',
    },
  });
});

test('dates and categories are text', async () => {
  const dates = await figure('plt.plot([datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)], ["low", "high"])');
  expect(dates.chart).toMatchObject({
    type: 'line',
    elements: [
      {
        points: [
          { x: '2026-01-01', y: 'low' },
          { x: '2026-01-02', y: 'high' },
        ],
      },
    ],
    extra: { x_scale: 'datetime', y_scale: 'categorical' },
  });
  const series = await figure('pandas.Series([1, 2], index=pandas.date_range("2026-01-01", periods=2)).plot()');
  expect(series.chart!.elements).toMatchObject([
    { points: [{ x: '2026-01-01T00:00:00' }, { x: '2026-01-02T00:00:00' }] },
  ]);
});

test('scattered points are a chart with every way of drawing', async () => {
  const { chart } = await figure('plt.scatter(["a", "b"], [1, 2], label="s"); plt.plot(["a"], [3], "o", label="t")');
  expect(chart!.type).toBe('scatter');
  expect(chart!.elements).toEqual([
    { kind: 'point', label: 't', points: [{ x: 'a', y: 3 }] },
    {
      kind: 'point',
      label: 's',
      points: [
        { x: 'a', y: 1 },
        { x: 'b', y: 2 },
      ],
    },
  ]);
});

test('bars have their categories and groups, upright, lying and from pandas', async () => {
  const upright = await figure('plt.bar(["x", "y"], [3, 4.5], label="g", yerr=[1, 1])');
  expect(upright.chart).toMatchObject({
    type: 'bar',
    elements: [
      { kind: 'bar', label: 'x', group: 'g', value: '3' },
      { kind: 'bar', label: 'y', group: 'g', value: '4.5' },
    ],
  });
  const lying = await figure('plt.barh(["x", "y"], [3, 4])');
  expect(lying.chart!.elements).toMatchObject([
    { label: 'x', value: '3' },
    { label: 'y', value: '4' },
  ]);
  const table = await figure('pandas.DataFrame({"a": [1], "b": [2]}, index=["k"]).plot.bar()');
  expect(table.chart!.elements).toMatchObject([
    { label: 'k', group: 'a', value: '1' },
    { label: 'k', group: 'b', value: '2' },
  ]);
});

test('a pie has labels and angles', async () => {
  const { chart } = await figure('plt.pie([30, 70], labels=["u", "v"], radius=2)');
  expect(chart).toMatchObject({
    type: 'pie',
    elements: [
      { kind: 'pie', label: 'u', angle: 108, radius: 2 },
      { kind: 'pie', label: 'v', angle: 252, radius: 2 },
    ],
  });
});

test('a box plot has its quartiles and outliers', async () => {
  const { chart } = await figure('plt.boxplot([[1, 2, 3, 4, 100], [5, 6, 7]], tick_labels=["p", "q"])');
  expect(chart).toMatchObject({
    type: 'box_and_whisker',
    elements: [
      {
        kind: 'box',
        label: 'p',
        box: { min: 1, firstQuartile: 2, median: 3, thirdQuartile: 4, max: 4, outliers: [100] },
      },
      { kind: 'box', label: 'q', box: { min: 5, median: 6, max: 7, outliers: [] } },
    ],
  });
  const table = await figure('pandas.DataFrame({"c": [1, 2, 9]}).boxplot()');
  expect(table.chart!.elements).toMatchObject([{ kind: 'box', label: 'c' }]);
});

test('several plots, and several kinds in one, are a superchart', async () => {
  const { chart } = await figure(`
figure, (left, right) = plt.subplots(1, 2)
figure.suptitle("Both")
left.bar(["a"], [1]); left.plot(["a"], [2])
right.plot([1, 2]); right.set_title("Right")`);
  expect(chart).toMatchObject({
    type: 'superchart',
    title: 'Both',
    elements: [
      { kind: 'nested', chart: { type: 'line' } },
      { kind: 'nested', chart: { type: 'bar' } },
      { kind: 'nested', chart: { type: 'line', title: 'Right' } },
    ],
  });
});

test('a figure without show, one with a tight layout and each of two figures are pictures', async () => {
  const pictures = async (code: string) => {
    const { displays, main, error } = await python.run({ contextId, code });
    expect(error).toBeUndefined();
    return [...displays, ...(main ? [main] : [])].filter(({ png }) => png).map(({ chart }) => chart?.type);
  };
  const bars = 'plt.figure(figsize=(9, 5)); plt.bar(["x", "y"], [1, 2], label="l"); plt.tight_layout(); plt.show()';
  expect(await pictures(bars)).toEqual(['bar']);
  expect(await pictures('plt.plot([1, 2, 3])')).toEqual(['line']);
  expect(await pictures('plt.figure(); plt.plot([1]); plt.figure(); plt.plot([2]); plt.show()')).toEqual([
    'line',
    'line',
  ]);
});

test('a picture of an unknown kind is only a picture', async () => {
  const { chart } = await figure('plt.imshow(numpy.zeros((2, 2))); plt.colorbar()');
  expect(chart).toBeUndefined();
});

test('a figure that is the last expression is the main result', async () => {
  const code = 'figure, axes = plt.subplots(); axes.plot([1, 2]); plt.close(); figure';
  const { main, displays } = await python.run({ contextId, code });
  expect(displays).toEqual([]);
  expect(main).toMatchObject({ isMainResult: true, png: expect.any(String), chart: { type: 'line' } });
});

test('displayed JSON with type, title and elements is a chart too', async () => {
  const chart = { type: 'bar', title: 'T', elements: [{ label: 'a', value: 1 }] };
  const { main } = await python.run({
    contextId,
    code: `from IPython.display import JSON\nJSON(${JSON.stringify(chart)})`,
  });
  expect(main!.chart).toEqual({
    type: 'bar',
    title: 'T',
    elements: [{ kind: 'bar', label: 'a', group: '', value: '1' }],
    extra: {},
  });
  expect(JSON.parse(main!.json!)).toEqual(chart);
});

test('a chart keeps every digit, and an infinite coordinate does not change its neighbours', async () => {
  const scatter = await figure('plt.scatter([1, 2], [float("inf"), 5])');
  expect(scatter.chart!.elements).toMatchObject([
    {
      points: [
        { x: 1, y: undefined },
        { x: 2, y: 5 },
      ],
    },
  ]);
  const line = await figure('plt.plot([2**53 + 1, 2**53 + 3], [1e-12, 0.1 + 0.2])');
  expect(line.chart!.elements).toMatchObject([
    {
      points: [
        { x: '9007199254740993', y: 1e-12 },
        { x: '9007199254740995', y: 0.1 + 0.2 },
      ],
    },
  ]);
  const bar = await figure('plt.bar(["a", "b"], [3.141592653589793, 1e-13])');
  expect(bar.chart!.elements).toMatchObject([{ value: '3.141592653589793' }, { value: '1e-13' }]);
  const { main } = await python.run({
    contextId,
    code: 'from IPython.display import JSON\nJSON({"type": "line", "elements": [{"label": "l", "points": [[2**53 + 1, 1.0]]}]})',
  });
  expect(main!.chart!.elements).toMatchObject([{ points: [{ x: '9007199254740993', y: 1 }] }]);
});
