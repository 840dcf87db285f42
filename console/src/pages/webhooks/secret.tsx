import { useState } from 'react';
import type { OwnInput } from '../../components/body-inputs.tsx';
import { SecretDialog } from '../../components/secret-dialog.tsx';
import { Copyable } from '../../components/values.tsx';

/** A field for a secret that its receiver shares. The browser can make one, because the platform only takes it. */
export const SecretInput: OwnInput = ({ value, onChange, ...ids }) => {
  const [isMade, setMade] = useState(false);
  return (
    <>
      <input
        {...ids}
        type={isMade ? 'text' : 'password'}
        autoComplete="new-password"
        placeholder="whsec_…"
        maxLength={94}
        value={value}
        onChange={(event) => {
          setMade(false);
          onChange(event.target.value);
        }}
      />
      <div>
        <button
          type="button"
          onClick={() => {
            setMade(true);
            onChange(makeSecret());
          }}
        >
          Make a secret
        </button>
      </div>
    </>
  );
};

function makeSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  return `whsec_${btoa(String.fromCharCode(...bytes))}`;
}

/** Shows a secret for the last time. */
export function KeepSecret(props: { secret: string; onClose: () => void }) {
  return (
    <SecretDialog title="Keep the secret" secret="secret" onClose={props.onClose}>
      <p className="note">Give it to the program that receives the events. It cannot be shown again.</p>
      <Copyable text={props.secret} label="Secret" isSecret />
    </SecretDialog>
  );
}
