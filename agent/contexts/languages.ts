import { Code } from '@connectrpc/connect';
import { ConnectError } from '../rpc/connect-error.ts';

/** Languages with their own kernel. */
export type KernelLanguage = 'python' | 'javascript' | 'typescript' | 'bash' | 'r' | 'java';

const kernels: Record<string, KernelLanguage> = {
  python: 'python',
  python3: 'python',
  javascript: 'javascript',
  node: 'javascript',
  nodejs: 'javascript',
  typescript: 'typescript',
  deno: 'typescript',
  bash: 'bash',
  r: 'r',
  java: 'java',
};

/**
 * The kernel of a language by a client's name for it, in any case.
 * @throws {ConnectError} `invalid_argument` for an unknown name
 */
export function kernelLanguage(name: string): KernelLanguage {
  const known = Object.hasOwn(kernels, name.toLowerCase()) ? kernels[name.toLowerCase()] : undefined;
  if (known) return known;
  const names = Object.keys(kernels).join(', ');
  throw new ConnectError(`unknown language '${name}': expected one of ${names}`, Code.InvalidArgument);
}
