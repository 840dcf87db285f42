import fp from 'fastify-plugin';
import { AppError, type ErrorDetail, notFound } from '../../domain/errors.ts';

/** JSON and nothing else; a bodyless request that says it carries JSON is fine. */
export const bodies = fp(
  async (app) => {
    const parseJson = app.getDefaultJsonParser('error', 'error');
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
      const text = body as string;
      if (text.trim() === '') return done(null, undefined);
      parseJson(request, text, (error, value) => {
        if (error) done(new AppError('invalid_json', 'The body is not valid JSON', { cause: error }), undefined);
        else done(null, value);
      });
    });
    app.addHook('preValidation', async (request) => {
      if (!unstorable(request.params, '').next().done) throw notFound('Object');
      const details = [...unstorable(request.body, ''), ...unstorable(request.query, '')];
      if (details.length > 0)
        throw new AppError('validation_failed', 'The request has text that is not Unicode', { details });
    });
  },
  { name: 'bodies' },
);

/** Text that Postgres cannot hold: NUL characters and halves of surrogate pairs. */
function* unstorable(value: unknown, path: string): Generator<ErrorDetail> {
  if (typeof value === 'string') {
    if (value.includes('\0') || !value.isWellFormed()) {
      yield { path, reason: 'has a NUL character or half of a surrogate pair' };
    }
  } else if (value !== null && typeof value === 'object') {
    for (const [key, item] of Object.entries(value)) {
      const below = path === '' ? key : `${path}.${key}`;
      yield* unstorable(key, path);
      yield* unstorable(item, below);
    }
  }
}
