import { Section } from '../../components/page.tsx';
import { Facts, Text } from '../../components/values.tsx';
import { visibleText } from '../../format/text.ts';
import { describeReason, exitCodeText, type Sandbox } from './sandbox-words.ts';

/** Why the sandbox has failed. The platform keeps it when the disk is removed. */
export function Failure({ sandbox: { failure, reason } }: { sandbox: Sandbox }) {
  if (!failure) return null;
  const { message, exit_code, out_of_memory, command_output } = failure;
  return (
    <Section title="Failure">
      <Facts
        rows={[
          ['Reason', describeReason(reason)],
          ['Message', <Text key="message">{message}</Text>],
          exit_code !== null && ['Exit code', exitCodeText(exit_code)],
          ['Memory', out_of_memory ? 'It ran out' : 'It did not run out'],
        ]}
      />
      <h3>Last output of the template's command</h3>
      {command_output === '' ? (
        <p className="soft">It wrote nothing.</p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it
        <pre className="terminal-output" tabIndex={0}>
          {visibleText(command_output)}
        </pre>
      )}
    </Section>
  );
}
