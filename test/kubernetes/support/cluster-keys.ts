import { KubeConfig } from '@kubernetes/client-node';
import { type KeyPair, type Subject, TestCa } from '../../support/test-ca.ts';
import type { ClusterPlace } from './cluster-place.ts';

/** The certificates of a cluster, and the kubeconfigs of its programs and users. */
export class ClusterKeys {
  readonly ca: TestCa;
  /** The URL of the API server: `https://<address>:<port>`. */
  readonly #server: string;

  private constructor(ca: TestCa, server: string) {
    this.ca = ca;
    this.#server = server;
  }

  static async create(server: string): Promise<ClusterKeys> {
    return new ClusterKeys(await TestCa.create(), server);
  }

  /** A configuration for a user, who has only the roles that are bound to the user or to the group. */
  async createConfig(subject: Subject): Promise<KubeConfig> {
    const config = new KubeConfig();
    config.loadFromString(await this.#formatConfig(subject));
    return config;
  }

  /** Writes a kubeconfig. @returns its path */
  async userFile(place: ClusterPlace, name: string, subject: Subject): Promise<string> {
    return place.write(`${name}.kubeconfig`, await this.#formatConfig(subject));
  }

  /** Writes a certificate and its key. @returns their paths */
  async keyPair(place: ClusterPlace, name: string, subject: Subject): Promise<KeyPair> {
    const { certificate, key } = await this.ca.issue(subject);
    return {
      certificate: place.write(`pki/${name}.crt`, certificate),
      key: place.write(`pki/${name}.key`, key),
    };
  }

  /** Writes the certificate of the authority. @returns its path */
  caFile(place: ClusterPlace): string {
    return place.write('pki/ca.crt', this.ca.pair.certificate);
  }

  async #formatConfig(subject: Subject): Promise<string> {
    const { certificate, key } = await this.ca.issue(subject);
    const base64 = (pem: string) => Buffer.from(pem).toString('base64');
    const cluster = { server: this.#server, 'certificate-authority-data': base64(this.ca.pair.certificate) };
    const user = { 'client-certificate-data': base64(certificate), 'client-key-data': base64(key) };
    return JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'test', cluster }],
      users: [{ name: 'user', user }],
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'user' } }],
      'current-context': 'test',
    });
  }
}
