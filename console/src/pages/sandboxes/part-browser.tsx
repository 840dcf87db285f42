import { Empty } from '../../components/loaded.tsx';
import { Section } from '../../components/page.tsx';
import { pageUrl, stateUrl } from './sandbox-links.ts';
import { isOver, type Sandbox } from './sandbox-words.ts';

/** The pages that the gateway serves on the sandbox's own domain. */
export function BrowserPages({ sandbox }: { sandbox: Sandbox }) {
  const { status, web_terminal_available: hasTerminal, web_files_available: hasFiles } = sandbox;
  if (isOver(status)) return <Empty>The sandbox has ended, and with it its terminal and its files.</Empty>;
  return (
    <>
      <div className="columns">
        <Section title="Terminal">
          <p>A login shell in the sandbox. Each tab has its own, and it survives a lost connection and a pause.</p>
          <OpenLink isAvailable={hasTerminal} href={pageUrl(sandbox, 'terminal')} label="Open the terminal" />
        </Section>
        <Section title="Files">
          <p>See, edit, upload and download the files of the sandbox.</p>
          <OpenLink isAvailable={hasFiles} href={pageUrl(sandbox, 'files')} label="Open the files" />
        </Section>
      </div>
      <p className="soft">
        They open in a new tab on the sandbox's own domain, <a href={stateUrl(sandbox)}>{sandbox.sandbox_domain}</a>
        {sandbox.secure
          ? ', where the tab is signed in for 12 hours. Who has such a link has full access to the sandbox: do not share it.'
          : '. This sandbox needs no access token, so everybody who knows the address can open them.'}
      </p>
    </>
  );
}

function OpenLink(props: { isAvailable: boolean; href: string; label: string }) {
  if (!props.isAvailable) return <p className="note">Not available now: the sandbox must be running.</p>;
  return (
    <p>
      <a className="button primary" href={props.href} target="_blank" rel="noreferrer">
        {props.label}
        <span className="hidden"> (in a new tab)</span>
      </a>
    </p>
  );
}
