import { readHosts } from '../../../db/hosts/host-drains.ts';
import { revokeLastHop } from '../../../db/hosts/last-hop-certificates.ts';
import { changeDraining, readHost, untilDrained } from './host-drain.ts';
import { flag, type OperatorCommand, OperatorError, required, text } from './operator-command.ts';

/** Operator commands for hosts. */
export const hostCommands: Record<string, OperatorCommand> = {
  'list-hosts': {
    usage: '',
    does: 'Lists all hosts: state, free capacity, sandboxes by status',
    options: {},
    run: ({ orm }) => readHosts(orm.em),
  },

  'drain-host': {
    usage: '--host host-… [--pause] [--wait]',
    does: 'Places no more sandboxes on a host; --pause pauses running ones; --wait ends when none runs',
    options: { host: text, pause: flag, wait: flag },
    async run({ orm }, values) {
      const hostId = required(values, 'host');
      await changeDraining(orm, hostId, true);
      const [pause, wait] = [values.pause === true, values.wait === true];
      if (pause || wait) await untilDrained(orm, hostId, { pause, wait });
      return readHost(orm, hostId);
    },
  },

  'undrain-host': {
    usage: '--host host-…',
    does: 'Ends a drain; paused sandboxes stay paused until they are resumed',
    options: { host: text },
    async run({ orm }, values) {
      const hostId = required(values, 'host');
      await changeDraining(orm, hostId, false);
      return readHost(orm, hostId);
    },
  },

  'revoke-last-hop': {
    usage: '--role host|gateway --name …',
    does: 'Permanently revokes an identity for connections between machines',
    options: { role: text, name: text },
    async run({ orm }, values) {
      const [role, name] = [required(values, 'role'), required(values, 'name')];
      if (role !== 'host' && role !== 'gateway') throw new OperatorError('--role is host or gateway');
      await revokeLastHop(orm.em, { role, name });
      return { role, name, revoked: true };
    },
  },
};
