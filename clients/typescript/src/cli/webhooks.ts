import { Platform } from '../platform.ts';
import { print, printJson, table } from './command.ts';
import { group, needed, remove } from './group.ts';

export const webhooks = group('webhooks', 'list, make, test and delete endpoints of webhooks', [
  {
    name: 'ls',
    maxWords: 0,
    usage: '',
    summary: 'list the endpoints',
    async run({ connection, json }) {
      const found = [];
      for await (const each of new Platform(connection).webhooks.list()) found.push(each);
      if (json) printJson(found);
      else {
        const rows = found.map((each) => [
          ...[each.endpoint_id, each.is_active ? 'active' : (each.disabled_reason ?? 'inactive')],
          ...[each.event_types.join(','), each.url, `${each.failed_deliveries}`],
        ]);
        print(table([['ENDPOINT', 'STATUS', 'EVENTS', 'URL', 'FAILED'], ...rows]));
      }
      return 0;
    },
  },
  {
    name: 'create',
    maxWords: 2,
    usage: 'URL EVENTS,…',
    summary: 'make an endpoint for types or families of events, such as sandbox.*',
    async run({ words, connection, json }) {
      const [url, events] = [needed(words, 0, 'a URL'), needed(words, 1, 'types of events')];
      const made = await new Platform(connection).webhooks.create(url, events.split(','));
      if (json) printJson(made);
      else print(`${made.endpoint_id}\n${made.public_key}`);
      return 0;
    },
  },
  {
    name: 'test',
    maxWords: 1,
    usage: 'ENDPOINT',
    summary: 'send a test event to an endpoint',
    async run({ words, connection, json }) {
      const sent = await new Platform(connection).webhooks.test(needed(words, 0, 'the id of an endpoint'));
      if (json) printJson(sent);
      else print(`${sent.delivery_id} ${sent.status}`);
      return 0;
    },
  },
  remove('endpoint', ({ webhooks }, id) => webhooks.delete(id)),
]);
