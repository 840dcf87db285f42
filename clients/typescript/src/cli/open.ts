import { type CliCommand, getSandbox, print, printJson } from './command.ts';

export const open: CliCommand = {
  name: 'open',
  maxWords: 1,
  usage: 'SANDBOX [--files]',
  summary: "print the link to a sandbox's terminal for a browser, or to its files; the link contains the access token",
  options: { files: { type: 'boolean' } },
  async run(invocation) {
    const sandbox = await getSandbox(invocation);
    const url = sandbox.webUrl(invocation.options.files === true ? 'files' : 'terminal');
    if (invocation.json) printJson({ url });
    else print(url);
    return 0;
  },
};
