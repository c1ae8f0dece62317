import type { ObjectOption } from '../../plugin/options.ts'

export const storageSection = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description: 'The database for links, purchases and payments.',
  examples: [{ path: './data/tollgate.db' }],
  properties: {
    path: {
      type: 'string',
      format: 'path',
      minLength: 1,
      default: './data/tollgate.db',
      description:
        'The SQLite database file. The gateway creates this file at the first start. A relative path starts at the folder of this configuration file.',
    },
    postgres: {
      type: 'object',
      additionalProperties: false,
      required: ['url'],
      description:
        'A PostgreSQL server (13 or newer) to use instead of the SQLite file. Gateways on several machines need a PostgreSQL server.',
      properties: {
        url: {
          type: 'string',
          format: 'url',
          writeOnly: true,
          description:
            'Address of the database, such as `postgres://tollgate:${PASSWORD}@db.internal:5432/tollgate?sslmode=verify-full`. Do not connect through a connection pooler in transaction mode, because the gateway uses LISTEN.',
        },
        schema: {
          type: 'string',
          pattern: '^[a-z_][a-z0-9_]{0,62}$',
          default: 'tollgate',
          description:
            'The database schema that contains the tables. The gateway creates this schema at the first start.',
        },
        maxConnections: {
          type: 'integer',
          minimum: 4,
          maximum: 1_000,
          default: 16,
          description: 'Maximum number of database connections that a single process opens at the same time.',
        },
      },
    },
  },
} as const satisfies ObjectOption

export const countersSection = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description: 'Where the gateway counts calls for rate limits.',
  examples: [{ use: 'redis', url: 'redis://cache.internal:6379' }],
  properties: {
    use: {
      enum: ['memory', 'redis'],
      default: 'memory',
      description:
        'With `memory`, each process counts separately, so a rate limit applies to each process. With `redis`, all processes on all machines share their counts.',
    },
    url: {
      type: 'string',
      format: 'url',
      writeOnly: true,
      description:
        'Address of the Redis server, such as `redis://127.0.0.1:6379`. Used only with `use: redis`.',
    },
  },
} as const satisfies ObjectOption

export const egressSection = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description:
    "Limits for the connections that the gateway opens to sellers' APIs, facilitators and other addresses.",
  examples: [{ allowPrivateCidrs: ['10.1.0.0/16'] }],
  properties: {
    allowPrivateCidrs: {
      type: 'array',
      default: [],
      items: { type: 'string', format: 'cidr', description: 'An address range, such as 10.1.0.0/16.' },
      description:
        'Private address ranges to which the URLs of links, webhooks and facilitators may point. If the list is empty, links may use only public addresses, so sellers cannot reach your network.',
    },
    publicPorts: {
      type: 'array',
      default: [80, 443],
      items: { type: 'integer', minimum: 1, maximum: 65_535, description: 'A TCP port.' },
      description:
        'Ports that links and webhooks may use at public addresses. At addresses in `allowPrivateCidrs`, they may use every port.',
    },
    dnsServers: {
      type: 'array',
      default: [],
      items: {
        type: 'string',
        format: 'ip-port',
        description: 'Address of a name server, such as 1.1.1.1 or 127.0.0.1:5353.',
      },
      description:
        "Name servers that resolve the host names of sellers' APIs. If the list is empty, the gateway uses the system's name servers.",
    },
    connectTimeoutMs: {
      type: 'integer',
      minimum: 1,
      maximum: 600_000,
      default: 5_000,
      description: "How long the gateway waits for a connection to a seller's API to open, in milliseconds.",
    },
    connectionsPerOrigin: {
      type: 'integer',
      minimum: 1,
      maximum: 10_000,
      default: 128,
      description:
        'Maximum number of connections that a single process opens to one origin (scheme, host and port of an API). All stores whose APIs have this origin share the connections.',
    },
    caFile: {
      type: 'string',
      format: 'path',
      minLength: 1,
      description:
        'PEM file with certificate authorities that the gateway trusts in addition to the built-in ones.',
    },
  },
} as const satisfies ObjectOption
