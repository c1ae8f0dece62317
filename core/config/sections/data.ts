import type { ObjectOption } from '../../plugin/options.ts'

export const storageSection = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description: 'Where links, purchases and payments are kept.',
  properties: {
    path: {
      type: 'string',
      format: 'path',
      minLength: 1,
      default: './data/tollgate.db',
      description: 'The SQLite database file. Made at the first start; relative to this configuration file.',
    },
    postgres: {
      type: 'object',
      additionalProperties: false,
      required: ['url'],
      description:
        'A PostgreSQL server (13 or newer) in the place of the file: for several gateways, on as many machines, that are one installation.',
      properties: {
        url: {
          type: 'string',
          format: 'url',
          writeOnly: true,
          description:
            'Address of the database, such as `postgres://tollgate:${PASSWORD}@db.internal:5432/tollgate?sslmode=verify-full`. LISTEN has to work on it: a pooler that hands out connections by the transaction is not enough.',
        },
        schema: {
          type: 'string',
          pattern: '^[a-z_][a-z0-9_]{0,62}$',
          default: 'tollgate',
          description: 'The schema that holds the tables. Made at the first start.',
        },
        maxConnections: {
          type: 'integer',
          minimum: 4,
          maximum: 1_000,
          default: 16,
          description: 'Connections of one process at the same time.',
        },
      },
    },
  },
} as const satisfies ObjectOption

export const countersSection = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description: 'Where rate limits are counted.',
  properties: {
    use: {
      enum: ['memory', 'redis'],
      default: 'memory',
      description:
        '`memory` counts in each process by itself; `redis` counts for all processes and machines together.',
    },
    url: {
      type: 'string',
      format: 'url',
      writeOnly: true,
      description: 'Address of the Redis server, such as `redis://127.0.0.1:6379`. Only with `use: redis`.',
    },
  },
} as const satisfies ObjectOption

export const egressSection = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description: "Connections to sellers' APIs, facilitators and other addresses outside.",
  properties: {
    allowPrivateCidrs: {
      type: 'array',
      default: [],
      items: { type: 'string', format: 'cidr', description: 'An address range, such as 10.1.0.0/16.' },
      description:
        'Private address ranges that links may point at. Empty: only public addresses, so that a seller can not reach into your network.',
    },
    publicPorts: {
      type: 'array',
      default: [80, 443],
      items: { type: 'integer', minimum: 1, maximum: 65_535, description: 'A TCP port.' },
      description:
        'Ports that the addresses of links and webhooks may name when they are saved, except in `allowPrivateCidrs`, where every port may be named.',
    },
    dnsServers: {
      type: 'array',
      default: [],
      items: {
        type: 'string',
        format: 'ip-port',
        description: 'Address of a name server, such as 1.1.1.1 or 127.0.0.1:5353.',
      },
      description: "Name servers that look up sellers' hosts. Empty: those of the system.",
    },
    connectTimeoutMs: {
      type: 'integer',
      minimum: 1,
      maximum: 600_000,
      default: 5_000,
      description: "Time a connection to a seller's API may take, in milliseconds.",
    },
    connectionsPerOrigin: {
      type: 'integer',
      minimum: 1,
      maximum: 10_000,
      default: 128,
      description:
        "Connections to one seller's API at the same time, per process. Stores that share an origin share them; how is told in the README of plugin upstream.",
    },
    caFile: {
      type: 'string',
      format: 'path',
      minLength: 1,
      description: 'PEM file with certificate authorities to trust besides the built-in ones.',
    },
  },
} as const satisfies ObjectOption
