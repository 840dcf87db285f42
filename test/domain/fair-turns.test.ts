import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { FairTurns } from '../../domain/fair-turns.ts';

test('work runs at once while the turn has time, then in later turns', async () => {
  const turns = new FairTurns(2);
  const ran: number[] = [];
  for (let i = 0; i < 5; i++) turns.run('one', () => ran.push(i));
  expect(ran).toEqual([0, 1]);
  await nextTurn();
  expect(ran).toEqual([0, 1, 2, 3]);
  await nextTurn();
  expect(ran).toEqual([0, 1, 2, 3, 4]);
});

test('a client with much work only delays itself, and alternates with others', async () => {
  const turns = new FairTurns(1);
  const ran: string[] = [];
  for (let i = 0; i < 100; i++) turns.run('greedy', () => ran.push('greedy'));
  turns.run('calm', () => ran.push('calm'));
  for (let i = 0; i < 3; i++) await nextTurn();
  expect(ran.slice(0, 4)).toEqual(['greedy', 'greedy', 'calm', 'greedy']);
  for (let i = 0; i < 100; i++) await nextTurn();
  expect(ran).toHaveLength(101);
});

test('work for later never runs in the turn that adds it', async () => {
  const turns = new FairTurns(2);
  const ran: string[] = [];
  for (let i = 0; i < 3; i++) turns.runLater('greedy', () => ran.push('greedy'));
  turns.runLater('calm', () => ran.push('calm'));
  expect(ran).toEqual([]);
  await nextTurn();
  expect(ran).toEqual(['greedy', 'calm']);
  await nextTurn();
  expect(ran).toEqual(['greedy', 'calm', 'greedy', 'greedy']);
});

test('work may add work', async () => {
  const turns = new FairTurns(1);
  const ran: number[] = [];
  const add = (i: number) =>
    turns.run('one', () => {
      ran.push(i);
      if (i < 3) add(i + 1);
    });
  add(0);
  for (let i = 0; i < 4; i++) await nextTurn();
  expect(ran).toEqual([0, 1, 2, 3]);
});
