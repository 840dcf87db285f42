/** An image reference: `registry/repository:tag`, `registry/repository@sha256:…`, or a short Docker Hub name. */
export interface ImageReference {
  /** Host and port of the registry. */
  registry: string;
  repository: string;
  tag: string | null;
  /** `sha256:…`. The digest takes precedence over the tag. */
  digest: string | null;
}

const domain = String.raw`(?:localhost|\[[0-9a-f:]+\]|[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*)(?::\d{1,5})?`;
const component = '[a-z0-9]+(?:(?:[.]|_|__|-+)[a-z0-9]+)*';
const referencePattern = new RegExp(
  `^(?:(${domain})/)?(${component}(?:/${component})*)(?::([A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(sha256:[0-9a-f]{64}))?$`,
);

export const maxReferenceLength = 512;

/**
 * Reads an image reference as Docker does: the default registry is Docker Hub, and the default tag is `latest`. A
 * leading `docker://` or `https://` is removed.
 * @returns null when the text is not a reference
 */
export function parseImageReference(text: string): ImageReference | null {
  if (text.length > maxReferenceLength) return null;
  const bare = text.trim().replace(/^(docker|https):\/\//, '');
  const first = bare.split('/', 1)[0]!;
  // The first part is a registry only if it looks like a host: `library/python` has no registry.
  const hasRegistry = bare.includes('/') && (/[.:[]/.test(first) || first === 'localhost');
  const [, registry, repository, tag, digest] = referencePattern.exec(hasRegistry ? bare : `docker.io/${bare}`) ?? [];
  if (!registry || !repository || repository.length > 255) return null;
  const port = /:(\d+)$/.exec(registry)?.[1];
  if (port !== undefined && (Number(port) < 1 || Number(port) > 65_535)) return null;
  const isHub = ['docker.io', 'index.docker.io', 'registry-1.docker.io'].includes(registry);
  return {
    registry: isHub ? 'registry-1.docker.io' : registry,
    repository: isHub && !repository.includes('/') ? `library/${repository}` : repository,
    tag: tag ?? (digest ? null : 'latest'),
    digest: digest ?? null,
  };
}

/** The host and port of a registry by its name. */
export function registryAddress(registry: string): { host: string; port: number | null } {
  const [, host, port] = /^(.*?)(?::(\d+))?$/.exec(registry)!;
  return { host: host!.replace(/^\[(.*)\]$/, '$1'), port: port ? Number(port) : null };
}
