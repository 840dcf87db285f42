import { useState } from 'react';
import { type ApiError, call, type DataOf } from '../../api/client.ts';
import { Section } from '../../components/page.tsx';
import { Problem } from '../../components/problem.tsx';
import { At, Copyable, Facts } from '../../components/values.tsx';
import { visibleText } from '../../format/text.ts';
import type { Sandbox } from './sandbox-words.ts';

/** For peers of the sandbox's WEBRTC ports. Nothing if it has none, or the platform no TURN server. */
export function TurnCredential({ sandbox: { sandbox_id, webrtc_turn: turn, status } }: { sandbox: Sandbox }) {
  const [credential, setCredential] = useState<DataOf<'getWebrtcTurnCredential'> | null>(null);
  const [failure, setFailure] = useState<ApiError | null>(null);
  if (!turn) return null;
  const get = async () => {
    setFailure(null);
    try {
      setCredential(await call('getWebrtcTurnCredential', { path: { sandbox_id } }));
    } catch (error) {
      setFailure(error as ApiError);
    }
  };
  return (
    <Section title="WebRTC">
      <p>
        Media of its WEBRTC ports ({turn.ports.join(', ')}) goes through the TURN server{' '}
        <code>{visibleText(`${turn.turn_public_host}:${turn.turn_public_port}`)}</code>.
      </p>
      {failure && <Problem error={failure} />}
      {credential === null ? (
        <p>
          <button type="button" disabled={status !== 'running'} onClick={get}>
            Get a credential for a peer
          </button>
        </p>
      ) : (
        <Facts
          rows={[
            ['Addresses', visibleText(credential.ice_servers.flatMap(({ urls }) => urls).join(', '))],
            ['User name', <Copyable key="user" text={credential.username} label="User name" />],
            ['Credential', <Copyable key="secret" text={credential.credential} label="Credential" isSecret />],
            ['Valid until', <At key="until" at={validUntil(credential.username)} />],
          ]}
        />
      )}
    </Section>
  );
}

/** The user name begins with the Unix time at which it expires. */
function validUntil(username: string): string | null {
  const seconds = Number.parseInt(username, 10);
  return Number.isNaN(seconds) ? null : new Date(seconds * 1000).toISOString();
}
