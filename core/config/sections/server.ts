import type { ObjectOption } from '../../plugin/options.ts'

/** The public listener: limits that stop slow or oversized requests before any plugin runs. */
export const gatewaySection = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description: 'The public listener, which serves paid links and hands every other path to the admin API.',
  properties: {
    host: {
      type: 'string',
      minLength: 1,
      default: '127.0.0.1',
      description: 'Address to listen on. `0.0.0.0` accepts connections from other machines.',
    },
    port: {
      type: 'integer',
      minimum: 0,
      maximum: 65535,
      default: 8080,
      description: 'TCP port to listen on; 0 takes any free one.',
    },
    workers: {
      type: 'integer',
      minimum: 1,
      maximum: 256,
      default: 1,
      description: 'Processes that share the port. One is enough for most; more use more CPU cores.',
    },
    trustedProxyCidrs: {
      type: 'array',
      default: [],
      items: { type: 'string', format: 'cidr', description: 'An address range, such as 10.0.0.0/8.' },
      description:
        'Proxies in front of the gateway whose X-Forwarded-For header is believed. Empty: the address of the connection is the client, and the header is ignored.',
    },
    headersTimeoutMs: {
      type: 'integer',
      minimum: 100,
      maximum: 3_600_000,
      default: 15_000,
      description: 'Time a client has to send its request headers, in milliseconds.',
    },
    requestTimeoutMs: {
      type: 'integer',
      minimum: 100,
      maximum: 86_400_000,
      default: 60_000,
      description: 'Time a client has to send its whole request, body included, in milliseconds.',
    },
    callTimeoutMs: {
      type: 'integer',
      minimum: 1_000,
      maximum: 86_400_000,
      default: 900_000,
      description:
        'Time after which a call whose answer has not begun is ended, in milliseconds: whatever it waits for has a shorter limit of its own, so only a plugin that never answers gets there. Longer than the timeouts of upstream, replay-guard and settlement together.',
    },
    keepAliveTimeoutMs: {
      type: 'integer',
      minimum: 0,
      maximum: 86_400_000,
      default: 65_000,
      description:
        'Time an idle connection stays open, in milliseconds. Keep it above that of a load balancer in front.',
    },
    shutdownDelayMs: {
      type: 'integer',
      minimum: 0,
      maximum: 600_000,
      default: 0,
      description:
        'Time in milliseconds that the gateway still serves after SIGTERM or Ctrl-C, while `/readyz` answers 503: a load balancer stops sending calls before the gateway stops accepting them. Set it above the time that the balancer needs to notice; a second signal ends it.',
    },
    drainTimeoutMs: {
      type: 'integer',
      minimum: 0,
      maximum: 86_400_000,
      default: 15_000,
      description: 'Time that calls under way may take to finish when the gateway stops, in milliseconds.',
    },
    maxHeaderBytes: {
      type: 'integer',
      minimum: 16_384,
      maximum: 1_048_576,
      default: 32_768,
      description: 'Largest request header block, in bytes. Payments travel in a header.',
    },
    accessLog: {
      type: 'object',
      additionalProperties: false,
      default: {},
      description:
        'The access log: one line a call, with `event: "call"` and the id that its answer has in `X-Request-Id`. A call whose payment was read always has its line.',
      properties: {
        unpaidShare: {
          type: 'number',
          minimum: 0,
          maximum: 1,
          default: 1,
          description:
            'Share of the 402s and the free calls that is logged: 1 is all of them, 0.01 one of a hundred, 0 none.',
        },
        unpaidPerSecond: {
          type: 'integer',
          minimum: 0,
          maximum: 1_000_000,
          default: 100,
          description:
            'Most lines of calls without a payment, and as many of calls whose payment was not read, per second and process. The next line says in `leftOut` how many had none.',
        },
      },
    },
    maxHeldBytes: {
      type: 'integer',
      minimum: 1_048_576,
      description:
        'Memory that paid answers may take in one process while they wait to be charged or to be read, in bytes; a call that finds no room is 503 and costs nothing. A store may hold as much as it leaves free: alone half of it. Default: a quarter of the memory that the machine or its container has, divided by `workers`.',
    },
  },
} as const satisfies ObjectOption

const limit = (initial: number, description: string) =>
  ({ type: 'integer', minimum: 1, maximum: 1_000_000_000, default: initial, description }) as const

/** The marketplace interface, section 8; those of calls are options of the plugin rate-limit. */
const limitsOption = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description:
    'How often the admin API may be asked. Without a key a client is an IPv4 address or the /64 of an IPv6 one. Beyond a limit the answer is 429 with Retry-After.',
  properties: {
    keyPerMinute: limit(100, 'Requests with one API key, per minute.'),
    keyPerHour: limit(1_000, 'Requests with one API key, per hour; both are counted.'),
    dashboardPerMinute: limit(300, 'Requests of the signed-in browsers of one store together, per minute.'),
    newKeysPerHour: limit(20, 'API keys that one store may make, per hour; each has limits of its own.'),
    signupPerHour: limit(
      5,
      'Sign-ups and sign-ins by wallet of one client, per hour; a signed text that is sent again counts once.',
    ),
    noncePerMinute: limit(10, 'Texts to sign that one client may ask for, per minute.'),
    storePerMinute: limit(
      60,
      "Requests of one client for stores' pages, their data and reviews, per minute.",
    ),
    discoverPerMinute: limit(60, 'Searches of one client in the marketplace, per minute.'),
    reviewsPerHour: limit(10, 'Reviews that one client may write, per hour.'),
    sessionPollsPerMinute: limit(
      60,
      'Requests for one payment session with its client secret, per minute, whoever asks.',
    ),
    mcpPerMinute: limit(
      240,
      'MCP messages that one client may send, per minute; what its tools do has the limits of that besides.',
    ),
    paymentAttemptsPerMinute: limit(20, 'Payments of sessions that one client may send, per minute.'),
    badKeyPerMinute: limit(
      60,
      'Requests of one client with a key that is not one, per minute, before the answer turns from 401 to 429.',
    ),
  },
} as const satisfies ObjectOption

export const adminSection = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description:
    'The control plane: stores, keys, links, sessions, dashboard. Buyers reach it through the gateway.',
  properties: {
    host: {
      type: 'string',
      minLength: 1,
      default: '127.0.0.1',
      description: 'Address to listen on. Leave it on this machine: the gateway is the way in.',
    },
    port: {
      type: 'integer',
      minimum: 0,
      maximum: 65535,
      default: 8081,
      description: 'TCP port to listen on; 0 takes any free one.',
    },
    url: {
      type: 'string',
      format: 'url',
      pattern: '^https?://[^?#]+$',
      examples: ['http://10.0.0.5:8081'],
      description:
        'Where a gateway of another process reaches the admin API: `tollgate start --only gateway` hands every path there that is no link. Default: that of `host` and `port`.',
    },
    trustedGatewayCidrs: {
      type: 'array',
      default: [],
      items: { type: 'string', format: 'cidr', description: 'An address range, such as 10.0.0.0/8.' },
      description:
        'Gateways on other machines, whose word is believed about who a client is. Those on this machine always are.',
    },
    reservedUsernames: {
      type: 'array',
      uniqueItems: true,
      default: [
        ...[
          'admin',
          'administrator',
          'api',
          'docs',
          'help',
          'helpdesk',
          'mail',
          'mcp',
          'moderator',
          'noreply',
        ],
        ...[
          'official',
          'pay',
          'postmaster',
          'root',
          'security',
          'staff',
          'support',
          'system',
          'team',
          'verified',
        ],
        ...['webmaster', 'widget', 'www'],
        ...['base', 'binance', 'bitcoin', 'circle', 'coinbase', 'ethereum', 'metamask', 'paypal', 'phantom'],
        ...['solana', 'stripe', 'tether', 'tollgate', 'usdc', 'usdt', 'visa', 'mastercard', 'x402'],
      ],
      items: {
        type: 'string',
        pattern: '^[a-z0-9_]{1,32}$',
        description: 'A word or brand, in lower case.',
      },
      description:
        "Words and brands that no seller may take for a username: with underscores or without, with digits that look like letters (`v1sa`), or several together (`visa_support`). The service's own addresses and its name are reserved anyway; the operator's `tollgate store create` may use any of these.",
    },
    maxRenamesPerDay: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000,
      default: 2,
      description:
        'How often a store may change its username within 24 hours. A former name redirects for 30 days and is kept from other stores; of a store that has sold nothing yet, only the last one is.',
    },
    hstsIncludeSubDomains: {
      type: 'boolean',
      default: false,
      description:
        'Whether `Strict-Transport-Security`, which answers at an https `publicUrl` carry, speaks for its subdomains too: browsers then open none of them without TLS for half a year.',
    },
    maxLinksPerStore: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000_000,
      default: 1_000,
      description: 'Links that a store may have at once; deleted ones do not count.',
    },
    maxOpenSessionsPerStore: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000_000,
      default: 10_000,
      description:
        'Payment sessions of a store that may be open at once; each is for 30 minutes. Five times as many of the last 24 hours may have ended unpaid. Beyond that the answer is 409 `LIMIT_REACHED`. Buy buttons open at most half of them, and one client address about a hundredth of that half, but at least 10.',
    },
    limits: limitsOption,
  },
} as const satisfies ObjectOption

/** Whoever runs the service has a credential of their own: no seller's wallet makes an operator. */
export const operatorSection = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description: 'The page of whoever runs the service, at `/operator`.',
  properties: {
    token: {
      type: 'string',
      minLength: 32,
      maxLength: 1_024,
      writeOnly: true,
      examples: [`\${TOLLGATE_OPERATOR_TOKEN}`],
      description:
        'What the operator signs in with, from the environment; at least 32 characters, such as those of `openssl rand -hex 32`. Another one ends every session. Without it there is no such page.',
    },
  },
} as const satisfies ObjectOption

/** For the operator's tools only: a port that no buyer reaches. */
export const monitoringSection = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description:
    'A listener of its own for `/metrics`, `/healthz` and `/readyz`. Where it has a `port`, the public port no longer answers these paths.',
  properties: {
    host: {
      type: 'string',
      minLength: 1,
      default: '127.0.0.1',
      description:
        'Address to listen on. `0.0.0.0` lets a Prometheus on another machine in: keep the port inside your network.',
    },
    port: {
      type: 'integer',
      minimum: 0,
      maximum: 65535,
      examples: [9464],
      description: 'TCP port to listen on; 0 takes any free one. Absent: there is no such listener.',
    },
  },
} as const satisfies ObjectOption

export const logSection = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description: 'What is written to standard error while the gateway runs.',
  properties: {
    level: {
      enum: ['debug', 'info', 'warn', 'error', 'silent'],
      default: 'info',
      description: 'The least important entries that are written.',
    },
    format: {
      enum: ['auto', 'json', 'pretty'],
      default: 'auto',
      description: 'How an entry looks: `auto` is pretty on a terminal and one JSON object a line elsewhere.',
    },
  },
} as const satisfies ObjectOption
