import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { type AccountPage, accountPages, accountPageUrl } from '../../platform/config/public-urls.ts';
import { anyone } from '../access.ts';
import type { Api, ApiDependencies } from '../dependencies.ts';
import { reportFailure } from '../plugins/errors.ts';
import { optionalQuery } from '../schemas/fields.ts';
import { serveAddCard } from './add-card.ts';
import { sendProblemPage, style, stylePath } from './frame.ts';

/**
 * Pages for people outside of the console: the one that adds a card. The other addresses under `/account` are those of
 * links in earlier mails; they lead to the console.
 */
export async function pagesForPeople(app: FastifyInstance, deps: ApiDependencies): Promise<void> {
  app.setErrorHandler((error, request, reply) => sendProblemPage(reply, reportFailure(error, request, reply)));
  app.get(stylePath, { config: { access: anyone({ requestsPerMinute: 120 }) }, schema: { hide: true } }, (_, reply) =>
    reply.type('text/css; charset=utf-8').header('cache-control', 'max-age=3600').send(style),
  );
  serveAddCard(app as unknown as Api, deps);
  for (const page of accountPages) redirectToConsole(app as unknown as Api, deps, page);
}

/** Keeps the token of a link, and nothing else that the address may contain. */
function redirectToConsole(api: Api, { settings }: ApiDependencies, page: AccountPage): void {
  api.route({
    method: 'GET',
    url: `/account/${page}`,
    config: { access: anyone({ requestsPerMinute: 60 }) },
    schema: { hide: true, querystring: z.object({ token: optionalQuery(z.string().max(4096)) }) },
    handler: async ({ query: { token } }, reply) => {
      const url = accountPageUrl(settings, page, token === undefined ? {} : { token });
      return reply.header('referrer-policy', 'no-referrer').redirect(url);
    },
  });
}
