import { z } from 'zod';
import { checkTemplateName } from '../../../domain/templates/name.ts';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { optionalBody, optionalNonZero } from '../../schemas/fields.ts';
import { envelope, failures, ofMutations, success } from '../../schemas/replies.ts';
import { changeSharing, sharingSchema } from './change-sharing.ts';
import { templateName } from './template-body.ts';
import { templatePath } from './template-path.ts';

const body = optionalBody(
  z.object({ new_name: optionalNonZero(templateName()).describe('A new name for the shared template') }),
);

/** `POST /v1/templates/{template_id}/share`. */
export function shareTemplate(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/templates/:template_id/share',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'shareTemplate',
      tags: ['Templates'],
      summary: 'Share a template with all users of the account',
      description:
        "Then all users of the account can make sandboxes from it. Its image moves to the account's project in the " +
        'registry; use `new_name` if the name is already taken there.',
      params: templatePath,
      body,
      response: {
        200: envelope(sharingSchema, 'The template is shared'),
        ...failures(
          ...([
            ofMutations,
            'not_found',
            'invalid_name',
            'template_name_taken',
            'import_in_progress',
            'build_in_progress',
          ] as const),
          ...(['template_of_another_user', 'template_not_shareable', 'registry_unavailable'] as const),
        ),
      },
    },
    handler: async (request) => {
      const { new_name: newName } = request.body;
      const name = newName === undefined ? undefined : checkTemplateName(newName, 'new_name');
      const message = 'The template is shared with the users of the account';
      const change = { visibility: 'account_shared' as const, name, message };
      return success(await changeSharing(deps, request, request.params.template_id, change));
    },
  });
}
