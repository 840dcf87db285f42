import { Platform } from '../platform.ts';
import { type CliCommand, print, printJson, table } from './command.ts';
import { group, needed, remove } from './group.ts';

export const keys = group('keys', 'list, make, disable and delete API keys', [
  {
    name: 'ls',
    maxWords: 0,
    usage: '',
    summary: 'list the keys, without their secrets',
    async run({ connection, json }) {
      const found = [];
      for await (const each of new Platform(connection).apiKeys.list()) found.push(each);
      if (json) printJson(found);
      else {
        const rows = found.map((each) => [
          ...[
            each.key_id,
            each.prefix,
            each.is_active ? 'active' : 'inactive',
            each.name,
            each.last_used_at ?? 'never',
          ],
        ]);
        print(table([['KEY', 'PREFIX', 'STATUS', 'NAME', 'LAST USED'], ...rows]));
      }
      return 0;
    },
  },
  {
    name: 'create',
    maxWords: 1,
    usage: 'NAME',
    summary: 'make a key and print its secret, which is shown only once',
    async run({ words, connection, json }) {
      const made = await new Platform(connection).apiKeys.create(needed(words, 0, 'a name'));
      if (json) printJson(made);
      else print(made.api_key ?? '');
      return 0;
    },
  },
  setActive('disable', 'refuse a key from now on', false),
  setActive('enable', 'accept a key again', true),
  remove('key', ({ apiKeys }, id) => apiKeys.delete(id)),
]);

function setActive(name: string, summary: string, isActive: boolean): CliCommand {
  return {
    ...{ name, summary, usage: 'KEY', maxWords: 1 },
    async run({ words, connection, json }) {
      const id = needed(words, 0, 'the id of a key');
      await new Platform(connection).apiKeys.setActive(id, isActive);
      if (json) printJson({ key_id: id, is_active: isActive });
      else print(isActive ? 'active' : 'inactive');
      return 0;
    },
  };
}
