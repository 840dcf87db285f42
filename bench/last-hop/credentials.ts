import type { LastHopIdentity } from '../../domain/hosts/last-hop.ts';
import { LastHopAuthority } from '../../gateway/last-hop/authority.ts';
import type { Credential } from '../../gateway/last-hop/credential.ts';
import { HostPlaces } from '../../gateway/last-hop/host-places.ts';
import { computeProof, readJoinToken } from '../../gateway/last-hop/join-token.ts';
import { LastHops } from '../../gateway/last-hop/last-hops.ts';
import { checkIssued, makeKeyAndRequest } from '../../gateway/last-hop/request.ts';

/** The two ends of a tunnel without a database. Each process gets its certificate from the authority of a folder. */
export const benchHostId = 'host-b';

export const noRevocations = { isRevoked: () => false, onChange: () => undefined };

export async function createCredential(identity: LastHopIdentity, authorityFolder: string): Promise<Credential> {
  const authority = await LastHopAuthority.open(authorityFolder);
  const { key, request } = await makeKeyAndRequest();
  const token = readJoinToken(authority.joinToken(identity));
  const issued = await authority.issue({ ...identity, request, proof: computeProof(token.key, request) }, false);
  if ('refusal' in issued) throw new Error(issued.refusal);
  return { key, ...checkIssued(issued.certificate, key, token) };
}

/** The host. Its network contains every address of loopback. */
export const hostPlaces = (lastHopPort: number | null) =>
  new HostPlaces(async () => ({
    lastHopAddress: lastHopPort === null ? null : `127.0.0.1:${lastHopPort}`,
    sandboxNetwork: '127.0.0.0/8',
    isLost: false,
  }));

/** The tunnels of a gateway on another machine. */
export async function tunnelsThrough(authorityFolder: string, lastHopPort: number): Promise<LastHops> {
  const current = await createCredential({ role: 'gateway', name: 'gateway-a' }, authorityFolder);
  return new LastHops({
    credential: { current },
    places: hostPlaces(lastHopPort),
    revocations: noRevocations,
    localHostId: () => 'host-a',
  });
}
