import type { ObjectOption } from '../../plugin/options.ts'

/** The public listener. Its limits stop slow or oversized requests before any plugin runs. */
export const gatewaySection = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description:
    'The public listener, to which buyers and sellers connect. It serves links, and forwards requests for all other paths to the admin API.',
  examples: [{ host: '0.0.0.0', port: 8080, trustedProxyCidrs: ['10.0.0.0/8'], workers: 1 }],
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
      description: 'TCP port to listen on. 0 picks a free port.',
    },
    workers: {
      type: 'integer',
      minimum: 1,
      maximum: 256,
      default: 1,
      description:
        'Number of processes that serve calls on the same port. Each process can use one CPU core.',
    },
    trustedProxyCidrs: {
      type: 'array',
      default: [],
      items: { type: 'string', format: 'cidr', description: 'An address range, such as 10.0.0.0/8.' },
      description:
        'Address ranges of the proxies in front of the gateway. The gateway reads the client address from the `X-Forwarded-For` header of these proxies. If the list is empty, the gateway ignores this header, and the client address is the address of the connection.',
    },
    headersTimeoutMs: {
      type: 'integer',
      minimum: 100,
      maximum: 3_600_000,
      default: 15_000,
      description: 'How long a client may take to send its request headers, in milliseconds.',
    },
    requestTimeoutMs: {
      type: 'integer',
      minimum: 100,
      maximum: 86_400_000,
      default: 60_000,
      description: 'How long a client may take to send its whole request with the body, in milliseconds.',
    },
    callTimeoutMs: {
      type: 'integer',
      minimum: 1_000,
      maximum: 86_400_000,
      default: 900_000,
      description:
        'Time after which the gateway ends a call that has no response yet, in milliseconds. Keep this time above the sum of the timeouts of the plugins `upstream` and `replay-guard` and of `settleTimeoutMs`.',
    },
    keepAliveTimeoutMs: {
      type: 'integer',
      minimum: 0,
      maximum: 86_400_000,
      default: 65_000,
      description:
        'How long an idle connection stays open, in milliseconds. Keep this time above the idle timeout of a load balancer in front of the gateway.',
    },
    shutdownDelayMs: {
      type: 'integer',
      minimum: 0,
      maximum: 600_000,
      default: 0,
      description:
        'How long the gateway still accepts calls after SIGTERM or Ctrl-C, in milliseconds. During this time, `/readyz` responds 503, so that a load balancer stops sending calls. Choose a longer time than the load balancer needs to notice the 503. A second signal ends the delay.',
    },
    drainTimeoutMs: {
      type: 'integer',
      minimum: 0,
      maximum: 86_400_000,
      default: 15_000,
      description: 'How long a stopping gateway waits for running calls to finish, in milliseconds.',
    },
    maxHeaderBytes: {
      type: 'integer',
      minimum: 16_384,
      maximum: 1_048_576,
      default: 32_768,
      description:
        'Maximum size of all headers of a request together, in bytes. The headers of a paid call contain the payment.',
    },
    accessLog: {
      type: 'object',
      additionalProperties: false,
      default: {},
      description:
        'The access log. The gateway writes one line for each call, with `event: "call"` and the `X-Request-Id` of the response. Calls with a readable payment always get a line. The options of this section limit the lines for other calls.',
      properties: {
        unpaidShare: {
          type: 'number',
          minimum: 0,
          maximum: 1,
          default: 1,
          description:
            'Share of the 402 responses and free calls that are logged. 1 logs all such calls, 0.01 logs one in a hundred, and 0 logs none.',
        },
        unpaidPerSecond: {
          type: 'integer',
          minimum: 0,
          maximum: 1_000_000,
          default: 100,
          description:
            'Maximum lines that a single process writes per second for calls without a payment. Calls with an unreadable payment have a separate limit of the same size. The field `leftOut` of a line is the number of lines that were skipped before it.',
        },
      },
    },
    maxHeldBytes: {
      type: 'integer',
      minimum: 1_048_576,
      description:
        'Maximum memory of one process for paid responses that wait until the buyer is charged or reads the response, in bytes. If this memory is full, a call gets 503 and costs nothing. A single store may never use more of this memory than is still free. Default: a quarter of the memory of the machine or container, divided by `workers`.',
    },
  },
} as const satisfies ObjectOption

const limit = (initial: number, description: string) =>
  ({ type: 'integer', minimum: 1, maximum: 1_000_000_000, default: initial, description }) as const

/** Limits of the marketplace interface, section 8. The plugin rate-limit has the limits of calls. */
const limitsOption = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description:
    'Rate limits of the admin API. A client without an API key is one IPv4 address or one /64 range of IPv6 addresses. Above a limit, the response is 429 with `Retry-After`.',
  properties: {
    keyPerMinute: limit(100, 'Maximum requests with one API key per minute.'),
    keyPerHour: limit(
      1_000,
      'Maximum requests with one API key per hour. This limit applies in addition to `keyPerMinute`.',
    ),
    dashboardPerMinute: limit(
      300,
      'Maximum requests per minute of all signed-in browsers of one store together.',
    ),
    newKeysPerHour: limit(
      20,
      'Maximum API keys that a store may create per hour. Each API key has its own limits.',
    ),
    signupPerHour: limit(
      5,
      'Maximum sign-ups and sign-ins of one client with a wallet per hour. If a client sends the same signed text again, it counts once.',
    ),
    noncePerMinute: limit(
      10,
      'Maximum texts to sign with a wallet that a single client may request per minute.',
    ),
    storePerMinute: limit(
      60,
      'Maximum requests of one client for the pages, data and reviews of stores per minute.',
    ),
    discoverPerMinute: limit(60, 'Maximum searches of one client in the marketplace per minute.'),
    reviewsPerHour: limit(10, 'Maximum reviews that a single client may write per hour.'),
    sessionPollsPerMinute: limit(
      60,
      'Maximum requests of all clients together with the client secret of one payment session per minute.',
    ),
    mcpPerMinute: limit(
      240,
      'Maximum MCP messages of one client per minute. A call of an MCP tool also counts against the limit of the API route that the tool uses.',
    ),
    paymentAttemptsPerMinute: limit(
      20,
      'Maximum payments for payment sessions that a single client may send per minute.',
    ),
    badKeyPerMinute: limit(
      60,
      'Maximum requests of one client with an invalid API key per minute. Above this limit, the response is 429 instead of 401.',
    ),
  },
} as const satisfies ObjectOption

export const adminSection = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description:
    'The admin API serves stores, API keys, links, payment sessions and the dashboard. Clients reach the admin API through the gateway.',
  examples: [{ host: '127.0.0.1', port: 8081 }],
  properties: {
    host: {
      type: 'string',
      minLength: 1,
      default: '127.0.0.1',
      description:
        'Address to listen on. A loopback address is enough, because the gateway forwards requests to the admin API.',
    },
    port: {
      type: 'integer',
      minimum: 0,
      maximum: 65535,
      default: 8081,
      description: 'TCP port to listen on. 0 picks a free port.',
    },
    url: {
      type: 'string',
      format: 'url',
      pattern: '^https?://[^?#]+$',
      examples: ['http://10.0.0.5:8081'],
      description:
        'Address at which gateways in other processes reach the admin API. A process of `tollgate start --only gateway` forwards requests to this address if their path is not a link. Default: `http://`, `host` and `port` of this section.',
    },
    trustedGatewayCidrs: {
      type: 'array',
      default: [],
      items: { type: 'string', format: 'cidr', description: 'An address range, such as 10.0.0.0/8.' },
      description:
        'Address ranges of gateways on other machines. The admin API trusts the client addresses that these gateways send. The admin API always trusts gateways on its own machine.',
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
        'Words and brands that sellers cannot use as a username. The gateway also reserves similar spellings, such as `v1sa`, and combinations, such as `visa_support`. The paths and the name of the service are always reserved. The operator can use reserved names with `tollgate store create`.',
    },
    maxRenamesPerDay: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000,
      default: 2,
      description:
        'How often a store may change its username within 24 hours. A former username stays reserved for the store, and its addresses redirect to the new username for 30 days. A store without sales keeps only its last former username.',
    },
    hstsIncludeSubDomains: {
      type: 'boolean',
      default: false,
      description:
        'Whether the header `Strict-Transport-Security` also applies to the subdomains of an https `publicUrl`. With true, browsers refuse to open the subdomains without TLS for half a year.',
    },
    maxLinksPerStore: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000_000,
      default: 1_000,
      description: 'Maximum number of links of a store. Deleted links do not count.',
    },
    maxOpenSessionsPerStore: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000_000,
      default: 10_000,
      description:
        'Maximum number of open payment sessions of a store. A payment session is open for at most 30 minutes. A second limit, five times as high, counts the payment sessions of the last 24 hours that ended unpaid. Above either limit, the response is 409 `LIMIT_REACHED`. Buy buttons may open at most half of this number. Each client address may open about a hundredth of that half with buy buttons, but at least 10.',
    },
    limits: limitsOption,
  },
} as const satisfies ObjectOption

/** The operator has a credential of its own, because no seller's wallet may grant operator access. */
export const operatorSection = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description: "The operator's page at `/operator`, which shows the state of the gateway.",
  examples: [{ token: `\${TOLLGATE_OPERATOR_TOKEN}` }],
  properties: {
    token: {
      type: 'string',
      minLength: 32,
      maxLength: 1_024,
      writeOnly: true,
      examples: [`\${TOLLGATE_OPERATOR_TOKEN}`],
      description:
        "The operator's password for `/operator`, of at least 32 characters. Create the password with `openssl rand -hex 32`, and read it from the environment. A new password ends every browser session of the operator. Without this option, the gateway does not serve `/operator`.",
    },
  },
} as const satisfies ObjectOption

/** A port for the operator's tools, which buyers cannot reach. */
export const monitoringSection = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description:
    'A separate port for `/metrics`, `/healthz` and `/readyz`. If `port` of this section is set, the public port does not serve these paths.',
  examples: [{ host: '0.0.0.0', port: 9464 }],
  properties: {
    host: {
      type: 'string',
      minLength: 1,
      default: '127.0.0.1',
      description:
        'Address to listen on. With `0.0.0.0`, a Prometheus server on another machine can connect. Do not expose this port outside your network.',
    },
    port: {
      type: 'integer',
      minimum: 0,
      maximum: 65535,
      examples: [9464],
      description:
        'TCP port to listen on. 0 picks a free port. Without this option, there is no separate port.',
    },
  },
} as const satisfies ObjectOption

export const logSection = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description: 'The log, which is written to standard error.',
  examples: [{ level: 'info', format: 'json' }],
  properties: {
    level: {
      enum: ['debug', 'info', 'warn', 'error', 'silent'],
      default: 'info',
      description: 'The gateway writes log entries of this level and of more severe levels.',
    },
    format: {
      enum: ['auto', 'json', 'pretty'],
      default: 'auto',
      description:
        'Format of a log entry. With `auto`, entries are `pretty` on a terminal and `json` (one JSON object per line) elsewhere.',
    },
  },
} as const satisfies ObjectOption
