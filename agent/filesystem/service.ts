import type { AgentEnvironment } from '../boot/environment.ts';
import { Filesystem } from '../proto/gen/sandboxagent_pb.js';
import { toConnectError } from '../rpc/errors.ts';
import { type AgentService, agentService } from '../rpc/service.ts';
import { entryAt } from './entry.ts';
import { resolvePath } from './path.ts';

/** `sandboxagent.Filesystem` (section 4.12). */
export function filesystemServices(environment: AgentEnvironment): AgentService[] {
  const resolve = (given: string, field?: string) => resolvePath(given, environment.home(), field);
  return [
    agentService(Filesystem, {
      stat({ path }) {
        const absolute = resolve(path);
        try {
          return { entry: entryAt(absolute) };
        } catch (error) {
          throw toConnectError(error, absolute);
        }
      },
    }),
  ];
}
