import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { pushImage } from '../../../integrations/registry/image-push.ts';
import { PlatformRegistry } from '../../../integrations/registry/platform-registry.ts';
import { loadSomeSettings } from '../../../platform/config/settings.ts';
import { type BaseImageOptions, ensureBaseImage } from '../../../runtime/images/base-image.ts';
import { interpreterRecipes } from '../../../runtime/images/builtin-images.ts';
import { ensureCodeInterpreterImage } from '../../../runtime/images/code-interpreter-image.ts';
import { toOciConfig, type UnpackedImage } from '../../../runtime/images/image-cache.ts';
import { packLayer } from '../../../runtime/images/pack-layer.ts';
import { type OfflineCommand, OperatorError, reportProgress, required, text } from './operator-command.ts';

/** The project is beside those of users' images, and belongs to no account and no user. */
const project = 'platform-images';

const registrySettings = [
  'PLATFORM_REGISTRY',
  'PLATFORM_REGISTRY_INSECURE_HTTP',
  'PLATFORM_REGISTRY_USERNAME',
  'PLATFORM_REGISTRY_PASSWORD_FILE',
  'PLATFORM_REGISTRY_CA_FILE',
  'PLATFORM_CACHE_DIR',
] as const;

/** Images of built-in templates for hosts that cannot make images, such as clusters. */
export const templateImageCommands: Record<string, OfflineCommand> = {
  'push-template-image': {
    usage: '--template base|code-interpreter|code-interpreter-all',
    does: 'Builds the image of a built-in template on this machine and pushes it to PLATFORM_REGISTRY, for clusters',
    options: { template: text },
    async run(values) {
      const template = required(values, 'template');
      const recipeDir = interpreterRecipes[`builtin:${template}`];
      if (template !== 'base' && !recipeDir) {
        const names = Object.keys(interpreterRecipes).map((image) => image.replace('builtin:', ''));
        throw new OperatorError(
          `There is no template ${template} whose image is made; there are base, ${names.join(', ')}`,
        );
      }
      const settings = loadSomeSettings(registrySettings);
      const registry = PlatformRegistry.of(settings);
      if (!registry) throw new OperatorError('PLATFORM_REGISTRY is not set');
      if (process.getuid!() !== 0) throw new OperatorError('Building images needs root: run this as root');
      try {
        const options = { cacheDir: settings.PLATFORM_CACHE_DIR, onProgress: createProgressReporter() };
        const image = await (recipeDir
          ? ensureCodeInterpreterImage({ ...options, recipeDir })
          : ensureBaseImage(options));
        const pushed = await pushedImage(registry, template, image);
        return { template, image: pushed, setting: formatSetting(template, pushed) };
      } finally {
        registry.close();
      }
    },
  },
};

const formatSetting = (template: string, image: string) =>
  template === 'base' ? `PLATFORM_BASE_IMAGE=${image}` : `PLATFORM_KUBERNETES_TEMPLATE_IMAGES=${template}=${image}`;

/** @returns the reference of the image, by digest */
async function pushedImage(registry: PlatformRegistry, template: string, image: UnpackedImage): Promise<string> {
  const place = registry.formatPath({ project, repository: template });
  const tag = image.digest.replace(':', '-');
  const reference = (digest: string) => `${registry.address}/${place}@${digest}`;
  const there = await registry.find(place, tag);
  if (there) return reference(there.digest);
  const folder = await mkdtemp(path.join(os.tmpdir(), 'sandbox-platform-image-'));
  try {
    reportProgress('packing the image');
    const layer = await packLayer({ folder: image.rootfs, changes: false }, path.join(folder, 'layer'));
    reportProgress(`pushing ${Math.ceil(layer.size / 1024 ** 2)} MB`);
    const wanted = { base: null, config: toOciConfig(image.config), layer, to: { path: place, tag } };
    return reference((await pushImage(registry, wanted, new AbortController().signal)).digest);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function createProgressReporter(): NonNullable<BaseImageOptions['onProgress']> {
  let last = '';
  return ({ message }) => {
    if (message !== last) reportProgress(message);
    last = message;
  };
}
