import type { EntityManager } from '@mikro-orm/postgresql';
import type { TemplateUse } from '../domain/hosts/placement.ts';
import { Account } from './accounts/account.entity.ts';
import {
  type AccountIds,
  createAccount,
  createAccountWithoutKey,
  type MadeAccount,
  type NewAccount,
} from './accounts/accounts.ts';
import { loadPlans } from './billing/plans.ts';
import { newId } from './core/new-id.ts';
import { query } from './core/query.ts';
import { guessTemplateUse } from './hosts/host-capacities.ts';
import type { Orm } from './orm.ts';
import { Template } from './templates/template.entity.ts';

/** Prevents that two concurrent starts make two first accounts. The number is arbitrary. */
const bootstrapLock = 7_403_112;

interface FirstAccount {
  email: string;
  planName: string;
  baseImage: string;
}

/**
 * Brings an empty database to its first state: the built-in templates, and the first account with its root admin,
 * default project and key. Existing rows stay unchanged.
 * @param plans by default those of the seed file
 * @returns the first account if this call made it
 */
export function bootstrap(orm: Orm, first: FirstAccount, plans = loadPlans()): Promise<MadeAccount | null> {
  return bootstrapWith(orm, first, (em, account) => createAccount(em, account, plans));
}

/** As `bootstrap`, with a first account that has no API key. */
export function bootstrapWithoutKey(orm: Orm, first: FirstAccount, plans = loadPlans()): Promise<AccountIds | null> {
  return bootstrapWith(orm, first, (em, account) => createAccountWithoutKey(em, account, plans));
}

async function bootstrapWith<Made>(
  orm: Orm,
  first: FirstAccount,
  make: (em: EntityManager, account: NewAccount) => Promise<Made>,
): Promise<Made | null> {
  return orm.em.fork().transactional(async (em) => {
    await query(em, 'select pg_advisory_xact_lock(?)', [bootstrapLock]);
    await bringTemplate(em, {
      name: 'base',
      description: 'Debian with a shell, git, curl and Python',
      defaultCpuCount: 2,
      defaultMemoryMb: 512,
      image: first.baseImage,
      status: 'available',
      use: { cpu: 0.1, memoryMb: 64 },
    });
    await bringTemplate(em, {
      name: 'code-interpreter',
      description: 'Code contexts in Python with pandas and matplotlib, JavaScript, TypeScript and Bash',
      defaultCpuCount: 2,
      defaultMemoryMb: 1024,
      image: 'builtin:code-interpreter',
      status: 'pending',
      use: { cpu: 0.2, memoryMb: 256 },
    });
    await bringTemplate(em, {
      name: 'code-interpreter-all',
      description: 'As code-interpreter, and R, Java and Deno; its image is made at the first use',
      defaultCpuCount: 2,
      defaultMemoryMb: 1024,
      image: 'builtin:code-interpreter-all',
      status: 'pending',
      use: { cpu: 0.2, memoryMb: 256 },
    });
    if ((await em.count(Account)) > 0) return null;
    return make(em, { email: first.email, displayName: 'Root', planName: first.planName, role: 'admin' });
  });
}

interface BroughtTemplate extends Pick<Template, 'name' | 'description' | 'defaultCpuCount' | 'defaultMemoryMb'> {
  image: string;
  /** The initial status. If hosts make the image, they set the status later. */
  status: 'available' | 'pending';
  /** The expected use of its sandboxes until hosts have measured some. */
  use: TemplateUse;
}

/** Adds a built-in template. Of an existing one, only the image is updated. */
async function bringTemplate(em: EntityManager, { use, ...template }: BroughtTemplate): Promise<void> {
  const existing = await em.findOne(Template, { name: template.name, accountId: null });
  if (existing) {
    existing.image = template.image;
    await guessTemplateUse(em, existing.templateId, use);
    return;
  }
  const templateId = newId('template');
  await guessTemplateUse(em, templateId, use);
  em.create(Template, {
    ...template,
    templateId,
    visibility: 'public',
    templateSource: 'platform_family',
    ports: [],
    rootTemplateId: templateId,
  });
}
