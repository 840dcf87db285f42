import type { AccountId, UserId } from '../ids.ts';
import type { ImageReference } from './image-reference.ts';

/**
 * An image in the platform's registry: its project, its repository in the project, and the tag or digest of its
 * manifest.
 */
export interface RegistryPlace {
  project: string;
  repository: string;
  tag: string;
}

type Visibility = 'private' | 'account_shared' | 'public';

/**
 * The project for the images of templates of a visibility: one for each user, one shared by the account, and one for
 * the account's public templates.
 */
export function deriveRegistryProject(
  owner: { accountId: AccountId; ownerUserId: UserId },
  visibility: Visibility,
): string {
  switch (visibility) {
    case 'private':
      return owner.ownerUserId;
    case 'account_shared':
      return owner.accountId;
    case 'public':
      return `public-${owner.accountId}`;
  }
}

/** The user or the account whose images a project holds. */
export function ownerOfProject(project: string): string {
  return project.replace(/^public-/, '');
}

/** Whether a caller may read the images of a project. */
export function mayReadProject(
  caller: { accountId: AccountId; userId: UserId; role: 'user' | 'admin' },
  project: string,
): boolean {
  return (
    caller.role === 'admin' ||
    project === caller.userId ||
    project === caller.accountId ||
    project.startsWith('public-')
  );
}

const scheme = 'registry:';

/**
 * The name of an image of the platform's registry in templates and sandboxes: with the digest, and without the
 * registry's address, which may change.
 */
export function registryImage(path: string, digest: string): string {
  return `${scheme}${path}@${digest}`;
}

/** The repository and digest of an image of the platform's registry. Null: another kind of image. */
export function readRegistryImage(image: string): { path: string; digest: string } | null {
  const [, path, digest] = /^registry:([^@]+)@(sha256:[0-9a-f]{64})$/.exec(image) ?? [];
  return path && digest ? { path, digest } : null;
}

/** The place of a reference in the platform's registry. Null: the reference has another registry, or no project. */
export function placeIn(
  registry: { address: string; prefix: string },
  reference: ImageReference,
): (RegistryPlace & { digest: string | null }) | null {
  const path = `${reference.registry}/${reference.repository}`;
  const start = `${registry.address}/${registry.prefix}`;
  if (!path.startsWith(start)) return null;
  const [project, ...rest] = path.slice(start.length).split('/');
  const repository = rest.join('/');
  if (!project || !repository) return null;
  return { project, repository, tag: reference.tag ?? 'latest', digest: reference.digest };
}

/** Whether hosts make the image themselves. */
export const isBuiltin = (image: string): boolean => image.startsWith('builtin:');

/** Whether sandboxes start the ENTRYPOINT and CMD of the image. Those of built-in templates and images never do. */
export function startsImageCommand(template: {
  image: string;
  accountId?: AccountId | null;
  customCommand?: string | null;
  startImageCommand: boolean;
}): boolean {
  const { image, accountId, customCommand, startImageCommand } = template;
  return startImageCommand && !customCommand && Boolean(accountId) && !isBuiltin(image);
}

/**
 * Whether a sandbox can be made of a template now. A built-in template is usable before hosts have made its image: the
 * sandbox starts when the image is there.
 */
export function isUsable(template: { status: string; image?: string | null; accountId?: AccountId | null }): boolean {
  const { status, image, accountId } = template;
  if (!image) return false;
  return status === 'available' || (!accountId && isBuiltin(image) && (status === 'pending' || status === 'building'));
}
