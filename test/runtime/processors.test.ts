import { chooseProcessors, type Pinned, readProcessorList, rebalance } from '../../runtime/oci/processors.ts';

const four = [0, 1, 2, 3];

test('lists of the kernel', () => {
  expect(readProcessorList('0-2,5,8-9\n')).toEqual([0, 1, 2, 5, 8, 9]);
  expect(readProcessorList('3\n')).toEqual([3]);
  expect(readProcessorList('\n')).toEqual([]);
});

test('a new sandbox gets the processors with the fewest sandboxes, and at least one', () => {
  expect(chooseProcessors(four, [], 2)).toEqual([0, 1]);
  expect(chooseProcessors(four, [[0, 1], [2]], 2)).toEqual([0, 3]);
  expect(chooseProcessors(four, [[7]], 8)).toEqual(four);
  expect(chooseProcessors(four, [], 0)).toEqual([0]);
  const taken: number[][] = [];
  for (let made = 0; made < 8; made += 1) taken.push(chooseProcessors(four, taken, 1));
  expect(taken.flat().sort()).toEqual([0, 0, 1, 1, 2, 2, 3, 3]);
});

const busy = (instance: string, processors: number[], used: number): Pinned => ({ instance, processors, used });

test('two that slow each other down are separated; idle ones stay', () => {
  const moved = rebalance(four, [busy('a', [0], 0.5), busy('b', [0], 0.5), busy('idle', [0], 0)]);
  expect(moved.size).toBe(1);
  expect([...moved.values()][0]).not.toEqual([0]);
  expect(moved.has('idle')).toBe(false);
});

test('an even distribution stays, also if all processors are full', () => {
  expect(rebalance(four, [busy('a', [0], 1), busy('b', [1], 1), busy('c', [2], 1), busy('d', [3], 1)]).size).toBe(0);
  expect(rebalance([0, 1], [busy('a', [0], 0.5), busy('b', [0], 0.5), busy('c', [1], 1)]).size).toBe(0);
  expect(rebalance([0], [busy('a', [0], 0.5), busy('b', [0], 0.5)]).size).toBe(0);
  expect(rebalance(four, []).size).toBe(0);
});

test('thirty and twenty become even in a few rounds, and then nothing moves', () => {
  const processors = new Map<string, number[]>();
  for (let at = 0; at < 50; at += 1) processors.set(`s${at}`, [at < 30 ? 0 : 1]);
  const count = (processor: number) => [...processors.values()].filter(([own]) => own === processor).length;
  for (let round = 0; round < 5; round += 1) {
    const sandboxes = [...processors].map(([instance, own]) => busy(instance, own, 1 / count(own[0]!)));
    for (const [instance, next] of rebalance([0, 1], sandboxes)) processors.set(instance, next);
  }
  expect([count(0), count(1)]).toEqual([25, 25]);
  const sandboxes = [...processors].map(([instance, own]) => busy(instance, own, 1 / 25));
  expect(rebalance([0, 1], sandboxes).size).toBe(0);
});

test('a sandbox of several processors keeps their number, each once', () => {
  const moved = rebalance(four, [busy('wide', [0, 1], 2), busy('a', [0], 0.4), busy('b', [0], 0.4)]);
  for (const processors of moved.values()) expect(new Set(processors).size).toBe(processors.length);
  expect(moved.get('wide')?.length ?? 2).toBe(2);
  expect(moved.size).toBeGreaterThan(0);
});
