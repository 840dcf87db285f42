import { Account } from './entities/account.ts';
import { Template } from './entities/template.ts';
import { newId } from './new-id.ts';
import type { Orm } from './orm.ts';
import { createAccount, type MadeAccount } from './repositories/accounts.ts';

/** Two starts at once must not make two first accounts; any number does. */
const bootstrapLock = 7_403_112;

/**
 * Brings an empty database to its first state: the built-in templates, and the first account with its root admin,
 * default project and key. What is there already is left as it is.
 * @returns the first account when this call made it
 */
export async function bootstrap(
  orm: Orm,
  first: { email: string; planName: string; baseImage: string },
): Promise<MadeAccount | null> {
  return orm.em.fork().transactional(async (em) => {
    await em.execute('select pg_advisory_xact_lock(?)', [bootstrapLock]);
    const base = await em.findOne(Template, { name: 'base', accountId: null });
    if (base) base.image = first.baseImage;
    else {
      const templateId = newId('template');
      em.create(Template, {
        templateId,
        name: 'base',
        description: 'Debian with a shell, git, curl and Python',
        defaultCpuCount: 2,
        defaultMemoryMb: 512,
        visibility: 'public',
        templateSource: 'platform_family',
        status: 'available',
        image: first.baseImage,
        ports: [],
        rootTemplateId: templateId,
      });
    }
    if ((await em.count(Account)) > 0) return null;
    return createAccount(em, { email: first.email, displayName: 'Root', planName: first.planName, role: 'admin' });
  });
}
