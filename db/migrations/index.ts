import { Migration0001Core } from './0001-core.ts';
import { Migration0002Accounts } from './0002-accounts.ts';
import { Migration0003Hosts } from './0003-hosts.ts';
import { Migration0004Templates } from './0004-templates.ts';
import { Migration0005Sandboxes } from './0005-sandboxes.ts';
import { Migration0006Usage } from './0006-usage.ts';
import { Migration0007Metering } from './0007-metering.ts';
import { Migration0008Billing } from './0008-billing.ts';
import { Migration0009Webhooks } from './0009-webhooks.ts';
import { Migration0010Upkeep } from './0010-upkeep.ts';
import { Migration0011DirectStarts } from './0011-direct-starts.ts';
import { Migration0012WebhookRelay } from './0012-webhook-relay.ts';
import { Migration0013DirectMoves } from './0013-direct-moves.ts';
import { Migration0014PublicPorts } from './0014-public-ports.ts';

/** All migrations in the order of their names, which is the order of execution. */
export const migrations = [
  { name: '0001-core', class: Migration0001Core },
  { name: '0002-accounts', class: Migration0002Accounts },
  { name: '0003-hosts', class: Migration0003Hosts },
  { name: '0004-templates', class: Migration0004Templates },
  { name: '0005-sandboxes', class: Migration0005Sandboxes },
  { name: '0006-usage', class: Migration0006Usage },
  { name: '0007-metering', class: Migration0007Metering },
  { name: '0008-billing', class: Migration0008Billing },
  { name: '0009-webhooks', class: Migration0009Webhooks },
  { name: '0010-upkeep', class: Migration0010Upkeep },
  { name: '0011-direct-starts', class: Migration0011DirectStarts },
  { name: '0012-webhook-relay', class: Migration0012WebhookRelay },
  { name: '0013-direct-moves', class: Migration0013DirectMoves },
  { name: '0014-public-ports', class: Migration0014PublicPorts },
];
