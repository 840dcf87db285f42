import type { EntityManager } from '@mikro-orm/postgresql';
import type { TemplateUse } from '../domain/host-room.ts';
import { Account } from './entities/account.ts';
import { Template } from './entities/template.ts';
import { newId } from './new-id.ts';
import type { Orm } from './orm.ts';
import { query } from './query.ts';
import { createAccount, type MadeAccount } from './repositories/accounts.ts';
import { guessTemplateUse } from './repositories/host-rooms.ts';

/** Two starts at once must not make two first accounts; the number is arbitrary. */
const bootstrapLock = 7_403_112;

/**
 * Brings an empty database to its first state: the built-in templates, and the first account with its root admin,
 * default project and key. Existing rows stay as they are.
 * @returns the first account when this call made it
 */
export async function bootstrap(
  orm: Orm,
  first: { email: string; planName: string; baseImage: string },
): Promise<MadeAccount | null> {
  return orm.em.fork().transactional(async (em) => {
    await query(em, 'select pg_advisory_xact_lock(?)', [bootstrapLock]);
    await bringTemplate(em, {
      name: 'base',
      description: 'Debian with a shell, git, curl and Python',
      defaultCpuCount: 2,
      defaultMemoryMb: 512,
      image: first.baseImage,
      use: { cpu: 0.1, memoryMb: 64 },
    });
    await bringTemplate(em, {
      name: 'code-interpreter',
      description: 'Code contexts in Python with pandas and matplotlib, JavaScript, TypeScript and Bash',
      defaultCpuCount: 2,
      defaultMemoryMb: 1024,
      image: 'builtin:code-interpreter',
      use: { cpu: 0.2, memoryMb: 256 },
    });
    if ((await em.count(Account)) > 0) return null;
    return createAccount(em, { email: first.email, displayName: 'Root', planName: first.planName, role: 'admin' });
  });
}

interface BroughtTemplate extends Pick<Template, 'name' | 'description' | 'defaultCpuCount' | 'defaultMemoryMb'> {
  image: string;
  /** The expected use of its sandboxes until a host has measured some. */
  use: TemplateUse;
}

/** A built-in template; an existing one keeps all but its image. */
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
    status: 'available',
    ports: [],
    rootTemplateId: templateId,
  });
}
