import type { Infer, OptionsSchema } from '../../core/plugin/options.ts'

/**
 * The schema of the vault's configuration file. It gives the type {@link VaultConfig}, the check, the defaults, the editor's
 * help and the reference in docs/reference/vault-configuration.md. A flag of `tollgate vault` takes precedence over the option
 * with the same name.
 */
export const vaultConfigSchema = {
  type: 'object',
  additionalProperties: false,
  title: 'Tollgate vault configuration',
  description: 'Configuration of a vault. Keys, agents and policies are stored in the vault, not here.',
  examples: [{ relay: 'wss://relay.example.com', idleMinutes: 30, testnets: true }],
  properties: {
    $schema: {
      type: 'string',
      description:
        'Address of the JSON Schema of this file, which text editors use for completion and checks. The vault ignores this option.',
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
      description: 'Port to which agents connect with their tokens. 0 picks a free port.',
    },
    localAgent: {
      type: 'string',
      minLength: 1,
      maxLength: 64,
      description:
        'Name of the agent as which programs on this machine act if they call `localPort` without a token. If neither `localAgent` nor `requireToken` is set, `localPort` is closed.',
    },
    localPort: {
      type: 'integer',
      minimum: 0,
      maximum: 65_535,
      default: 8421,
      description:
        'Port for programs on this machine that cannot send a token. The options `localAgent` and `requireToken` open this port. 0 picks a free port.',
    },
    requireToken: {
      type: 'boolean',
      default: false,
      description: 'Whether `localPort` is open only to agents that send their token.',
    },
    testnets: {
      type: 'boolean',
      default: false,
      description: 'Whether agents can also use the test chains Base Sepolia and Solana Devnet.',
    },
    relay: {
      type: 'string',
      format: 'url',
      pattern: '^wss?://',
      examples: ['wss://relay.example.com'],
      description:
        'Address of the relay, through which paired agents on other machines connect. Without this option, agents on other machines cannot connect.',
    },
    relayCa: {
      type: 'string',
      format: 'path',
      minLength: 1,
      description:
        'PEM file with the certificate authority of the relay. Needed only for a private certificate authority.',
    },
    solanaRpc: {
      type: 'string',
      format: 'url',
      pattern: '^https?://',
      writeOnly: true,
      description: 'URL of the RPC node for payments on Solana. Default: the public node.',
    },
    evmRpc: {
      type: 'object',
      additionalProperties: false,
      default: {},
      description:
        'RPC nodes of EVM chains, by which the vault proves what a payment cost, and gives the rest back to the budgets. Without a node of the chain, a payment counts with the most that it permits. Use a node that you trust, because a node that lies can raise what agents spend in a day.',
      examples: [{ base: 'https://base.example.com' }],
      properties: {
        ethereum: {
          type: 'string',
          format: 'url',
          pattern: '^https?://',
          writeOnly: true,
          description: 'URL of your RPC node of Ethereum.',
        },
        base: {
          type: 'string',
          format: 'url',
          pattern: '^https?://',
          writeOnly: true,
          description: 'URL of your RPC node of Base.',
        },
        'base-sepolia': {
          type: 'string',
          format: 'url',
          pattern: '^https?://',
          writeOnly: true,
          description: 'URL of your RPC node of Base Sepolia.',
        },
      },
    },
    chains: {
      type: 'array',
      default: [],
      maxItems: 50,
      description:
        'Chains in addition to Ethereum, Base and Solana. Agents name a chain by its `name` in requests, and by `wallet.<name>` in scopes. The vault does not start if a name exists already or looks like an existing name.',
      examples: [
        [
          {
            name: 'polygon',
            title: 'Polygon',
            network: 'eip155:137',
            symbol: 'POL',
            test: false,
            usualFee: '0.05',
            maxFee: '1',
          },
        ],
      ],
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['name', 'network', 'symbol', 'test', 'usualFee', 'maxFee'],
        description: 'One chain.',
        properties: {
          name: {
            type: 'string',
            pattern: '^[a-z](?:[a-z0-9-]{0,30}[a-z0-9])?$',
            description: 'Name in requests, policies and scopes, such as `polygon`.',
          },
          title: {
            type: 'string',
            minLength: 1,
            maxLength: 40,
            description: 'Display name. Default: `name`.',
          },
          network: {
            type: 'string',
            format: 'caip2',
            description:
              'CAIP-2 id: `eip155:` and the chain id, or `solana:` and the first 32 characters of the genesis hash.',
          },
          symbol: {
            type: 'string',
            minLength: 1,
            maxLength: 16,
            description: 'Symbol of the native asset of the chain.',
          },
          decimals: {
            type: 'integer',
            minimum: 0,
            maximum: 18,
            description:
              'Number of decimal places of the native asset. Default: 9 on Solana, 18 on other chains.',
          },
          test: {
            type: 'boolean',
            description:
              'Whether the chain is a test chain. The wallet has separate addresses on test chains. A Solana cluster must be a test chain.',
          },
          usualFee: {
            type: 'string',
            format: 'decimal',
            description:
              'Highest fee of a transaction that the vault signs without asking you, in the native asset. A policy can set another limit.',
          },
          maxFee: {
            type: 'string',
            format: 'decimal',
            description:
              'Highest fee of a transaction that the vault signs, in the native asset. The vault refuses a higher fee even if you approve the transaction.',
          },
          rpc: {
            type: 'string',
            format: 'url',
            pattern: '^https?://',
            writeOnly: true,
            description:
              'URL of the RPC node. On a Solana cluster, the vault refuses x402 payments without this option. On an EVM chain, see `evmRpc`.',
          },
        },
      },
    },
    assets: {
      type: 'array',
      default: [],
      maxItems: 500,
      description:
        'Tokens in addition to USDC and USDT. Requests and policies name a token by its `symbol`. The vault does not start if the chain already has a token with this symbol or a similar symbol.',
      examples: [
        [
          {
            chain: 'solana',
            symbol: 'TOLL',
            address: '93mCveArZRPXZqVkPmHBnNrmP27tyed2H5geuJkskxsp',
            decimals: 9,
            program: 'token-2022',
          },
        ],
      ],
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['chain', 'symbol', 'address', 'decimals'],
        description: 'One token on one chain.',
        properties: {
          chain: { type: 'string', minLength: 1, description: 'Name of the chain, such as `solana`.' },
          symbol: {
            type: 'string',
            minLength: 1,
            maxLength: 16,
            description:
              'Symbol of the token in requests and policies. A symbol has at most 16 characters (letters, digits, `$` and `.`) and is case-sensitive.',
          },
          address: {
            type: 'string',
            minLength: 1,
            description:
              'Address of the token contract with its checksum (EIP-55), or of the token mint (Solana).',
          },
          decimals: {
            type: 'integer',
            minimum: 0,
            maximum: 18,
            description: 'Number of decimal places of the token, as in the contract or mint.',
          },
          program: {
            enum: ['token', 'token-2022'],
            description:
              'Token program of the token on Solana: `token` for SPL Token, `token-2022` for Token-2022. Default: `token`.',
          },
          eip712: {
            type: 'object',
            additionalProperties: false,
            required: ['name', 'version'],
            description:
              'EIP-712 domain of the token contract (EVM). Without this option, the vault cannot decode permits and x402 payments of the token.',
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
      description: 'Number of minutes without use after which the vault locks.',
    },
    maxHours: {
      type: 'integer',
      minimum: 1,
      maximum: 168,
      default: 12,
      description: 'Number of hours after which the vault locks even if it is in use.',
    },
    log: {
      type: 'object',
      additionalProperties: false,
      default: {},
      description:
        'How much of the activity log the vault keeps. The vault deletes the oldest entries first, up to 4 MiB at a time. You can still verify the remaining entries.',
      examples: [{ maxMegabytes: 512 }],
      properties: {
        maxMegabytes: {
          type: 'integer',
          minimum: 16,
          maximum: 1_000_000,
          default: 256,
          description: 'Maximum size of the log, in MiB. One MiB has about 3,000 entries.',
        },
        keepDays: {
          type: 'integer',
          minimum: 1,
          maximum: 36_500,
          description:
            'Number of days after which the vault deletes log entries. Without this option, only `maxMegabytes` limits the log.',
        },
      },
    },
    plugins: {
      type: 'array',
      default: [],
      maxItems: 50,
      description:
        'Plugins, which ask for approvals through other channels or add rules of your own. Within a phase of a request, plugins run in the order of this list. Each plugin runs in its own process without access to keys and stored values. A plugin can refuse requests, but it cannot allow what your policies refuse.',
      examples: [[{ use: './quiet-hours.ts' }]],
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['use'],
        description: 'One plugin.',
        properties: {
          use: {
            type: 'string',
            minLength: 1,
            description:
              'Name of a built-in plugin or of an npm package, or path of a file such as `./my-plugin.ts`.',
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
              'Whether the plugin may approve and deny requests in your name, as an approval channel does. Built-in plugins do not need this option.',
          },
        },
      },
    },
    pluginEgress: {
      type: 'object',
      additionalProperties: false,
      default: {},
      description: 'The addresses to which plugins may connect.',
      examples: [{ allowPrivateCidrs: ['10.1.0.0/16'] }],
      properties: {
        allowPrivateCidrs: {
          type: 'array',
          default: [],
          items: { type: 'string', format: 'cidr', description: 'An address range, such as 127.0.0.1/32.' },
          description:
            'Private address ranges to which plugins may connect, such as the range of your own server. If the list is empty, plugins may connect only to public addresses.',
        },
      },
    },
  },
} as const satisfies OptionsSchema

/** A checked configuration of a vault. */
export type VaultConfig = Infer<typeof vaultConfigSchema>
