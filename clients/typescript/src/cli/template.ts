import { Platform } from '../platform.ts';
import { parseNumber, print, printJson, table } from './command.ts';
import { group, needed, remove } from './group.ts';

export const template = group('template', 'list, show, make and delete templates', [
  {
    name: 'ls',
    maxWords: 0,
    usage: '',
    summary: 'list the templates from which sandboxes can be made',
    async run({ connection, json }) {
      const found = [];
      for await (const each of new Platform(connection).templates.list({ usable: true })) found.push(each);
      if (json) printJson(found);
      else {
        const rows = found.map((each) => [
          ...[each.template_id, each.name, `${each.default_cpu_count}`, `${each.default_memory_mb}`, each.visibility],
        ]);
        print(table([['TEMPLATE', 'NAME', 'CPU', 'MEMORY_MB', 'VISIBILITY'], ...rows]));
      }
      return 0;
    },
  },
  {
    name: 'info',
    maxWords: 1,
    usage: 'TEMPLATE',
    summary: 'show a template',
    async run({ words, connection }) {
      printJson(await new Platform(connection).templates.get(needed(words, 0, 'a template')));
      return 0;
    },
  },
  {
    name: 'import',
    maxWords: 2,
    usage: 'NAME IMAGE [--cpu N] [--memory MB] [--username U --password-env VARIABLE]',
    summary: 'make a template from an image of a registry',
    options: {
      cpu: { type: 'string' },
      memory: { type: 'string' },
      username: { type: 'string' },
      'password-env': { type: 'string' },
    },
    async run({ words, options, connection, json }) {
      const cpuCount = parseNumber(options.cpu, '--cpu');
      const memoryMb = parseNumber(options.memory, '--memory');
      const password = options['password-env'] === undefined ? undefined : process.env[String(options['password-env'])];
      const [name, image] = [needed(words, 0, 'a name'), needed(words, 1, 'an image')];
      const made = await new Platform(connection).templates.import(name, image, {
        ...(cpuCount !== undefined && { cpuCount }),
        ...(memoryMb !== undefined && { memoryMb }),
        ...(options.username !== undefined && { username: String(options.username) }),
        ...(password !== undefined && { password }),
        onProgress({ status, progress_percentage, error_message }) {
          if (!json)
            process.stderr.write(`${status} ${progress_percentage} %${error_message ? `: ${error_message}` : ''}\n`);
        },
      });
      if (json) printJson(made);
      else print(made.template_id);
      return 0;
    },
  },
  {
    name: 'from-sandbox',
    maxWords: 2,
    usage: 'SANDBOX NAME',
    summary: 'make a template from the disk of a sandbox',
    async run({ words, connection, json }) {
      const { templates } = new Platform(connection);
      const made = await templates.fromSandbox(needed(words, 0, 'a sandbox'), needed(words, 1, 'a name'));
      if (json) printJson(made);
      else print(made.template_id);
      return 0;
    },
  },
  remove('template', ({ templates }, id) => templates.delete(id)),
]);
