import { z } from 'zod';
import { changeAccount } from '../../../../db/accounts/account-settings.ts';
import { checkDisplayName, maxDisplayName } from '../../../../domain/names.ts';
import { accountRoot, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { accountSchema, presentAccount } from '../../../schemas/account.ts';
import {
  bodyBytesWithDescription,
  description,
  nameOf,
  optional,
  optionalBody,
  optionalNonZero,
} from '../../../schemas/fields.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';

const body = optionalBody(
  z.object({ display_name: optionalNonZero(nameOf(maxDisplayName)), description: optional(description()) }),
);

/** `PUT /v1/user-management/account`. */
export function updateAccount(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/user-management/account',
    config: { bodyBytes: bodyBytesWithDescription, access: accountRoot('account') },
    schema: {
      operationId: 'updateAccount',
      tags: ['Account'],
      summary: 'Rename or describe the account',
      description:
        'Fields that are left out do not change. To change the e-mail, use `POST ' +
        '/v1/user-management/account/email-change-request`.',
      body,
      response: {
        200: envelope(accountSchema, 'The account'),
        ...failures(ofMutations, 'root_required', 'invalid_name'),
      },
    },
    handler: async (request) => {
      const { display_name: name, description } = request.body;
      const displayName = name === undefined ? undefined : checkDisplayName(name.trim());
      const { accountId } = callerOf(request);
      const account = await changeAccount(deps.orm.em.fork(), accountId, { displayName, description });
      return success(presentAccount(account), 'The account is changed');
    },
  });
}
