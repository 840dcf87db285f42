import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { identifyCredential } from '../../db/accounts/identities.ts';
import type { PaymentMethod } from '../../db/billing/payment-method.entity.ts';
import { findSetup } from '../../db/billing/payment-methods.ts';
import { AppError } from '../../domain/errors.ts';
import { html } from '../../domain/html.ts';
import { anyone } from '../access.ts';
import type { Api, ApiDependencies } from '../dependencies.ts';
import { sendError } from '../plugins/errors.ts';
import type { CardLink } from '../routes/billing/card-links.ts';
import { keepFinishedSetup } from '../routes/billing/card-setups.ts';
import { askProcessor, requireProcessor } from '../routes/billing/processor.ts';
import { success } from '../schemas/replies.ts';
import { sendPage } from './frame.ts';

export const addCardPath = '/account/add-card';
const scriptPath = `${addCardPath}/script.js`;
const script = readFileSync(new URL('./add-card.client.js', import.meta.url), 'utf8');
const access = anyone({ requestsPerMinute: 120 });

/**
 * The page that adds a card. Its script reads the token of the link from the part of the address after the `#`, and
 * sends it in each request. Requests are not authenticated by cookies, so another site cannot make a browser act here.
 */
export function serveAddCard(api: Api, deps: ApiDependencies): void {
  const { PLATFORM_STRIPE_SCRIPT_URL: processorScript } = deps.settings;
  const policy = cardPagePolicy(processorScript);

  api.get(addCardPath, { config: { access }, schema: { hide: true } }, (_request, reply) => {
    requireProcessor(deps);
    const content = html`<noscript><p class="problem">This page needs JavaScript.</p></noscript>
<form hidden>
<div id="card"></div>
<button>Add the card</button>
</form>
<p id="state" role="status">Loading …</p>
<p>The card is sent to the payment processor and stored there. This platform stores only its brand, its last four digits and its expiry date.</p>
<script src="${processorScript}"></script>
<script type="module" src="${scriptPath}"></script>`;
    return sendPage(reply, 200, { title: 'Add a card', content }, policy);
  });

  api.get(scriptPath, { config: { access }, schema: { hide: true } }, (_request, reply) =>
    reply
      .headers({ 'x-content-type-options': 'nosniff', 'cache-control': 'max-age=3600' })
      .type('text/javascript; charset=utf-8')
      .send(script),
  );

  // The scope is separate, so that its errors are JSON.
  api.register(async (scope) => {
    scope.setErrorHandler((error, request, reply) => sendError(error, request, reply));
    const schema = { hide: true, body: z.object({ token: z.string().max(2048) }) };
    scope.addHook('onRequest', async (_request, reply) => {
      reply.header('cache-control', 'no-store');
    });

    scope.post(`${addCardPath}/begin`, { config: { access }, schema }, async (request) => {
      const processor = requireProcessor(deps);
      const { token } = request.body as { token: string };
      const { setupIntentId } = await openLink(deps, token);
      const kept = await askProcessor(keepFinishedSetup({ orm: deps.orm, processor }, setupIntentId));
      if (kept) return success({ method: shown(kept) });
      const { clientSecret } = await askProcessor(processor.readSetup(setupIntentId));
      const { publishableKey } = processor;
      return success({ method: null, publishable_key: publishableKey, client_secret: clientSecret });
    });

    scope.post(`${addCardPath}/check`, { config: { access }, schema }, async (request) => {
      const processor = requireProcessor(deps);
      const { token } = request.body as { token: string };
      const { setupIntentId } = await openLink(deps, token);
      const kept = await askProcessor(keepFinishedSetup({ orm: deps.orm, processor }, setupIntentId));
      return success({ method: kept && shown(kept) });
    });
  });
}

/** Verifies the token of a link. @throws {AppError} `invalid_link`; `account_suspended` */
async function openLink({ cardLinks, orm }: ApiDependencies, token: string): Promise<CardLink> {
  const link = await cardLinks.open(token);
  const caller = link && (await identifyCredential(orm.em, link.credentialId));
  const begun = link && (await findSetup(orm.em, link.setupIntentId));
  if (!link || !caller?.isRootUser || begun?.accountId !== caller.accountId) {
    throw new AppError('invalid_link', 'The link is not valid, or has expired. Request another one');
  }
  if (caller.isSuspended) throw new AppError('account_suspended', 'The account is suspended');
  return link;
}

function shown({ brand, last4 }: PaymentMethod) {
  return { brand: brand ?? null, last4: last4 ?? null };
}

/**
 * Allows scripts, frames and requests of the payment processor in addition to the page's own.
 * https://docs.stripe.com/security/guide#content-security-policy
 */
function cardPagePolicy(scriptUrl: string): string {
  const { origin } = new URL(scriptUrl);
  const isStripe = origin === 'https://js.stripe.com';
  const scripts = isStripe ? `${origin} https://*.js.stripe.com` : origin;
  const frames = isStripe ? `${scripts} https://hooks.stripe.com` : origin;
  const requests = isStripe ? 'https://api.stripe.com' : origin;
  return [
    ...["default-src 'none'", "style-src 'self'", `script-src 'self' ${scripts}`, `frame-src ${frames}`],
    ...[`connect-src 'self' ${requests}`, "form-action 'none'", "base-uri 'none'", "frame-ancestors 'none'"],
  ].join('; ');
}
