import { useSession } from '../../api/session.ts';
import { Section } from '../../components/page.tsx';
import { useSignOut } from '../../components/sign-out.ts';
import { Ago, At, Facts } from '../../components/values.tsx';

/** The session of this browser. */
export function SessionSection() {
  const { expires_at: expiresAt } = useSession();
  const signOut = useSignOut();
  return (
    <Section title="This session">
      <Facts
        rows={[
          ['Ends', <Ago key="ends" at={expiresAt} />],
          ['At', <At key="at" at={expiresAt} />],
        ]}
      />
      <p className="soft">Then you sign in again, and go on with the page where you were.</p>
      <div className="page-actions">
        <button type="button" onClick={signOut}>
          Sign out
        </button>
      </div>
    </Section>
  );
}
