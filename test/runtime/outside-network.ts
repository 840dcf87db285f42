import { onHost } from './local-host.ts';

/**
 * A machine that is outside from this one's view: a network namespace with a link to the host. Its addresses are from a
 * range for documentation, which is not a private network.
 */
export class OutsideNetwork {
  readonly namespace: string;
  /** The host's end of the link. */
  readonly near: string;
  /** The other machine's end. */
  readonly far: string;

  /** @param octets of 203.0.113.0/24: `octet` and the next one; each test file uses its own */
  constructor(octet: number) {
    this.namespace = `outside-${octet}-${process.pid}`;
    [this.near, this.far] = [`203.0.113.${octet}`, `203.0.113.${octet + 1}`];
    const link = `out${octet}x${process.pid}`.slice(0, 15);
    onHost('ip', 'netns', 'add', this.namespace);
    onHost('ip', 'link', 'add', link, 'type', 'veth', 'peer', 'name', 'up', 'netns', this.namespace);
    onHost('ip', 'address', 'add', this.near, 'peer', this.far, 'dev', link);
    onHost('ip', 'link', 'set', link, 'up');
    for (const words of [
      `address add ${this.far} peer ${this.near} dev up`,
      'link set dev lo up',
      'link set dev up up',
      `route add default via ${this.near}`,
    ]) {
      onHost('ip', '-n', this.namespace, ...words.split(' '));
    }
  }

  /** The words of a command that runs `words` on the other machine. */
  command(...words: string[]): [string, string[]] {
    return ['ip', ['netns', 'exec', this.namespace, ...words]];
  }

  /** Removes it together with the link. */
  remove(): void {
    onHost('ip', 'netns', 'delete', this.namespace);
  }
}
