import { fileURLToPath } from 'node:url';
import type { DataConverter } from '@temporalio/common';
import type { PlatformSecrets } from '../config/secrets.ts';
import { EncryptionCodec } from './payload-codec.ts';

/** The data converter that all clients and workers of the platform must use. */
export function createDataConverter(secrets: PlatformSecrets): DataConverter {
  return {
    payloadCodecs: [new EncryptionCodec(secrets)],
    failureConverterPath: fileURLToPath(new URL('./failure-converter.cjs', import.meta.url)),
  };
}
