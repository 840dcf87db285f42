import { z } from 'zod';
import { openRegions } from '../../../db/hosts/regions.ts';
import { anyone } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';

const regionSchema = z
  .object({
    id: z
      .string()
      .meta({ examples: ['eu'] })
      .describe('For `locality.region` of a new sandbox'),
    name: z.string(),
  })
  .meta({ id: 'PlatformRegion' });

/** `GET /v1/platform-regions`: public; regions that can take a sandbox now. */
export function listPlatformRegions(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/platform-regions',
    config: { access: anyone({ requestsPerMinute: 120 }) },
    schema: {
      operationId: 'listPlatformRegions',
      tags: ['Regions'],
      summary: 'List the regions that can take a sandbox now',
      description: 'Lists regions with a host that is up and has room. Use the ids in `locality.region` of a create.',
      response: {
        200: envelope(z.object({ platform_regions: z.array(regionSchema) }), 'The regions'),
        ...failures(),
      },
    },
    handler: async () => success({ platform_regions: await openRegions(deps.orm.em.fork()) }),
  });
}
