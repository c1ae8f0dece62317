import type { ArrayOption, MapOption, ObjectOption } from '../../plugin/options.ts'

const facilitator = {
  type: 'object',
  additionalProperties: false,
  description:
    'Who settles payments on this network: the gateway itself, with `privateKey` (or `privateKeys`) and `rpcUrls`, or another server, with `url`. Exactly one of these.',
  properties: {
    privateKey: {
      type: 'string',
      minLength: 1,
      writeOnly: true,
      examples: [`\${TOLLGATE_FACILITATOR_EVM_KEY}`],
      description:
        "Key of the account that pays the network fees, from the environment: 0x and 64 hex digits (EVM), or base58 or a JSON array of 64 bytes (Solana). Keep little on that account; it never receives buyers' money.",
    },
    privateKeys: {
      type: 'array',
      minItems: 1,
      maxItems: 64,
      items: {
        type: 'string',
        minLength: 1,
        writeOnly: true,
        description: 'One key, in the forms of `privateKey`, from the environment.',
      },
      description:
        'In the place of `privateKey`: several keys, each with an account and a balance of its own. Settlements are spread over those that can pay, and one that is out of gas or stuck is passed over. Gateways on one database need the same list. On Solana each payee is offered one of them as `feePayer`, and payments signed for any of them are taken.',
    },
    maxGas: {
      type: 'integer',
      minimum: 21_000,
      default: 600_000,
      description:
        'Most gas that settling one payment may use (EVM). A payment that needs more is refused. A payment with a plain signature needs 85,000 and gets at most 300,000; one that makes its wallet needs some 430,000.',
    },
    maxPaymentsPerTransaction: {
      type: 'integer',
      minimum: 1,
      maximum: 64,
      default: 32,
      description:
        'Payments that come at the same time and are settled by one transaction, where the chain has Multicall3 (EVM). Each has its own proof and outcome; wallets that are contracts are settled alone. 1: every payment has a transaction of its own.',
    },
    gatherMs: {
      type: 'integer',
      minimum: 0,
      maximum: 1_000,
      default: 5,
      description:
        'How long a payment waits for others that it could be settled with, in milliseconds (EVM); each that comes begins it anew, up to ten times as long. One that is alone on its way waits for nobody.',
    },
    maxFeePerGasGwei: {
      type: 'number',
      exclusiveMinimum: 0,
      default: 2,
      description:
        'Most that is paid for a unit of gas, in gwei (EVM). Settling waits while the network asks more.',
    },
    minPrice: {
      type: 'string',
      format: 'decimal',
      default: '0.0001',
      description:
        'Lowest price of a link that is settled here, in USDC, in quotes: each settlement costs this account gas. A cheaper link is not offered on this network, and its seller is told.',
    },
    maxInFlight: {
      type: 'integer',
      minimum: 1,
      maximum: 20_000,
      default: 1_024,
      description:
        'Payments on their way at once on this network, of all payers and by all keys. Where they are all taken, one that has waited for its seller for two seconds gives way to one of a store that has fewer. More are refused for the moment (503) before the seller is asked. Those that stay open and can cost no gas here, such as all that a facilitator settles, count against their payer only; while 20,000 are open, payers who have not paid since the process began are refused for the moment as well.',
    },
    maxInFlightPerPayer: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000,
      default: 100,
      description:
        "Payments of one payer on their way at once. Their sum may not be more than the payer's balance either. More are refused for the moment (503) before the seller is asked.",
    },
    maxFailuresPerPayer: {
      type: 'integer',
      minimum: 1,
      maximum: 10_000,
      default: 100,
      description:
        'Settlements of one payer that may fail in ten minutes; one on its way counts as failed until it has settled. Then this payer is refused.',
    },
    maxGasPerStoreAndDay: {
      type: 'number',
      exclusiveMinimum: 0,
      description:
        "Most that the settlements of one store may cost in a day (UTC), in the network's coin. Then its payments are refused until midnight. Without it, 0.05 (ETH) on EVM networks and 1 (SOL) on Solana: some ten thousand settlements on Base or Solana.",
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
        "Wallet factories that may be called to deploy a buyer's contract wallet with its first payment (ERC-6492). This account pays for the call, so only those listed are called. Default: Coinbase Smart Wallet 1.1 and 1. Empty: none.",
    },
    maxComputeUnits: {
      type: 'integer',
      minimum: 1_000,
      maximum: 1_400_000,
      default: 400_000,
      description: 'Most compute units that a payment may ask for (Solana).',
    },
    maxMicroLamportsPerUnit: {
      type: 'integer',
      minimum: 0,
      default: 200_000,
      description:
        'Highest priority fee that a payment may set, in millionths of a lamport per unit (Solana).',
    },
    url: {
      type: 'string',
      format: 'url',
      pattern: '^https?://',
      description: 'Base URL of an x402 facilitator that verifies and settles for you.',
    },
    headers: {
      type: 'object',
      additionalProperties: { type: 'string', writeOnly: true, description: 'Value of the header.' },
      propertyNames: { pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" },
      default: {},
      description:
        'Headers sent to that facilitator, such as `authorization`. Values belong in the environment.',
    },
  },
} as const satisfies ObjectOption

export const networksSection = {
  type: 'object',
  default: {},
  propertyNames: { format: 'caip2' },
  description:
    'The networks that links can be paid on, by CAIP-2 id: `eip155:8453` is Base, `eip155:84532` Base Sepolia, `solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp` Solana, `solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1` its devnet.',
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
          'Nodes to ask, the preferred one first; the next takes over when it fails. At least one with `facilitator.privateKey`.',
      },
      wsUrl: {
        type: 'string',
        format: 'url',
        pattern: '^wss?://[^#]*$',
        writeOnly: true,
        description: 'WebSocket URL of a node: settlements are noticed sooner. Not needed.',
      },
      confirmations: {
        type: 'integer',
        minimum: 1,
        maximum: 1_000,
        default: 1,
        description: 'Blocks, that of the payment included, after which a payment counts as settled (EVM).',
      },
      settleTimeoutMs: {
        type: 'integer',
        minimum: 100,
        maximum: 600_000,
        default: 12_000,
        description:
          'How long a call waits for its settlement, in milliseconds, before it is answered `settlement_pending`; the payment goes on by itself. Common clients give up after 15 seconds.',
      },
      firstPollMs: {
        type: 'integer',
        minimum: 1,
        maximum: 60_000,
        default: 10,
        description:
          'Least time between two looks whether a settlement has landed, and before the first one, in milliseconds. On a chain that takes longer the looks follow what it took lately: a few for each payment, shared by all that wait.',
      },
      pollMs: {
        type: 'integer',
        minimum: 10,
        maximum: 60_000,
        default: 1_000,
        description:
          'Most time between two such looks, in milliseconds: how often a settlement is looked for that does not land.',
      },
      facilitator,
    },
  },
} as const satisfies MapOption

const payToOption = (where: string) =>
  ({
    type: 'string',
    minLength: 1,
    description: `The operator's wallet ${where}. Without it fees that are owed there are paid some other way, and stay in the books as owed.`,
  }) as const

export const feesSection = {
  type: 'object',
  additionalProperties: false,
  default: {},
  description:
    "Where sellers pay the fees that they owe. Buyers pay a seller's own wallet, so the fee of a sale is booked as owed, and paid later by an invoice.",
  properties: {
    payTo: {
      type: 'object',
      additionalProperties: false,
      default: {},
      description: 'Wallets that invoices of fees are paid to. Not secret: sellers see them when they pay.',
      properties: {
        base: payToOption('on Base and other EVM networks: 0x and 40 hexadecimal digits, in quotes'),
        solana: payToOption('on Solana, in base58: the wallet, not one of its token accounts'),
      },
    },
  },
} as const satisfies ObjectOption

export const assetsSection = {
  type: 'array',
  default: [],
  description:
    'Tokens that links can be paid in. USDC on the networks named above is built in; entries here add to it, and an entry with the address of a built-in token changes that one.',
  items: {
    type: 'object',
    additionalProperties: false,
    required: ['network', 'address'],
    description: 'One token on one network.',
    properties: {
      network: {
        type: 'string',
        format: 'caip2',
        description: 'CAIP-2 id of the network; it has to be in `networks`.',
      },
      address: {
        type: 'string',
        minLength: 1,
        description: 'Contract of the token (EVM, in quotes) or its mint (Solana).',
      },
      symbol: {
        type: 'string',
        minLength: 1,
        maxLength: 16,
        description: 'Short name, such as `USDC`. Required unless the token is built in.',
      },
      decimals: {
        type: 'integer',
        minimum: 0,
        maximum: 24,
        description: 'Digits after the point of one whole unit. Required unless the token is built in.',
      },
      eip712: {
        type: 'object',
        additionalProperties: false,
        required: ['name', 'version'],
        description: 'Signing domain of the token contract (EVM). Required unless the token is built in.',
        properties: {
          name: { type: 'string', minLength: 1, description: 'Name in the domain, such as `USD Coin`.' },
          version: { type: 'string', minLength: 1, description: 'Version in the domain, in quotes: `"2"`.' },
        },
      },
      program: {
        enum: ['token', 'token-2022'],
        description: 'Token program that owns the mint (Solana). Without it, `token`.',
      },
      feeBps: {
        type: 'integer',
        minimum: 0,
        maximum: 10_000,
        default: 500,
        description: "The platform's fee in hundredths of a percent: 500 are 5 %.",
      },
      usdPerUnit: {
        type: 'string',
        format: 'decimal',
        default: '1',
        description: 'What one whole unit is worth in USDC, in quotes; prices are converted at this rate.',
      },
    },
  },
} as const satisfies ArrayOption
