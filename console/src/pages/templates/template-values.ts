import type { DataOf } from '../../api/client.ts';
import { useSession } from '../../api/session.ts';

export type Template = DataOf<'getTemplate'>;
type Item = DataOf<'listTemplates'>['templates'][number];

export const statuses = ['available', 'pending', 'building', 'pushing', 'failed'] as const;

export const visibilities: Readonly<Record<Item['visibility'], string>> = {
  private: 'Private',
  account_shared: 'Shared in the account',
  public: 'Public',
};

/** Built-in templates belong to no account. */
export const isBuiltIn = (template: Pick<Item, 'owner_account_id'>) => template.owner_account_id === null;

/** Sandboxes can be made from it. The image of a built-in template is made for the first one. */
export function isUsable(template: Item): boolean {
  return (
    template.status === 'available' ||
    (isBuiltIn(template) && (template.status === 'pending' || template.status === 'building'))
  );
}

export function ownerOf(template: Item): string {
  if (isBuiltIn(template)) return 'Built in';
  return template.owner?.display_name || template.owner?.username || 'Another account';
}

/** Where its image is from, in words. */
export function sourceOf(template: Item): string {
  if (isBuiltIn(template)) return 'Built in';
  if (template.custom_image_source === 'external') return 'Image of another registry, not imported yet';
  if (template.external_image_url) return 'Imported image';
  if (template.template_source === 'custom') return "Image in the platform's registry";
  return "Image of one of the platform's templates";
}

/** The owner, the root users of the account, and operators. */
export function useMayChange(template: Item): boolean {
  const { role, user_id, account_id, is_root_user } = useSession();
  if (role === 'admin') return true;
  return template.owner_account_id === account_id && (is_root_user || template.owner_user_id === user_id);
}
