import { z } from 'zod';

export const oidcIssuerPath = z.object({
  issuer: z.string().describe('The `id` of an issuer in `PLATFORM_OIDC_ISSUERS`'),
});
