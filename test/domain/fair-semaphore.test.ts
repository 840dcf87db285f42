import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { FairSemaphore, type Permit } from '../../domain/fair-semaphore.ts';

const never = new AbortController().signal;

/** The keys that got a permit so far, in order. */
function takers(semaphore: FairSemaphore) {
  const granted: { key: string; permit: Permit }[] = [];
  return {
    take: (key: string, signal = never) => semaphore.take(key, signal).then((permit) => granted.push({ key, permit })),
    keys: () => granted.map(({ key }) => key),
    release: (index: number) => granted[index]!.permit.release(),
  };
}

test('a key has at most its share, even if more is free, and others do not wait for it', async () => {
  const { take, keys, release } = takers(new FairSemaphore(3, 2));
  for (const key of ['a', 'a', 'a', 'a', 'b']) void take(key);
  await nextTurn();
  expect(keys()).toEqual(['a', 'a', 'b']);
  void take('c');
  release(0);
  release(0);
  await nextTurn();
  expect(keys()).toEqual(['a', 'a', 'b', 'c']);
  release(2);
  await nextTurn();
  expect(keys()).toEqual(['a', 'a', 'b', 'c', 'a']);
});

test('a wait that is aborted takes nothing', async () => {
  const { take, keys, release } = takers(new FairSemaphore(1, 1));
  const stop = new AbortController();
  void take('a');
  const waiting = take('b', stop.signal);
  void take('c');
  stop.abort(new Error('enough'));
  await expect(waiting).rejects.toThrow('enough');
  await nextTurn();
  release(0);
  await nextTurn();
  expect(keys()).toEqual(['a', 'c']);
});
