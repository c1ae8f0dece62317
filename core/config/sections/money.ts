import type { ArrayOption, MapOption, ObjectOption } from '../../plugin/options.ts'

const facilitator = {
  type: 'object',
  additionalProperties: false,
  description:
    'How payments are settled (sent to the chain) on this network. Set exactly one of `privateKey`, `privateKeys` and `url`. With a key, the gateway settles payments itself and also needs `rpcUrls`. With `url`, another server settles payments.',
  properties: {
    privateKey: {
      type: 'string',
      minLength: 1,
      writeOnly: true,
      examples: [`\${TOLLGATE_FACILITATOR_EVM_KEY}`],
      description:
        "Private key of the account that pays the network fees of settlements. The account never receives buyers' money, so keep little money on it. Read the key from the environment. On EVM networks, the key is 0x and 64 hexadecimal digits. On Solana, the key is base58 text or a JSON array of 64 bytes.",
    },
    privateKeys: {
      type: 'array',
      minItems: 1,
      maxItems: 64,
      items: {
        type: 'string',
        minLength: 1,
        writeOnly: true,
        description: 'One private key in the same form as `privateKey`. Read the key from the environment.',
      },
      description:
        'Several private keys instead of `privateKey`, each with its own account. The gateway spreads settlements over these keys and skips a key that is stuck or out of gas. All gateways that share a database need the same list. On Solana, each offer names one of these accounts as `feePayer`, and the gateway accepts payments that name any of these accounts.',
    },
    maxGas: {
      type: 'integer',
      minimum: 21_000,
      default: 600_000,
      description:
        'Maximum gas for the settlement of one payment (EVM). The gateway refuses a payment that needs more gas. A payment with an ordinary wallet signature needs 85,000 gas, and its limit is never above 300,000 gas. A payment that also deploys the wallet of the buyer needs about 430,000 gas.',
    },
    maxPaymentsPerTransaction: {
      type: 'integer',
      minimum: 1,
      maximum: 64,
      default: 32,
      description:
        'Maximum number of payments that the gateway settles in one transaction (EVM). Each payment succeeds or fails separately. The payment of a contract wallet always has its own transaction. On a chain without the contract Multicall3, every payment has its own transaction.',
    },
    batchWindowMs: {
      type: 'integer',
      minimum: 0,
      maximum: 1_000,
      default: 5,
      description:
        'How long the gateway waits for further payments for the same transaction, in milliseconds (EVM). Each further payment restarts the wait, which lasts at most ten times this value. If no other payment is queued, the gateway sends a payment at once.',
    },
    maxFeePerGasGwei: {
      type: 'number',
      exclusiveMinimum: 0,
      description:
        'Maximum fee that the gateway pays for one unit of gas, in gwei (EVM). While the network demands a higher fee, settlements wait. Default: 40 on Ethereum, 500 on Polygon, 50 on Avalanche, and 2 on other networks.',
    },
    priorityFeePerGasGwei: {
      type: 'number',
      minimum: 0,
      description:
        'Tip that the gateway pays for one unit of gas besides the base fee, in gwei (EVM). `maxFeePerGasGwei` includes the tip. Default: 1 on Ethereum, 30 on Polygon, 0 on Arbitrum One, and 0.001 on other networks.',
    },
    minPrice: {
      type: 'string',
      format: 'decimal',
      default: '0.0001',
      description:
        'Lowest price of a link that buyers can pay on this network, in USDC and in quotes. A minimum is useful because each settlement costs you gas. If a link is cheaper, the gateway does not offer this network to buyers and notifies the seller. A price by use is compared by the most that a call costs, so a call can be charged less. `maxGasPerStoreAndDay` limits the gas of such calls.',
    },
    maxInFlight: {
      type: 'integer',
      minimum: 1,
      maximum: 20_000,
      default: 1_024,
      description:
        'Maximum number of payments in flight on this network, for all payers and keys together. A payment is in flight from its verification until it has settled or failed. Above this limit, calls get 503 before the gateway calls the seller. At this limit, the gateway may refuse a payment that has waited two seconds for its seller, to make room for a store with fewer payments in flight. Payments that cost the gateway no gas, for example because a remote facilitator settles them, do not count against this limit. While 20,000 payments without gas are open, a payer who has not paid since the process started also gets 503.',
    },
    maxInFlightPerPayer: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000,
      default: 100,
      description:
        "Maximum number of payments in flight of one payer. A payment is in flight from its verification until it has settled or failed. The payer's balance must also cover all of its payments in flight. Otherwise, further calls get 503 before the gateway calls the seller.",
    },
    maxFailuresPerPayer: {
      type: 'integer',
      minimum: 1,
      maximum: 10_000,
      default: 100,
      description:
        'How many settlements of one payer may fail in ten minutes before the gateway refuses payments of this payer. A payment counts as failed until it has settled.',
    },
    maxGasPerStoreAndDay: {
      type: 'number',
      exclusiveMinimum: 0,
      description:
        "Maximum network fees that the gateway pays for the settlements of one store in a day (UTC), in the network's coin. Above this maximum, the gateway refuses payments to this store until midnight UTC. Default: 100 POL on Polygon, 2 AVAX on Avalanche, 0.05 of the coin on other EVM networks, such as 0.05 ETH, and 1 SOL on Solana. On Base and Solana, this pays for about 10,000 settlements.",
    },
    factories: {
      type: 'array',
      default: ['0xBA5ED110eFDBa3D005bfC882d75358ACBbB85842', '0x0BA5ED0c6AA8c49038F819E587E2633c4A9F428a'],
      items: {
        type: 'string',
        pattern: '^0x[0-9a-fA-F]{40}$',
        description: 'Address of a wallet factory contract.',
      },
      description:
        "Factory contracts that the gateway may call to deploy a buyer's contract wallet together with its first payment (ERC-6492). The gateway pays the gas of this call, so it calls only the listed factories. Default: Coinbase Smart Wallet, versions 1 and 1.1. If the list is empty, the gateway calls no factory.",
    },
    maxComputeUnits: {
      type: 'integer',
      minimum: 1_000,
      maximum: 1_400_000,
      default: 400_000,
      description: 'Maximum compute units that the transaction of a payment may request (Solana).',
    },
    maxMicroLamportsPerUnit: {
      type: 'integer',
      minimum: 0,
      default: 200_000,
      description:
        'Highest priority fee that the transaction of a payment may set, in millionths of a lamport per compute unit (Solana).',
    },
    url: {
      type: 'string',
      format: 'url',
      pattern: '^https?://',
      description:
        'Base URL of a remote x402 facilitator, which is a server that verifies and settles payments.',
    },
    headers: {
      type: 'object',
      additionalProperties: { type: 'string', writeOnly: true, description: 'Value of the header.' },
      propertyNames: { pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" },
      default: {},
      description:
        'Headers that the gateway sends to the facilitator at `url`, such as `authorization`. Read secret values from the environment.',
    },
  },
} as const satisfies ObjectOption

const channels = {
  type: 'object',
  additionalProperties: false,
  required: ['authorizerKeys'],
  description:
    'Payment channels (x402 scheme `batch-settlement`, EVM): a buyer deposits once, then pays each call by a signed voucher without a transaction. Without this section, links are not offered by channels. Channels need `facilitator.privateKey` or `facilitator.privateKeys`.',
  properties: {
    authorizerKeys: {
      type: 'array',
      minItems: 1,
      maxItems: 16,
      items: {
        type: 'string',
        minLength: 1,
        writeOnly: true,
        description: 'One private key, 0x and 64 hexadecimal digits. Read the key from the environment.',
      },
      description:
        "Private keys that sign claims and refunds of channels. These keys need no coins, and can move money only to the seller of a channel and back to its buyer. Buyers get the first key's account in the offer. To change the key, put the new key first and keep the old keys, because each channel needs its key as long as it has money.",
    },
    withdrawDelaySeconds: {
      type: 'integer',
      minimum: 3_600,
      maximum: 2_592_000,
      default: 86_400,
      description:
        'Time between the request of a buyer to withdraw the deposit and the withdrawal, in seconds. The gateway claims what it has sold within this time. A change applies to new channels, and links accept no vouchers of channels with another delay.',
    },
    minDeposit: {
      type: 'string',
      format: 'decimal',
      default: '0.1',
      description:
        'Smallest deposit, in USDC and in quotes. A minimum is useful because the gateway pays the gas of each deposit and refund.',
    },
    claimAmount: {
      type: 'string',
      format: 'decimal',
      default: '1',
      description: 'Unclaimed amount of a channel from which the gateway claims it, in USDC and in quotes.',
    },
    claimAfterMs: {
      type: 'integer',
      minimum: 1_000,
      maximum: 604_800_000,
      default: 21_600_000,
      description:
        'Age of the oldest unclaimed call of a channel from which the gateway claims the channel, in milliseconds. The gateway claims many channels in one transaction.',
    },
    watchMs: {
      type: 'integer',
      minimum: 1_000,
      maximum: 60_000,
      default: 30_000,
      description:
        'Time between two checks of the channels on chain for withdrawals and due claims, in milliseconds.',
    },
  },
} as const satisfies ObjectOption

export const networksSection = {
  type: 'object',
  default: {},
  propertyNames: { format: 'caip2' },
  description:
    'The networks on which buyers can pay. Each network is named by its CAIP-2 id: `eip155:8453` is Base, `eip155:84532` is Base Sepolia, `solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp` is Solana, and `solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1` is Solana Devnet.',
  examples: [
    {
      'eip155:8453': {
        rpcUrls: ['https://base.example.com'],
        facilitator: { privateKey: `\${TOLLGATE_FACILITATOR_EVM_KEY}`, minPrice: '0.001' },
      },
    },
  ],
  additionalProperties: {
    type: 'object',
    additionalProperties: false,
    required: ['facilitator'],
    description: 'One network.',
    properties: {
      rpcUrls: {
        type: 'array',
        default: [],
        items: {
          type: 'string',
          format: 'url',
          pattern: '^https?://',
          writeOnly: true,
          description: 'URL of a JSON-RPC node.',
        },
        description:
          'URLs of JSON-RPC nodes of this network, in order of preference. If a node fails, the gateway uses the next node. Required with `facilitator.privateKey` or `facilitator.privateKeys`.',
      },
      wsUrl: {
        type: 'string',
        format: 'url',
        pattern: '^wss?://[^#]*$',
        writeOnly: true,
        description:
          'WebSocket URL of a node of this network. With this URL, the gateway detects sooner that a payment has settled.',
      },
      confirmations: {
        type: 'integer',
        minimum: 1,
        maximum: 1_000,
        default: 1,
        description:
          'Number of blocks after which a payment counts as settled (EVM). The block that contains the payment is the first one, so with 1 a payment counts as settled in its own block.',
      },
      settleTimeoutMs: {
        type: 'integer',
        minimum: 100,
        maximum: 600_000,
        default: 12_000,
        description:
          'How long a call waits for the settlement of its payment, in milliseconds. After this time, the call gets `settlement_pending`, and the settlement continues without the call. Common clients give up after 15 seconds.',
      },
      firstPollMs: {
        type: 'integer',
        minimum: 1,
        maximum: 60_000,
        default: 10,
        description:
          'Time before the first check whether a payment has settled, and shortest time between two checks, in milliseconds. On slower chains, the gateway waits as long as recent settlements suggest.',
      },
      pollMs: {
        type: 'integer',
        minimum: 10,
        maximum: 60_000,
        default: 1_000,
        description: 'Longest time between two checks whether a payment has settled, in milliseconds.',
      },
      facilitator,
      channels,
    },
  },
} as const satisfies MapOption

const payToOption = (where: string) =>
  ({
    type: 'string',
    minLength: 1,
    description: `Your wallet ${where}. Without this option, sellers cannot pay invoices on these networks, and still owe these fees.`,
  }) as const

export const feesSection = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description:
    'How sellers pay your fees. Buyers pay the wallet of the seller directly, so the gateway records the fee of each sale as owed. The seller pays the owed fees later by an invoice.',
  examples: [{ payTo: { base: `\${FEES_WALLET_BASE}`, solana: `\${FEES_WALLET_SOLANA}` } }],
  properties: {
    payTo: {
      type: 'object',
      additionalProperties: false,
      default: {},
      description:
        'Your wallets, to which sellers pay fee invoices. These addresses are not secret, because sellers see them when they pay.',
      properties: {
        base: payToOption('on Base and other EVM networks, as 0x and 40 hexadecimal digits, in quotes'),
        solana: payToOption(
          'on Solana, in base58. Use the address of the wallet, not of one of its token accounts',
        ),
      },
    },
  },
} as const satisfies ObjectOption

export const assetsSection = {
  type: 'array',
  default: [],
  description:
    'Tokens with which buyers can pay, in addition to the built-in USDC. USDC is built in on Base, Base Sepolia, Ethereum, Polygon, Arbitrum One, Avalanche, Solana and Solana Devnet. An entry with the address of a built-in USDC overrides its values. EURC on Base and Base Sepolia needs only its address and `usdPerUnit`.',
  examples: [
    [
      {
        network: 'eip155:8453',
        address: '0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42',
        usdPerUnit: '1.08',
      },
    ],
  ],
  items: {
    type: 'object',
    additionalProperties: false,
    required: ['network', 'address'],
    description: 'One token on one network.',
    properties: {
      network: {
        type: 'string',
        format: 'caip2',
        description: 'CAIP-2 id of the network. The network must be listed in `networks`.',
      },
      address: {
        type: 'string',
        minLength: 1,
        description: 'Address of the token contract (EVM, in quotes) or of the token mint (Solana).',
      },
      symbol: {
        type: 'string',
        minLength: 1,
        maxLength: 16,
        description: 'Short name, such as `USDC`. Required, except for USDC and EURC.',
      },
      decimals: {
        type: 'integer',
        minimum: 0,
        maximum: 24,
        description: 'Number of decimal places of the token. Required, except for USDC and EURC.',
      },
      eip712: {
        type: 'object',
        additionalProperties: false,
        required: ['name', 'version'],
        description:
          'EIP-712 domain of the token contract (EVM), which is part of each signed payment. Required, except for USDC and EURC and with `transferMethod: permit2` without `hasPermit`.',
        properties: {
          name: { type: 'string', minLength: 1, description: '`name` of the domain, such as `USD Coin`.' },
          version: {
            type: 'string',
            minLength: 1,
            description: '`version` of the domain, in quotes, such as `"2"`.',
          },
        },
      },
      transferMethod: {
        enum: ['eip3009', 'permit2'],
        description:
          'How buyers pay with the token (EVM): `eip3009` by a signature for the token, `permit2` by a signature for the Permit2 contract. With `permit2`, each buyer first has to allow Permit2 to move the token, so use it only for tokens without EIP-3009. Default: `eip3009`.',
      },
      hasPermit: {
        type: 'boolean',
        description:
          'Whether the token has EIP-2612 permits (EVM). If so, a buyer who pays by Permit2 can allow it by a signature, which the gateway sends together with the payment (x402 extension `eip2612GasSponsoring`). The gateway then pays the gas of both. Default: true for USDC and EURC, false for other tokens.',
      },
      program: {
        enum: ['token', 'token-2022'],
        description:
          'Token program of the token on Solana: `token` for SPL Token, `token-2022` for Token-2022. Default: `token`.',
      },
      feeBps: {
        type: 'integer',
        minimum: 0,
        maximum: 10_000,
        default: 500,
        description: 'Your fee for sales in this token, in hundredths of a percent of the price. 500 is 5 %.',
      },
      usdPerUnit: {
        type: 'string',
        format: 'decimal',
        description:
          'Value of one whole token in USDC, in quotes. The gateway uses this rate to convert prices, which sellers set in USDC. Required for EURC. Default: 1.',
      },
    },
  },
} as const satisfies ArrayOption
