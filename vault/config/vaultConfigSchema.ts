import type { Infer, OptionsSchema } from '../../core/plugin/options.ts'

/**
 * Everything that the vault's configuration file may say: the type {@link VaultConfig}, the check, the defaults, the
 * editor's help and the table of docs/vault-plugins.md. A flag of `tollgate vault` wins over the option of its name.
 */
export const vaultConfigSchema = {
  type: 'object',
  additionalProperties: false,
  title: 'Tollgate vault configuration',
  description:
    "Configuration of a vault: what its owner's rules and keys are is not in it, but in the vault.",
  properties: {
    $schema: {
      type: 'string',
      description: 'Where editors find the schema of this file. The vault ignores it.',
    },
    host: {
      enum: ['127.0.0.1', '::1', 'localhost'],
      default: '127.0.0.1',
      description: 'Loopback address to listen on.',
    },
    port: {
      type: 'integer',
      minimum: 0,
      maximum: 65_535,
      default: 8420,
      description: 'Port for agents; 0 for any free one.',
    },
    localAgent: {
      type: 'string',
      minLength: 1,
      maxLength: 64,
      description:
        'Name of an agent: programs of this machine that call `localPort` without a token count as it. Without it, that port is closed, unless `requireToken` is set.',
    },
    localPort: {
      type: 'integer',
      minimum: 0,
      maximum: 65_535,
      default: 8421,
      description:
        'Port for agents of this machine, as `tollgate proxy` has one on others; 0 for any free one.',
    },
    requireToken: {
      type: 'boolean',
      default: false,
      description: 'On `localPort`, too, agents show their own token; calls without one are refused.',
    },
    testnets: {
      type: 'boolean',
      default: false,
      description: 'Offer Base Sepolia and Solana Devnet, too.',
    },
    relay: {
      type: 'string',
      format: 'url',
      pattern: '^wss?://',
      examples: ['wss://relay.example.com'],
      description: 'Relay through which paired agents of other machines come in. Without it, none do.',
    },
    relayCa: {
      type: 'string',
      format: 'path',
      minLength: 1,
      description: "PEM file of the relay's certificate authority, where it has one of its own.",
    },
    solanaRpc: {
      type: 'string',
      format: 'url',
      pattern: '^https?://',
      writeOnly: true,
      description: 'Node for payments on Solana. Default: the public one.',
    },
    chains: {
      type: 'array',
      default: [],
      maxItems: 50,
      description:
        'Chains of your own beside Ethereum, Base and Solana. Agents may name them by `name`, in grants as `wallet.<name>`. None of them replaces a chain that the vault knows, and none may look like one.',
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['name', 'network', 'symbol', 'test', 'usualFee', 'maxFee'],
        description: 'One chain.',
        properties: {
          name: {
            type: 'string',
            pattern: '^[a-z](?:[a-z0-9-]{0,30}[a-z0-9])?$',
            description: 'What requests, rules and grants call it, such as `polygon`.',
          },
          title: {
            type: 'string',
            minLength: 1,
            maxLength: 40,
            description: 'What you are shown. Default: `name`.',
          },
          network: {
            type: 'string',
            format: 'caip2',
            description:
              'CAIP-2 id: `eip155:` and the chain id, or `solana:` and the first 32 characters of the genesis hash.',
          },
          symbol: { type: 'string', minLength: 1, maxLength: 16, description: 'Symbol of its own coin.' },
          decimals: {
            type: 'integer',
            minimum: 0,
            maximum: 18,
            description: 'Decimals of that coin. Default: 18, on Solana 9.',
          },
          test: {
            type: 'boolean',
            description:
              'Whether money there is for play. Such a chain has the addresses of test chains; with `false` it has those where money is real. A cluster of Solana has to be a test chain.',
          },
          usualFee: {
            type: 'string',
            format: 'decimal',
            description:
              'Highest fee of one transaction that a rule may approve without you, unless the rule says otherwise, in the coin.',
          },
          maxFee: {
            type: 'string',
            format: 'decimal',
            description: 'Highest fee of one transaction that is signed at all, in the coin.',
          },
          rpc: {
            type: 'string',
            format: 'url',
            pattern: '^https?://',
            writeOnly: true,
            description: 'Node for x402 payments on a cluster of Solana. Without it, none are made there.',
          },
        },
      },
    },
    assets: {
      type: 'array',
      default: [],
      maxItems: 500,
      description:
        'Tokens of your own beside USDC and USDT: claims and rules may name them by `symbol`. None of them replaces a token that the vault knows, and none may look like one on its chain.',
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['chain', 'symbol', 'address', 'decimals'],
        description: 'One token on one chain.',
        properties: {
          chain: { type: 'string', minLength: 1, description: 'Name of its chain, such as `solana`.' },
          symbol: {
            type: 'string',
            minLength: 1,
            maxLength: 16,
            description:
              'What claims and rules call it: up to 16 letters, digits, `$` and `.`, in this very case.',
          },
          address: {
            type: 'string',
            minLength: 1,
            description: 'Its contract, with the checksum in the case of its letters (EIP-55), or its mint.',
          },
          decimals: {
            type: 'integer',
            minimum: 0,
            maximum: 18,
            description: 'Its decimals, as the contract or mint has them.',
          },
          program: {
            enum: ['token', 'token-2022'],
            description: 'Program that owns the mint, on Solana. Default: `token`.',
          },
          eip712: {
            type: 'object',
            additionalProperties: false,
            required: ['name', 'version'],
            description:
              "The token's domain, on EVM chains: without it no permit and no x402 payment of it is understood.",
            properties: {
              name: { type: 'string', minLength: 1, description: '`name` of the domain.' },
              version: { type: 'string', minLength: 1, description: '`version` of the domain.' },
            },
          },
        },
      },
    },
    idleMinutes: {
      type: 'integer',
      minimum: 1,
      maximum: 10_080,
      default: 15,
      description: 'The vault locks after so many minutes without use.',
    },
    maxHours: {
      type: 'integer',
      minimum: 1,
      maximum: 168,
      default: 12,
      description: 'The vault locks after so many hours in any case.',
    },
    log: {
      type: 'object',
      additionalProperties: false,
      default: {},
      description:
        'How much of the log of activity is kept. The oldest entries go first, a file of up to 4 MiB at a time; what is left still verifies.',
      properties: {
        maxMegabytes: {
          type: 'integer',
          minimum: 16,
          maximum: 1_000_000,
          default: 256,
          description: 'Largest size of the log, in MiB; about 3,000 entries each.',
        },
        keepDays: {
          type: 'integer',
          minimum: 1,
          maximum: 36_500,
          description:
            'Entries older than so many days are dropped. Without it, they are kept while there is room.',
        },
      },
    },
    plugins: {
      type: 'array',
      default: [],
      maxItems: 50,
      description:
        'Plugins beside the built-in parts: approval channels and policies of your own. Inside one phase, the order here is the order of work. Each runs in a process of its own, away from keys and values, and can only make the vault stricter.',
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['use'],
        description: 'One plugin.',
        properties: {
          use: {
            type: 'string',
            minLength: 1,
            description: 'Name of a built-in plugin, of an npm package, or a file such as `./my-plugin.ts`.',
          },
          with: {
            type: 'object',
            additionalProperties: true,
            default: {},
            description: "The plugin's own options.",
          },
          mayAnswer: {
            type: 'boolean',
            description:
              'Whether the plugin may answer questions in your name, as an approval channel does. Only built-in ones may without it.',
          },
        },
      },
    },
    pluginEgress: {
      type: 'object',
      additionalProperties: false,
      default: {},
      description: 'Where plugins may connect to.',
      properties: {
        allowPrivateCidrs: {
          type: 'array',
          default: [],
          items: { type: 'string', format: 'cidr', description: 'An address range, such as 127.0.0.1/32.' },
          description:
            'Ranges that are not public and that plugins may connect to all the same, such as a server of your own. Empty: public addresses only.',
        },
      },
    },
  },
} as const satisfies OptionsSchema

/** A checked configuration of a vault. */
export type VaultConfig = Infer<typeof vaultConfigSchema>
