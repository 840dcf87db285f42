import type { ErrorCode } from '../domain/errors.ts';
import type { Access } from './access.ts';
import { ofEveryRoute } from './schemas/failures.ts';

const callers: Record<Access['who'], string> = {
  anyone: 'anyone, without a key',
  user: 'every user',
  account_root: 'root users of the account, and operators',
  operator: 'operators of the platform (role `admin`)',
};

const objects: Record<Access['rows'], string> = {
  none: '',
  own: ', on what is their own',
  by_role: ', on their own objects; root users on all objects of the account, and operators on any account',
  account: ', on all objects of the account',
  everything: ', on all accounts',
};

/**
 * The description of an operation in the reference: the text of its route, who may call it, and, by status, its errors
 * beside those of every route. Access and errors are read from the route's declarations, so the reference matches what
 * is enforced.
 */
export function describeOperation(
  text: string,
  access: Pick<Access, 'who' | 'rows'> | undefined,
  codes: ReadonlyMap<number, ErrorCode[]>,
): string {
  const parts = [text];
  if (access) parts.push(`**Callers:** ${callers[access.who]}${objects[access.rows]}.`);
  const errors = [...codes].flatMap(([status, all]) => {
    const own = all.filter((code) => !ofEveryRoute.includes(code));
    return own.length === 0 ? [] : [`${status} ${own.map((code) => `\`${code}\``).join(', ')}`];
  });
  if (errors.length > 0) parts.push(`**Errors:** ${errors.join('; ')}.`);
  return parts.join('\n\n');
}
