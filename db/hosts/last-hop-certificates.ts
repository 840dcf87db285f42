import type { EntityManager } from '@mikro-orm/postgresql';
import type { LastHopIdentity, LastHopRole } from '../../domain/hosts/last-hop.ts';
import { query } from '../core/query.ts';

/** The channel of NOTIFY on which a request for a certificate is announced. */
export const certificateRequestChannel = 'last_hop_certificate_requested';

/** A process's request for a certificate. */
export interface CertificateRequest extends LastHopIdentity {
  /** PKCS #10, DER, as base64. */
  request: string;
  /** Proves that the process has the join token of this identity: see `computeProof`. */
  proof: string;
}

/** @returns the id of the request */
export async function requestCertificate(em: EntityManager, wanted: CertificateRequest): Promise<string> {
  const [row] = await query<{ certificate_id: string; pg_notify: unknown }>(
    em.fork(),
    `with added as (
       insert into last_hop_certificates (role, name, request, proof) values (?, ?, ?, ?) returning certificate_id)
     select certificate_id, pg_notify('${certificateRequestChannel}', '') from added`,
    [wanted.role, wanted.name, wanted.request, wanted.proof],
  );
  return row!.certificate_id;
}

/** The answer to a request: the chain as PEM, or the reason for a refusal. Null: not answered yet. */
export async function findIssued(
  em: EntityManager,
  certificateId: string,
): Promise<{ certificate: string } | { refusal: string } | null> {
  const [row] = await query<{ certificate: string | null; refusal: string | null }>(
    em.fork(),
    'select certificate, refusal from last_hop_certificates where certificate_id = ?',
    [certificateId],
  );
  if (row?.certificate) return { certificate: row.certificate };
  return row?.refusal ? { refusal: row.refusal } : null;
}

/** The answer to a request. */
export type Issued = { certificate: string; expiresAt: Date } | { refusal: string };

/**
 * Answers the oldest open requests and deletes expired rows. Several processes may issue certificates at the same time.
 * Each request is answered once.
 * @param issue answers one request; `isRevoked` is true for a revoked identity
 * @returns the number of answered requests
 */
export async function answerRequests(
  em: EntityManager,
  issue: (request: CertificateRequest, isRevoked: boolean) => Promise<Issued>,
): Promise<number> {
  return em.fork().transactional(async (tx) => {
    const rows = await query<CertificateRequest & { certificate_id: string; is_revoked: boolean }>(
      tx,
      `select c.certificate_id, c.role, c.name, c.request, c.proof,
              exists (select from last_hop_revocations r where r.role = c.role and r.name = c.name) as is_revoked
         from last_hop_certificates c where c.certificate is null and c.refusal is null
        order by c.requested_at limit 32 for update of c skip locked`,
    );
    for (const { certificate_id: certificateId, is_revoked: isRevoked, ...request } of rows) {
      const answer = await issue(request, isRevoked);
      const [certificate, expiresAt, refusal] =
        'refusal' in answer ? [null, null, answer.refusal] : [answer.certificate, answer.expiresAt.toISOString(), null];
      await query(
        tx,
        'update last_hop_certificates set certificate = ?, expires_at = ?::timestamptz, refusal = ? where certificate_id = ?',
        [certificate, expiresAt, refusal, certificateId],
      );
    }
    await query(
      tx,
      `delete from last_hop_certificates where coalesce(expires_at, requested_at) < now() - interval '1 day'
          and requested_at < now() - interval '1 day'`,
    );
    return rows.length;
  });
}

/** From now on no certificate of this identity is accepted or issued. Only the owner of the tables can undo this. */
export async function revokeLastHop(em: EntityManager, { role, name }: LastHopIdentity): Promise<void> {
  await query(em.fork(), 'insert into last_hop_revocations (role, name) values (?, ?) on conflict do nothing', [
    role,
    name,
  ]);
}

export async function revokedLastHops(em: EntityManager): Promise<LastHopIdentity[]> {
  return query<{ role: LastHopRole; name: string }>(em.fork(), 'select role, name from last_hop_revocations');
}
