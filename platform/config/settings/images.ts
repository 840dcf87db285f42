import { z } from 'zod';
import { emptyIsUnset, flag, text, whole, words } from './field-types.ts';

/** Images of templates, and the registry that keeps them. */
export const imageSettings = {
  /**
   * Comma-separated built-in templates whose images a host builds in the background after its start. The images of the
   * others are built when the first sandbox needs them. `none`: no image is built ahead.
   */
  PLATFORM_IMAGES_AHEAD: z.preprocess(
    emptyIsUnset,
    z
      .string()
      .default('code-interpreter')
      .transform((list) => (list === 'none' ? [] : words(list)))
      .pipe(z.array(z.enum(['code-interpreter', 'code-interpreter-all']))),
  ),
  /**
   * `host:port`, or `host:port/path`, of the OCI registry that keeps the images of templates, each in `<project>/<name>` below
   * it. A path is needed where projects must be made first: `harbor.example.com/sandboxes`. Empty: no image can be imported.
   */
  PLATFORM_REGISTRY: text().refine(
    (address) => address === undefined || /^[^\s/@]+(\/[a-z0-9._-]+)*$/.test(address),
    'must be host:port or host:port/path',
  ),
  /** GB of a host's disk for unpacked images; the least recently used are removed first. 0: a fifth of the file system. */
  PLATFORM_IMAGE_CACHE_GB: whole(0),
  /** GB of the largest image that a host unpacks. */
  PLATFORM_IMAGE_MAX_GB: whole(32),
  /** Use plain HTTP with that registry. Hosts use plain HTTP only with a registry on loopback. */
  PLATFORM_REGISTRY_INSECURE_HTTP: flag(false),
  /** The user that may read, write and delete there, and the file with its password. Empty: the registry needs no login. */
  PLATFORM_REGISTRY_USERNAME: text(),
  PLATFORM_REGISTRY_PASSWORD_FILE: text(),
  /** PEM file of a CA that is trusted for that registry, in addition to the system's. */
  PLATFORM_REGISTRY_CA_FILE: text(),
  /** How long the registry keeps an image that no template, sandbox or import refers to. */
  PLATFORM_UNUSED_IMAGES_KEPT_HOURS: whole(24),
  /**
   * Socket of the supervisor, which frees space in the embedded registry. `npm start` sets it. Empty: the registry's
   * operator frees its space.
   */
  PLATFORM_REGISTRY_SWEEP_SOCKET: text(),
  /** PEM file of a CA that is trusted for the registries that users import from, in addition to the system's. */
  PLATFORM_IMPORT_CA_FILE: text(),
  /** The reference of the `base` template's image. Empty: the image is built from Debian packages. */
  PLATFORM_BASE_IMAGE: text(),
};
