import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { newId } from '../../../db/core/new-id.ts';
import { createOrm, type Orm } from '../../../db/orm.ts';
import { Template } from '../../../db/templates/template.entity.ts';
import type { TemplateId } from '../../../domain/ids.ts';
import { PooledImages } from '../../../worker/templates/pooled-images.ts';
import { type TestDatabase, testDatabase } from '../../support/stack.ts';
import { until } from '../../support/until.ts';

/** The images of which a host keeps frozen sandboxes, after templates were removed. */
let database: TestDatabase;
let orm: Orm;

beforeAll(async () => {
  database = await testDatabase();
  orm = await createOrm(database.url, 4);
});
afterAll(async () => {
  await orm.close();
  await database.drop();
});

async function addTemplate(image: string): Promise<TemplateId> {
  const templateId = newId('template');
  const em = orm.em.fork();
  em.create(Template, {
    ...{ templateId, name: templateId, defaultCpuCount: 1, defaultMemoryMb: 256, ports: [], image },
    ...{ visibility: 'private', templateSource: 'custom', status: 'available' },
  });
  await em.flush();
  return templateId;
}

test('the frozen sandboxes of a template end when it is deleted or gets another image, unless another has the image', async () => {
  const pooled = ['registry:a@one', 'registry:a@two', 'registry:a@three', 'registry:a@gone'];
  const driver = {
    pooledImages: pooled,
    async dropPooled(image: string) {
      pooled.splice(pooled.indexOf(image), 1);
    },
  };
  const [one, two] = [await addTemplate('registry:a@one'), await addTemplate('registry:a@two')];
  const [, shared] = [await addTemplate('registry:a@three'), await addTemplate('registry:a@three')];
  const watch = new PooledImages({ orm, databaseUrl: database.url, driver, logger: pino({ level: 'silent' }) });
  watch.start();
  // The image that was removed without a listener.
  await until(() => !pooled.includes('registry:a@gone'));
  expect(pooled).toEqual(['registry:a@one', 'registry:a@two', 'registry:a@three']);
  await orm.em.fork().nativeDelete(Template, { templateId: one });
  await until(() => !pooled.includes('registry:a@one'));
  await orm.em.fork().nativeUpdate(Template, { templateId: two }, { image: 'registry:a@other' });
  await orm.em.fork().nativeDelete(Template, { templateId: shared });
  await until(() => !pooled.includes('registry:a@two'));
  expect(pooled).toEqual(['registry:a@three']);
  await watch.stop();
});
