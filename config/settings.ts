import os from 'node:os';
import path from 'node:path';
import ipaddr from 'ipaddr.js';
import { z } from 'zod';
import { oidcIssuers } from './oidc-issuers.ts';

/**
 * Every setting of every process, in one place and checked before anything starts. A process run alone takes all of
 * them from its environment; `npm start` fills in what concerns the embedded parts and hands the rest on.
 */

/** An empty variable is the same as none: compose files and unit files leave them empty. */
const emptyIsUnset = (value: unknown) => (value === '' ? undefined : value);
const text = () => z.preprocess(emptyIsUnset, z.string().optional());
const textOr = (fallback: string) => z.preprocess(emptyIsUnset, z.string().default(fallback));
const port = (fallback: number) =>
  z.preprocess(emptyIsUnset, z.coerce.number().int().min(0).max(65535).default(fallback));
const positive = (fallback: number) => z.preprocess(emptyIsUnset, z.coerce.number().positive().default(fallback));
const positiveOrUnset = () => z.preprocess(emptyIsUnset, z.coerce.number().positive().optional());
const whole = (fallback: number) => z.preprocess(emptyIsUnset, z.coerce.number().int().min(0).default(fallback));
const flag = (fallback: boolean) =>
  z.preprocess(
    emptyIsUnset,
    z
      .enum(['true', 'false', '1', '0'])
      .transform((value) => value === 'true' || value === '1')
      .default(fallback),
  );

/** `name=item,item;name=…` */
const listsByName = (isItem: (item: string) => boolean, message: string) =>
  z.preprocess(
    emptyIsUnset,
    z
      .string()
      .default('')
      .transform((lists) =>
        lists
          .split(';')
          .filter((list) => list.trim() !== '')
          .map((list) => list.split('=').map((part) => part.trim())),
      )
      .refine(
        (lists) => lists.every((parts) => parts.length === 2 && parts[0] !== '' && words(parts[1]!).every(isItem)),
        message,
      )
      .transform(
        (lists): Record<string, string[]> => Object.fromEntries(lists.map(([name, items]) => [name!, words(items!)])),
      ),
  );
const words = (list: string) => list.split(',').map((word) => word.trim());
const isNetwork = (network: string) => ipaddr.isValidCIDR(network);

/** Comma-separated IPv4 networks, as CIDR. */
const networks = () =>
  z.preprocess(
    emptyIsUnset,
    z
      .string()
      .default('')
      .transform((list) => (list === '' ? [] : words(list)))
      .pipe(z.array(z.cidrv4())),
  );
/** More than 0, at most 1. */
const share = (fallback: number) => z.preprocess(emptyIsUnset, z.coerce.number().positive().max(1).default(fallback));
/** A name as Kubernetes has them. */
const isLabel = (name: string | undefined) => /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name ?? '');
const interpreterTemplates = ['code-interpreter', 'code-interpreter-all'];

/** `20000-20127`, or `none`. */
const portRange = z
  .string()
  .regex(/^(none|\d{1,5}-\d{1,5})$/, 'must be first-last, or none')
  .transform((text) => {
    if (text === 'none') return null;
    const [first, last] = text.split('-').map(Number) as [number, number];
    return { first, last };
  })
  .refine((range) => range === null || (range.first >= 1 && range.last <= 65535 && range.first <= range.last), {
    message: 'must be a range within 1-65535',
  });

/** A JSON object with texts, such as `{"name": "value"}`. */
const textsByName = () =>
  z.preprocess(
    emptyIsUnset,
    z
      .string()
      .default('{}')
      .transform((json, context): unknown => {
        try {
          return JSON.parse(json);
        } catch {
          context.addIssue({ code: 'custom', message: 'must be JSON' });
          return z.NEVER;
        }
      })
      .pipe(z.record(z.string(), z.string())),
  );

const settingsSchema = z.object({
  /** Where the embedded parts, the CA, sandboxes' disks and `platform.env` live. */
  PLATFORM_DATA_DIR: textOr('.data').transform((dir) => path.resolve(dir)),
  /** What can be made again: the built Temporal, unpacked images. Shared by every copy on the machine. */
  PLATFORM_CACHE_DIR: textOr(
    path.join(process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache'), 'sandbox-platform'),
  ).transform((dir) => path.resolve(dir)),

  /** Base64 of 32 bytes; every other secret of the platform is derived from it. `npm start` makes one. */
  PLATFORM_SECRET_KEY: z.string().refine((key) => Buffer.from(key, 'base64').length >= 32, {
    message: 'must be base64 of at least 32 bytes, for example from: openssl rand -base64 32',
  }),
  /** `kid:base64,…`, newest first, for workflow payloads. Empty: one key derived from PLATFORM_SECRET_KEY. */
  PLATFORM_CODEC_KEYS: text(),

  /** Postgres, as a `postgres://` URL: the database of the platform, and the role that its processes work as. */
  DATABASE_URL: z.string(),
  /**
   * The same database as the owner of its tables, for migrations alone: no process keeps it. Then the role of
   * DATABASE_URL is made where it is missing, and may only add audit events and read them. Empty: one role for both.
   */
  DATABASE_OWNER_URL: text(),
  /** Connections one process may hold. */
  DATABASE_POOL_SIZE: positive(10),

  TEMPORAL_ADDRESS: textOr('127.0.0.1:7233'),
  TEMPORAL_NAMESPACE: textOr('default'),
  /** Only shown to people. Empty: no Web UI is known. */
  TEMPORAL_UI_URL: text(),
  /**
   * The worker deployment at Temporal that control workers belong to: they have versions then, and an upgrade starts new
   * ones beside the old (docs/production.md). Empty: they have none, and all of them are replaced at once.
   */
  PLATFORM_WORKER_DEPLOYMENT: text().refine(
    (name) => name === undefined || /^[\w-]{1,100}$/.test(name),
    'must be letters, digits, - and _',
  ),
  /** `1` turns on TLS to Temporal, and so does each of the following. */
  TEMPORAL_TLS: flag(false),
  /** PEM file of the CA of Temporal's certificate. Empty: the system's CAs. */
  TEMPORAL_TLS_CA_FILE: text(),
  /** PEM files of the certificate that Temporal knows the platform by. Empty: none. */
  TEMPORAL_TLS_CERT_FILE: text(),
  TEMPORAL_TLS_KEY_FILE: text(),
  /** The name in Temporal's certificate. Empty: that of TEMPORAL_ADDRESS. */
  TEMPORAL_TLS_SERVER_NAME: text(),
  /** An API key of Temporal Cloud. Empty: none. */
  TEMPORAL_API_KEY: text(),

  PLATFORM_API_HOST: textOr('127.0.0.1'),
  PLATFORM_API_PORT: port(7080),
  /** The API's address as clients see it. Empty: made from host and port. */
  PLATFORM_URL: text(),
  PLATFORM_GATEWAY_HOST: textOr('127.0.0.1'),
  PLATFORM_GATEWAY_PORT: port(7081),
  /** Processes that serve there: one that ends takes only its own connections with it. */
  PLATFORM_GATEWAY_PROCESSES: z.preprocess(emptyIsUnset, z.coerce.number().int().min(1).max(64).default(2)),
  /** Sandboxes are `<sandbox_id>.<base domain>[:port]`. */
  PLATFORM_BASE_DOMAIN: textOr('sandbox.localhost'),
  /** The port clients see in `sandbox_domain`. Empty: the gateway's own; 443 and 80 are left out of the domain. */
  PLATFORM_GATEWAY_PUBLIC_PORT: z.preprocess(emptyIsUnset, z.coerce.number().int().optional()),
  /** PEM files of the gateway's certificate. Empty: a certificate of a local CA made in the data folder. */
  PLATFORM_TLS_CERT_FILE: text(),
  PLATFORM_TLS_KEY_FILE: text(),

  /** First start only: the root admin's e-mail and plan. */
  PLATFORM_ROOT_EMAIL: textOr('root@platform.localhost'),
  PLATFORM_ROOT_PLAN: textOr('enterprise'),
  /** A JSON file in the form of `db/seeds/plans.json`. Empty: that file. */
  PLATFORM_PLANS_FILE: text(),

  /** How many days events and notifications are kept. */
  PLATFORM_EVENTS_KEPT_DAYS: positive(90),
  PLATFORM_NOTIFICATIONS_KEPT_DAYS: positive(90),
  /** Whole months after their end for which single usage events are kept. Their sums stay, and so do events that are on no invoice yet. */
  PLATFORM_USAGE_EVENTS_KEPT_MONTHS: z.preprocess(emptyIsUnset, z.coerce.number().int().min(3).max(1200).default(24)),
  /** How many days deliveries of webhooks are kept; they go a week at a time. */
  PLATFORM_WEBHOOK_DELIVERIES_KEPT_DAYS: z.preprocess(emptyIsUnset, z.coerce.number().min(2).default(30)),
  /** How many days the row of a sandbox can be read, or a deleted one is remembered, after its end. */
  PLATFORM_ENDED_SANDBOXES_KEPT_DAYS: positive(365),
  /** Of events, of notifications, and of ended sandboxes of one account, the newest that are kept; of replies, by caller. */
  PLATFORM_ROWS_KEPT_PER_ACCOUNT: positive(250_000),
  /**
   * What becomes of running sandboxes when a user's quota of the month is used up: `refuse` leaves them until their timeout,
   * `pause` pauses them within an hour. Neither lets the user create or resume others.
   */
  PLATFORM_USED_UP_QUOTA: z.preprocess(emptyIsUnset, z.enum(['refuse', 'pause']).default('refuse')),
  /** The same where the hard limit of an account's budget is used up: `pause` pauses the account's sandboxes within five minutes. */
  PLATFORM_USED_UP_BUDGET: z.preprocess(emptyIsUnset, z.enum(['refuse', 'pause']).default('refuse')),
  /**
   * `smtp://user:password@host:port`, or `smtps://…`; parameters as `?requireTLS=true`. Secret. Empty: mails are kept as
   * files in the data folder.
   */
  SMTP_URL: z.preprocess(emptyIsUnset, z.url({ protocol: /^smtps?$/ }).optional()),
  /** The sender of mails: an address, or `Name <address>`. */
  PLATFORM_MAIL_FROM: textOr('Sandbox platform <no-reply@platform.localhost>').refine(
    (sender) => /^([^<>\r\n]+<[^<>@\s]+@[^<>@\s]+>|[^<>@\s]+@[^<>@\s]+)$/.test(sender),
    'must be an address, or Name <address>',
  ),
  /**
   * The operator's own pages, which links in mails lead to instead of `/account` of the API: they get the paths
   * `sign-in`, `reset-password` and `forgot-password`. Empty: the API serves small pages itself.
   */
  PLATFORM_CONSOLE_URL: z.preprocess(emptyIsUnset, z.url({ protocol: /^https?$/ }).optional()),
  /**
   * Identity providers (OpenID Connect) that users of accounts sign in through: a JSON list of `id`, `issuer`,
   * `client_id`, `client_secret_file`, `label`, `account_id`, `domains`, `create_users`; see `config/oidc-issuers.ts`.
   * Empty: users sign in with passwords only.
   */
  PLATFORM_OIDC_ISSUERS: z.preprocess(emptyIsUnset, oidcIssuers),

  /** Requests a minute for each API key, and for each address where there is no key. 0 turns the limit off. */
  PLATFORM_RATE_LIMIT_PER_KEY: whole(6000),
  PLATFORM_RATE_LIMIT_PER_ADDRESS: whole(600),
  /** How long a command of `POST …/exec` may run; never past its sandbox's own timeout. */
  PLATFORM_EXEC_DEADLINE_SECONDS: positive(3600),
  /** Exec streams that may be open at once in one process of the API: of one user, and of one sandbox. */
  PLATFORM_EXEC_STREAMS_PER_CALLER: positive(64),
  PLATFORM_EXEC_STREAMS_PER_SANDBOX: positive(16),
  /** Connections that one address (or IPv6 /64) may have open to the API. Not counted with PLATFORM_TRUST_PROXY. */
  PLATFORM_API_MAX_CONNECTIONS_PER_CLIENT: positive(500),
  /** Connections that clients may have open to the gateway: altogether, and from one address (or IPv6 /64). */
  PLATFORM_GATEWAY_MAX_CONNECTIONS: positive(20_000),
  PLATFORM_GATEWAY_MAX_CONNECTIONS_PER_CLIENT: positive(2000),
  /** Requests under way there, WebSockets included: from one address, and to one sandbox. */
  PLATFORM_GATEWAY_MAX_REQUESTS_PER_CLIENT: positive(1000),
  PLATFORM_GATEWAY_MAX_REQUESTS_PER_SANDBOX: positive(2000),
  /** Trust `X-Forwarded-For` of a proxy in front. */
  PLATFORM_TRUST_PROXY: flag(false),

  /**
   * Where each process serves its metrics for Prometheus, at `/metrics` with the token of `ops/operator/metrics-token.ts`.
   * A port of 0: not at all. `npm start` chooses ports.
   */
  PLATFORM_METRICS_HOST: textOr('127.0.0.1'),
  PLATFORM_API_METRICS_PORT: port(0),
  PLATFORM_GATEWAY_METRICS_PORT: port(0),
  PLATFORM_WORKER_METRICS_PORT: port(0),
  PLATFORM_HOST_METRICS_PORT: port(0),

  /** This machine's name as a host. Empty: one made and kept in the data folder. */
  PLATFORM_HOST_ID: text(),
  PLATFORM_REGION: textOr('local'),
  PLATFORM_REGION_NAME: textOr('Local'),
  /**
   * For `auto_detect`: the header in which a proxy in front names the caller's region, and the networks of regions as
   * `eu=192.0.2.0/24,2001:db8::/32;us=198.51.100.0/24`. If neither names one, it is this process's own region.
   */
  PLATFORM_REGION_HEADER: text(),
  PLATFORM_REGION_NETWORKS: listsByName(isNetwork, 'must be region=network,network;region=…'),
  /** The other regions, nearest first, as `eu=uk,us;us=eu`. Those that are not named come last. */
  PLATFORM_REGIONS_NEAREST: listsByName(() => true, 'must be region=region,region;region=…'),
  /** MB of memory that sandboxes leave free here. Empty: a tenth of the machine's, and at least 512. */
  PLATFORM_HOST_MEMORY_RESERVE_MB: positiveOrUnset(),
  /**
   * What sandboxes here may be promised together, as a multiple of what the machine has, however little of it they use.
   * Empty: not limited; a host takes sandboxes for as long as it really has room.
   */
  PLATFORM_HOST_CPU_OVERCOMMIT: positiveOrUnset(),
  PLATFORM_HOST_MEMORY_OVERCOMMIT: positiveOrUnset(),
  PLATFORM_HOST_DISK_OVERCOMMIT: positiveOrUnset(),
  /**
   * How long a host counts as there without a word from it. Its sandboxes stand still after four fifths of that, and
   * have failed five seconds after it.
   */
  PLATFORM_HOST_LEASE_SECONDS: positive(15),
  /**
   * Where this host's sandboxes run: `oci`, on this machine, or `kubernetes`, as pods of a cluster that is this one host
   * (docs/kubernetes.md). The settings PLATFORM_KUBERNETES_… count for the latter alone.
   */
  PLATFORM_DRIVER: z.preprocess(emptyIsUnset, z.enum(['oci', 'kubernetes']).default('oci')),
  /** The file that says how to reach the cluster, and as whom. Empty: the service account of the pod that this runs in. */
  PLATFORM_KUBERNETES_KUBECONFIG: text(),
  /** All objects of the sandboxes are in this namespace, which must exist. */
  PLATFORM_KUBERNETES_NAMESPACE: textOr('sandboxes').refine(isLabel, 'must be the name of a namespace'),
  /** The image that brings the agent into pods, as nodes pull it. */
  PLATFORM_KUBERNETES_AGENT_IMAGE: text(),
  /** The image with s3fs, for mounts of object storage; nodes need the mount helper. Empty: sandboxes have no mounts. */
  PLATFORM_KUBERNETES_S3FS_IMAGE: text(),
  /**
   * Images of the built-in templates `code-interpreter` and `code-interpreter-all`, as `code-interpreter=registry/image;…`;
   * that of `base` is PLATFORM_BASE_IMAGE. Those that are not named cannot be used: a cluster makes no images.
   */
  PLATFORM_KUBERNETES_TEMPLATE_IMAGES: listsByName(
    (item) => item !== '',
    'must be template=image;template=image',
  ).refine(
    (images) =>
      Object.entries(images).every(([name, list]) => interpreterTemplates.includes(name) && list.length === 1),
    'must give one image to code-interpreter or code-interpreter-all',
  ),
  /** The Secret, in that namespace, that nodes pull images with. Empty: none. */
  PLATFORM_KUBERNETES_PULL_SECRET: text(),
  /** StorageClass of the sandboxes' disks. Empty: the cluster's default. */
  PLATFORM_KUBERNETES_STORAGE_CLASS: text(),
  /** RuntimeClass of the sandboxes, such as one of gVisor. Empty: the cluster's default. */
  PLATFORM_KUBERNETES_RUNTIME_CLASS: text(),
  /**
   * Comma-separated networks (CIDR) whose machines and pods may open connections to sandboxes: those of gateways, APIs
   * and this process.
   */
  PLATFORM_KUBERNETES_CLIENT_RANGES: networks(),
  /**
   * Comma-separated namespaces of the cluster whose pods may do so too: for network plugins, such as Cilium, that take
   * addresses of pods for no part of a range.
   */
  PLATFORM_KUBERNETES_CLIENT_NAMESPACES: z.preprocess(
    emptyIsUnset,
    z
      .string()
      .default('')
      .transform((list) => (list === '' ? [] : words(list)))
      .refine((names) => names.every(isLabel), 'must be names of namespaces'),
  ),
  /**
   * `required`: the host worker does not start on a cluster that does not enforce NetworkPolicy, which it tries with four
   * pods. `unchecked`: it starts, and sandboxes may reach each other, the nodes and the API server.
   */
  PLATFORM_KUBERNETES_ISOLATION: z.preprocess(emptyIsUnset, z.enum(['required', 'unchecked']).default('required')),
  /**
   * Comma-separated public addresses (CIDR) that sandboxes do not reach: the API server, nodes, services of the platform.
   * Private ones they never reach.
   */
  PLATFORM_KUBERNETES_CLOSED_RANGES: networks(),
  /** What a pod asks its node for, as a share of the sandbox's processors and memory, which are its limits. */
  PLATFORM_KUBERNETES_CPU_REQUEST_SHARE: share(1 / 16),
  PLATFORM_KUBERNETES_MEMORY_REQUEST_SHARE: share(1 / 4),
  /** `false`: each pod has users of its own (`hostUsers: false`), where the cluster can do that. */
  PLATFORM_KUBERNETES_HOST_USERS: flag(true),
  /** `crun` or `runc`. Empty: crun where it works on this machine's cgroups, else runc. */
  PLATFORM_OCI_RUNTIME: z.preprocess(emptyIsUnset, z.enum(['crun', 'runc']).optional()),
  /**
   * A /16 to /24 for sandboxes. Empty: a free one of 10.0.0.0/8, kept in the data folder. On a cluster: the network of
   * its pods, of any size.
   */
  PLATFORM_SANDBOX_SUBNET: text(),
  /**
   * Comma-separated ranges of addresses (CIDR) beyond the public internet that the platform may connect to where a user
   * names the address: storage endpoints, webhooks. Empty or `none`: none; `npm start` opens loopback.
   */
  PLATFORM_OUTBOUND_RANGES: textOr('none')
    .transform((list) => (list === 'none' ? [] : list.split(',').map((range) => range.trim())))
    .pipe(z.array(z.union([z.cidrv4(), z.cidrv6()]))),
  /** PEM file of CA certificates that webhooks over TLS are checked with, beside the usual ones. Empty: none. */
  PLATFORM_WEBHOOK_CA_FILE: text(),
  /**
   * Comma-separated `host:port` of services that belong to the platform beside those that other settings name. An
   * address that a user names never leads to any of them. `npm start` names what it embeds.
   */
  PLATFORM_INTERNAL_SERVICES: textOr('')
    .transform((list) => (list === '' ? [] : words(list)))
    .pipe(z.array(z.string().regex(/^([^\s/:]+|\[[0-9a-f:.]+\]):\d{1,5}$/i, 'must be host:port'))),
  /**
   * Comma-separated IPv4 networks (CIDR) that this host lets TCP connections to its sandboxes in from: where gateways and
   * APIs run that the sandboxes' subnet is routed to. Empty: none, only this host's own processes reach sandboxes.
   */
  PLATFORM_ROUTED_NETWORKS: networks(),
  /**
   * Several machines without routes into each other's sandbox networks. Of a host and its gateway: `host:port` at which
   * that gateway takes connections from gateways and APIs of other machines, over mutual TLS; it listens on that port of
   * every address. Empty: none.
   */
  PLATFORM_LAST_HOP_ADDRESS: text().refine(
    (address) => address === undefined || /^([^\s/:@]+|\[[0-9a-f:.]+\]):[1-9]\d{0,4}$/i.test(address),
    'must be host:port',
  ),
  /** Of a host's gateway: the file with the join token of that host (`ops/operator/last-hop-token.ts`). */
  PLATFORM_LAST_HOP_HOST_TOKEN_FILE: text(),
  /** Of every gateway and API: the file with its join token. Empty: it reaches sandboxes directly, also by routes. */
  PLATFORM_LAST_HOP_GATEWAY_TOKEN_FILE: text(),
  /**
   * Of control workers alone: the folder of the authority that issues certificates for these connections. Keep it from
   * hosts. Made when it is missing. Empty: this process issues none.
   */
  PLATFORM_LAST_HOP_CA_DIR: text(),
  /** Comma-separated resolvers for sandboxes. Empty: the host's upstream servers. */
  PLATFORM_SANDBOX_DNS: text(),
  /**
   * UDP ports of sandboxes on a cluster, where PLATFORM_UDP_PORTS names some: by a Service of this type for each sandbox that
   * has some. The ports of `NodePort` lie within the cluster's node ports; those of `LoadBalancer` are all at one address.
   */
  PLATFORM_KUBERNETES_UDP_SERVICE: z.preprocess(emptyIsUnset, z.enum(['NodePort', 'LoadBalancer']).default('NodePort')),
  /**
   * `Cluster`: every node leads to every sandbox, which does not see the address of the sender. `Local`: only the sandbox's
   * own node does, and the sandbox sees it.
   */
  PLATFORM_KUBERNETES_UDP_TRAFFIC_POLICY: z.preprocess(emptyIsUnset, z.enum(['Cluster', 'Local']).default('Cluster')),
  /** loadBalancerClass of those Services. Empty: the cluster's default. */
  PLATFORM_KUBERNETES_UDP_LOAD_BALANCER_CLASS: text(),
  /** Annotations of those Services, as a JSON object, by which load balancers take their address. Empty: none. */
  PLATFORM_KUBERNETES_UDP_ANNOTATIONS: textsByName(),
  /**
   * Where clients reach UDP ports of sandboxes on this host. Empty: the address it reaches the internet from. On a cluster
   * with such ports it is needed: an address of its nodes, or of the load balancer.
   */
  PLATFORM_HOST_PUBLIC_ADDRESS: text().refine(
    (address) => !address?.includes(':'),
    'must be an IPv4 address or a name',
  ),
  /**
   * `first-last`: this host's UDP ports that may lead to sandboxes; `none`. Empty: 128 free ones, kept in the data folder; on
   * a cluster none.
   */
  PLATFORM_UDP_PORTS: z.preprocess(emptyIsUnset, portRange.optional()),
  /** Mbit/s that one sandbox may send to the internet, and as much that it may receive. 0: not limited. */
  PLATFORM_SANDBOX_BANDWIDTH_MBPS: whole(1000),
  /**
   * `http://user:password@host:port`: given to sandboxes with internet access as `network_proxy` and in the usual
   * variables, and opened to them where it lies in a private network. Empty: none.
   */
  PLATFORM_SANDBOX_PROXY_URL: z.preprocess(emptyIsUnset, z.url({ protocol: /^https?$/ }).optional()),
  /**
   * Comma-separated built-in templates whose images a host makes in the background when it has started; the others are made
   * when a sandbox is first made of them. `none`: all of them are.
   */
  PLATFORM_IMAGES_AHEAD: z.preprocess(
    emptyIsUnset,
    z
      .string()
      .default('code-interpreter')
      .transform((list) => (list === 'none' ? [] : words(list)))
      .pipe(z.array(z.enum(['code-interpreter', 'code-interpreter-all']))),
  ),
  /** Frozen sandboxes kept ready for `base` on this host. 0 turns the pool off. */
  PLATFORM_WARM_POOL_SIZE: whole(2),
  /** After bursts of creates there are as many as came within five seconds, up to this. */
  PLATFORM_WARM_POOL_MAX_SIZE: whole(16),
  /** Memory of the frozen sandboxes of all templates together, each about 72 MB. 0: a sixteenth of the machine's. */
  PLATFORM_WARM_POOL_MEMORY_MB: whole(0),
  /**
   * `host:port`, or `host:port/path`, of the OCI registry that keeps the images of templates, each in `<project>/<name>` below
   * it. A path is needed where projects must be made first: `harbor.example.com/sandboxes`. Empty: no image can be imported.
   */
  PLATFORM_REGISTRY: text().refine(
    (address) => address === undefined || /^[^\s/@]+(\/[a-z0-9._-]+)*$/.test(address),
    'must be host:port or host:port/path',
  ),
  /** What unpacked images may take of a host's disk; those used least lately go first. 0: a fifth of the file system. */
  PLATFORM_IMAGE_CACHE_GB: whole(0),
  /** The largest image that a host unpacks. */
  PLATFORM_IMAGE_MAX_GB: whole(32),
  /** Plain HTTP to that registry; hosts use it only for one on loopback. */
  PLATFORM_REGISTRY_INSECURE_HTTP: flag(false),
  /** The user that may read, write and delete there, and the file with the password. Empty: the registry asks for none. */
  PLATFORM_REGISTRY_USERNAME: text(),
  PLATFORM_REGISTRY_PASSWORD_FILE: text(),
  /** PEM file of an authority that is trusted for that registry, beside the usual ones. */
  PLATFORM_REGISTRY_CA_FILE: text(),
  /** How long an image stays in that registry that no template, sandbox or import refers to. */
  PLATFORM_UNUSED_IMAGES_KEPT_HOURS: whole(24),
  /** Socket of the supervisor that sweeps the embedded registry. `npm start` sets it. Empty: someone else frees its space. */
  PLATFORM_REGISTRY_SWEEP_SOCKET: text(),
  /** PEM file of an authority that is trusted for the registries that users import from, beside the usual ones. */
  PLATFORM_IMPORT_CA_FILE: text(),
  /** The reference the `base` template is pulled by. Empty: made from Debian packages. */
  PLATFORM_BASE_IMAGE: text(),

  /**
   * The payment processor: Stripe, or a service with its API. The publishable key goes to browsers; the files have the
   * secret key, and the secret that notifications are signed with. Empty: there is no processor, and nothing can be paid.
   */
  PLATFORM_STRIPE_PUBLISHABLE_KEY: text(),
  PLATFORM_STRIPE_SECRET_KEY_FILE: text(),
  PLATFORM_STRIPE_WEBHOOK_SECRET_FILE: text(),
  PLATFORM_STRIPE_API_URL: textOr('https://api.stripe.com').pipe(z.url({ protocol: /^https?$/ })),
  /** The processor's script, which browsers load on the page that adds a card. */
  PLATFORM_STRIPE_SCRIPT_URL: textOr('https://js.stripe.com/v3/').pipe(z.url({ protocol: /^https?$/ })),

  /**
   * `on`: plans are charged, and what is not paid for is refused. `off`: usage is metered and shown, and nothing is charged
   * or refused for money. Empty: `on` where there is a payment processor.
   */
  PLATFORM_BILLING: z.preprocess(emptyIsUnset, z.enum(['on', 'off']).optional()),
  /** Who asks for the money, at the top of receipts: name and address, with `\n` between lines. Empty: the URL of the API. */
  PLATFORM_INVOICE_ISSUER: text(),

  /** The TURN server's shared secret (coturn: `use-auth-secret`, `static-auth-secret`). Empty: there is none. */
  PLATFORM_TURN_SECRET: text(),
  /** Where browsers reach it. */
  PLATFORM_TURN_PUBLIC_HOST: text(),
  PLATFORM_TURN_PUBLIC_PORT: port(3478),
  /** Where programs in sandboxes reach it; opened to them also when it lies in a private network. Empty: as browsers. */
  PLATFORM_TURN_INTERNAL_HOST: text(),
  PLATFORM_TURN_INTERNAL_PORT: z.preprocess(emptyIsUnset, z.coerce.number().int().min(1).max(65535).optional()),
  PLATFORM_TURN_CREDENTIAL_TTL_SECONDS: positive(86_400),
  /** Where hosts give credentials to their own sandboxes, on an address that only those reach. */
  PLATFORM_TURN_SERVICE_PORT: port(7083),

  PLATFORM_LOG_LEVEL: z.preprocess(
    emptyIsUnset,
    z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
  ),
});

const paymentSettings = [
  'PLATFORM_STRIPE_PUBLISHABLE_KEY',
  'PLATFORM_STRIPE_SECRET_KEY_FILE',
  'PLATFORM_STRIPE_WEBHOOK_SECRET_FILE',
] as const;

/** What a host that is a cluster cannot do without. */
const clusterSettings = [
  'PLATFORM_KUBERNETES_AGENT_IMAGE',
  'PLATFORM_KUBERNETES_CLIENT_RANGES',
  'PLATFORM_SANDBOX_SUBNET',
] as const;

const checkedSchema = settingsSchema
  .superRefine((settings, context) => {
    if (settings.PLATFORM_DRIVER !== 'kubernetes') return;
    const require = (name: keyof typeof settings, message: string) =>
      context.addIssue({ code: 'custom', path: [name], message });
    for (const name of clusterSettings) {
      if (!settings[name]?.length) require(name, 'is needed with PLATFORM_DRIVER=kubernetes');
    }
    if (settings.PLATFORM_UDP_PORTS && !settings.PLATFORM_HOST_PUBLIC_ADDRESS) {
      require('PLATFORM_HOST_PUBLIC_ADDRESS', 'is needed with PLATFORM_DRIVER=kubernetes and PLATFORM_UDP_PORTS');
    }
    // A process that starts elsewhere in the cluster is the same host.
    if (!isLabel(settings.PLATFORM_HOST_ID)) {
      require('PLATFORM_HOST_ID', 'is needed with PLATFORM_DRIVER=kubernetes, of letters a-z, digits and -, at most 63');
    }
  })
  .refine((settings) => new Set(paymentSettings.map((name) => !settings[name])).size === 1, {
    path: [paymentSettings[0]],
    message: `and ${paymentSettings.slice(1).join(' and ')} must be set all or none`,
  })
  .refine((settings) => !settings.PLATFORM_LAST_HOP_HOST_TOKEN_FILE || settings.PLATFORM_LAST_HOP_ADDRESS, {
    path: ['PLATFORM_LAST_HOP_HOST_TOKEN_FILE'],
    message: 'needs PLATFORM_LAST_HOP_ADDRESS',
  })
  .refine((settings) => !settings.PLATFORM_TURN_SECRET === !settings.PLATFORM_TURN_PUBLIC_HOST, {
    path: ['PLATFORM_TURN_SECRET'],
    message: 'and PLATFORM_TURN_PUBLIC_HOST must be set both or neither',
  })
  .refine((settings) => !settings.TEMPORAL_TLS_CERT_FILE === !settings.TEMPORAL_TLS_KEY_FILE, {
    path: ['TEMPORAL_TLS_CERT_FILE'],
    message: 'and TEMPORAL_TLS_KEY_FILE must be set both or neither',
  });

export type Settings = z.infer<typeof settingsSchema>;

/** One line a wrong setting, ready to be shown to an operator. */
export class SettingsError extends Error {
  override name = 'SettingsError';
}

/**
 * Reads and checks the settings of this process.
 * @throws {SettingsError} naming each variable that is missing or wrong, never its value.
 */
export function loadSettings(env: NodeJS.ProcessEnv = process.env): Settings {
  return checked(checkedSchema.safeParse(env));
}

/** Some settings alone, for what runs without the others. @throws {SettingsError} */
export function loadSettingsOf<Name extends keyof Settings>(
  names: readonly Name[],
  env: NodeJS.ProcessEnv = process.env,
): Pick<Settings, Name> {
  const schema = z.object(Object.fromEntries(names.map((name) => [name, settingsSchema.shape[name]])));
  const values: unknown = checked(schema.safeParse(env));
  return values as Pick<Settings, Name>;
}

function checked<Value>(parsed: z.ZodSafeParseResult<Value>): Value {
  if (parsed.success) return parsed.data;
  const lines = parsed.error.issues.map((issue) => `  ${issue.path.join('.')}: ${issue.message}`);
  throw new SettingsError(`Settings are wrong:\n${lines.join('\n')}`);
}
