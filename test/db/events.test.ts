import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Event } from '../../db/core/event.entity.ts';
import { recordEvent } from '../../db/core/events.ts';
import { createOrm, type Orm } from '../../db/orm.ts';
import { type TestDatabase, testDatabase } from '../support/stack.ts';

let database: TestDatabase;
let orm: Orm;
beforeAll(async () => {
  database = await testDatabase();
  orm = await createOrm(database.url, 8);
});
afterAll(async () => {
  await orm.close();
  await database.drop();
});

const object = (objectId: string) => ({ objectId, accountId: 'acc-a' as const, userId: null });

test('the events of each object are numbered without gaps, also with concurrent recordings and rollbacks', async () => {
  const record = (objectId: string, number: number) =>
    orm.em.fork().transactional(async (em) => {
      await recordEvent(em, object(objectId), 'payment.succeeded', { number });
      if (number % 3 === 0) throw new Error('rolled back');
    });
  const numbers = Array.from({ length: 30 }, (_, index) => index);
  const settled = await Promise.allSettled(
    numbers.flatMap((number) => [record('pay-a', number), record('pay-b', number)]),
  );
  expect(settled.filter(({ status }) => status === 'rejected')).toHaveLength(20);
  for (const objectId of ['pay-a', 'pay-b']) {
    const events = await orm.em.fork().find(Event, { objectId }, { orderBy: { sequence: 'asc' } });
    expect(events.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 20 }, (_, index) => index + 1));
    for (const { sequence, data, type, accountId } of events) {
      expect([data.sequence, type, accountId]).toEqual([sequence, 'payment.succeeded', 'acc-a']);
    }
    expect(new Set(events.map(({ data }) => data.number)).size).toBe(20);
  }
});

test('the numbering of an object continues after its old events were removed', async () => {
  const record = () => orm.em.fork().transactional((em) => recordEvent(em, object('tpl-a'), 'template.uploaded', {}));
  await record();
  await orm.em.fork().nativeDelete(Event, { objectId: 'tpl-a' });
  expect((await record()).sequence).toBe(2);
});
