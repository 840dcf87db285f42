import { parseImageReference } from '../../../domain/templates/image-reference.ts';
import { ImageImports } from '../../../integrations/registry/image-import.ts';
import { PlatformRegistry } from '../../../integrations/registry/platform-registry.ts';
import { loadSettings } from '../../../platform/config/settings.ts';

/** Copies an image until it is killed: `copying-process.ts <registry> <reference> <path>`. */
const [address, reference, path] = process.argv.slice(2) as [string, string, string];
const settings = loadSettings({
  PLATFORM_SECRET_KEY: Buffer.alloc(32, 7).toString('base64'),
  DATABASE_URL: 'postgres://127.0.0.1:5432/x',
  PLATFORM_REGISTRY: address,
  PLATFORM_REGISTRY_INSECURE_HTTP: 'true',
  PLATFORM_OUTBOUND_RANGES: '127.0.0.0/8',
});
await new ImageImports(settings, PlatformRegistry.of(settings)!, async () => []).copy({
  reference: parseImageReference(reference)!,
  credentials: null,
  to: { path, tag: 'latest' },
  onFound: async () => {},
  onProgress: () => {},
  onLine: () => {},
  signal: new AbortController().signal,
});
