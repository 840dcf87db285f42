import type { ParseArgsOptionsConfig } from 'node:util';
import { Platform } from '../platform.ts';
import { type CliCommand, print, printJson, UsageError } from './command.ts';

/** A command whose first word names one of several, such as `template ls`. */
export function group(name: string, summary: string, members: CliCommand[]): CliCommand {
  const options: ParseArgsOptionsConfig = Object.assign({}, ...members.map((each) => each.options ?? {}));
  return {
    ...{ name, summary, options },
    usage: members.map((each) => `${each.name} ${each.usage}`.trim()).join(' | '),
    maxWords: 1 + Math.max(...members.map(({ maxWords }) => maxWords)),
    words: members.map((each) => each.name),
    async run(invocation) {
      const [word, ...words] = invocation.words;
      const member = members.find((each) => each.name === word);
      if (!member) throw new UsageError(`Give one of ${members.map((each) => each.name).join(', ')}`);
      const extra = words[member.maxWords];
      if (extra !== undefined) throw new UsageError(`${name} ${member.name} takes no word ${extra} here`);
      for (const option of Object.keys(invocation.options)) {
        if (option in options && !(option in (member.options ?? {}))) {
          throw new UsageError(`${name} ${member.name} has no --${option}`);
        }
      }
      return member.run({ ...invocation, words });
    },
  };
}

/** A word that a command needs. @throws {UsageError} */
export function needed(words: string[], place: number, what: string): string {
  const word = words[place];
  if (word === undefined) throw new UsageError(`Give ${what}`);
  return word;
}

/** The word `rm` of a group, which deletes what an id names. */
export function remove(noun: string, work: (platform: Platform, id: string) => Promise<void>): CliCommand {
  return {
    ...{ name: 'rm', summary: `delete the ${noun}`, usage: noun.toUpperCase(), maxWords: 1 },
    async run({ words, connection, json }) {
      const id = needed(words, 0, `the id of the ${noun}`);
      await work(new Platform(connection), id);
      if (json) printJson({ [`${noun}_id`]: id });
      else print('deleted');
      return 0;
    },
  };
}
