import { parseChart } from '../../agent/contexts/chart.ts';

const chart = (elements: unknown[], more: object = {}) => parseChart({ type: 'line', title: 'T', elements, ...more });

test("the contract's shape is read, with names in either case", () => {
  const points = [
    { x: 1, y: 'b' },
    { x: 'a', y: 2 },
  ];
  const snake = [
    {
      point_data: {
        label: 'l',
        points: [
          { x_num: 1, y_str: 'b' },
          { x_str: 'a', y_num: 2 },
        ],
      },
    },
  ];
  const camel = [
    {
      pointData: {
        label: 'l',
        points: [
          { xNum: 1, yStr: 'b' },
          { xStr: 'a', yNum: 2 },
        ],
      },
    },
  ];
  const expected = { type: 'line', title: 'T', elements: [{ kind: 'point', label: 'l', points }], extra: {} };
  expect(chart(snake)).toEqual(expected);
  expect(chart(camel)).toEqual(expected);
});

test('elements without a type are recognized by their fields', () => {
  expect(chart([{ label: 'l', points: [[1, 2]] }])?.elements).toEqual([
    { kind: 'point', label: 'l', points: [{ x: 1, y: 2 }] },
  ]);
  expect(chart([{ label: 'b', group: 'g', value: 3 }])?.elements).toEqual([
    { kind: 'bar', label: 'b', group: 'g', value: '3' },
  ]);
  expect(chart([{ label: 'p', angle: 90 }])?.elements).toEqual([{ kind: 'pie', label: 'p', angle: 90, radius: 1 }]);
  const box = { label: 'x', min: 1, first_quartile: 2, median: 3, thirdQuartile: 4, max: 5, outliers: [9] };
  expect(chart([box])?.elements).toEqual([
    {
      kind: 'box',
      label: 'x',
      box: { min: 1, firstQuartile: 2, median: 3, thirdQuartile: 4, max: 5, outliers: [9] },
    },
  ]);
  const nested = { type: 'bar', title: 'N', elements: [{ label: 'b', value: 1 }] };
  expect(chart([nested])?.elements).toMatchObject([{ kind: 'nested', chart: { type: 'bar', title: 'N' } }]);
});

test('additional values become text', () => {
  expect(chart([{ label: 'b', value: 1 }], { extra: { unit: 's', ticks: [1, 2], n: 3, none: null } })?.extra).toEqual({
    unit: 's',
    ticks: '[1,2]',
    n: '3',
    none: '',
  });
});

test.each([
  ['text', 'line'],
  ['null', null],
  ['a list', [{ label: 'b', value: 1 }]],
  ['an object without elements', { type: 'line', title: 'T' }],
  ['elements that are no list', { type: 'line', elements: {} }],
  ['no elements', { type: 'line', elements: [] }],
  ['an element of no kind', { type: 'line', elements: [{ label: 'l' }] }],
  ['an element that is a number', { type: 'line', elements: [1] }],
  ['a point that is none', { type: 'line', elements: [{ points: [1] }] }],
  ['a nested chart that is none', { type: 'line', elements: [{ nested_chart: { type: 'bar' } }] }],
  ['a type that is a number', { type: 1, elements: [{ label: 'b', value: 1 }] }],
])('%s is not a chart', (_what, value) => {
  expect(parseChart(value)).toBeUndefined();
});

test('endlessly nested charts are not a chart', () => {
  let nested: object = { type: 'bar', elements: [{ label: 'b', value: 1 }] };
  for (let depth = 0; depth < 100; depth++) nested = { type: 'superchart', elements: [{ nested_chart: nested }] };
  expect(parseChart(nested)).toBeUndefined();
});
