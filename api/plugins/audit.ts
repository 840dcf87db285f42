import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { type AuditedRequest, auditedRequest, insertAuditEvent } from '../../db/accounts/audit-events.ts';
import type { Orm } from '../../db/orm.ts';

const readingMethods = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * Records every successful request of a caller that may have changed something. Three kinds of requests record
 * themselves in their transactions (`recordAudit`): changes of settings and roles, which also record the old values,
 * and sign-ins and uses of mailed links, which have no caller. All others are recorded here before the reply is sent.
 */
export const audit = fp<{ orm: Orm }>(
  async (app, { orm }) => {
    app.decorateRequest('createdObject', null);
    const audited = new WeakMap<FastifyRequest, AuditedRequest>();

    // The hook runs after the body was read, because the events of the body would lose the async context.
    app.addHook('preHandler', (request, _reply, done) => {
      const about = toAuditedRequest(request);
      if (!about) return done();
      audited.set(request, about);
      auditedRequest.run(about, done);
    });

    app.addHook('onSend', async (request, reply) => {
      const about = audited.get(request);
      if (!about || about.isRecorded || !request.identity || !isNewSuccess(reply)) return;
      const { accountId } = about;
      try {
        await insertAuditEvent(orm.em.fork(), about, {
          accountId,
          objectId: findObjectId(request),
          before: null,
          after: null,
        });
      } catch (error) {
        // The change is committed, so the caller must get the reply.
        request.log.error({ err: error, action: about.action }, 'a change could not be recorded in the audit log');
      }
    });
  },
  { name: 'audit', dependencies: ['access', 'idempotency'] },
);

/**
 * Null: a known caller that only reads. A request without a caller is audited for every method, because a GET may be a
 * sign-in.
 */
function toAuditedRequest({ identity, scope, method, routeOptions, ip, id }: FastifyRequest): AuditedRequest | null {
  if (identity && readingMethods.has(method)) return null;
  const { operationId } = (routeOptions.schema ?? {}) as { operationId?: string };
  return {
    accountId: scope && scope.rows !== 'everything' ? scope.accountId : (identity?.accountId ?? null),
    userId: identity?.userId ?? null,
    keyId: identity?.keyId ?? null,
    sessionId: identity?.sessionId ?? null,
    address: ip,
    requestId: id,
    action: operationId ?? `${method} ${routeOptions.url}`,
    isRecorded: false,
  };
}

/** A repeated idempotent reply is not a new change. */
function isNewSuccess(reply: FastifyReply): boolean {
  return reply.statusCode < 300 && !reply.hasHeader('idempotent-replayed');
}

/** The created object, or the last object in the address. */
function findObjectId(request: FastifyRequest): string | null {
  if (request.createdObject) return request.createdObject;
  const named = Object.entries((request.params ?? {}) as Record<string, string>).filter(([name]) =>
    name.endsWith('_id'),
  );
  return named.at(-1)?.[1] ?? null;
}
