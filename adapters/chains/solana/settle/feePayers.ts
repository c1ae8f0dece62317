import { base58 } from '@scure/base'
import { TollgateError } from '../../../../core/errors/error.ts'
import type { OwnKey } from '../../../../core/ports/chains/settler.ts'
import { readSigningKey, type SigningKey } from '../../../../core/solana/ed25519.ts'
import { highestPriorityFee, LAMPORTS_PER_SIGNATURE } from '../check/transfer.ts'
import type { ReadOptions } from '../options.ts'
import type { Rpc, WithContext } from '../rpc/nodes.ts'

/** Balance that an account without data must keep to exist (rent exemption), in lamports. */
const RESERVED_LAMPORTS = 890_880n
/** If a fee payer can pay for fewer payments than this, the gateway logs it and offers another fee payer. */
export const LOW_PAYMENTS = 100n

/** Longest age of a balance that is used, in ms. */
const BALANCE_AGE_MS = 10_000
/** Longest age of a balance in ms, for the 402 of a gateway without payments in flight. */
const OFFER_AGE_MS = 30_000

/** The accounts that pay fees. Any of them can settle. The 402 of each payee names one of them. */
export interface FeePayers {
  readonly all: readonly OwnKey[]
  readonly addresses: readonly string[]
  /**
   * The key of a fee payer.
   * @param address the account that the transaction names. If that is the payer, no key is needed, so the first key is returned.
   */
  keyOf(address: string): SigningKey
  /** The settler id in the attempts that this fee payer signs. */
  idOf(address: string): string
  /**
   * The fee payer in the 402 of a payee. It is always the same one while it has enough gas. Otherwise it is the next one that has.
   * Payees are spread over the fee payers, because transactions with the same fee payer wait for each other. Transactions of one
   * payee wait for the payee's token account anyway.
   */
  offer(payTo: string): { readonly feePayer: string }
  /** How many settlements the fee payer can pay for, by a recent balance. Rejects if no node responds. */
  affords(address: string): Promise<bigint>
  /** The current balance of each fee payer, in lamports. Rejects if no node responds. */
  balances(): Promise<readonly bigint[]>
}

/** @throws {TollgateError} `VALIDATION_ERROR` for an invalid or duplicate key */
export function createFeePayers(options: ReadOptions, rpc: Rpc, inFlight: () => number): FeePayers {
  const { network, clock, log, privateKeys } = options
  const keys = privateKeys.map(parseFeePayerKey)
  const addresses = keys.map(({ address }) => address)
  const indexes = new Map(addresses.map((address, i) => [address, i]))
  if (indexes.size < keys.length)
    throw new TollgateError(
      'VALIDATION_ERROR',
      `Expected different fee payer keys for ${network}, but one key is given twice.`,
    )
  const offers = addresses.map((feePayer) => ({ feePayer }))
  /** Which fee payers had a low balance at the last reading. */
  let isLow: readonly boolean[] = keys.map(() => false)
  let asked: { readonly atMs: number; readonly balances: Promise<readonly bigint[]> } | undefined

  let underWay: Promise<readonly bigint[]> | undefined
  /** Reads the balances of all keys in one request, shared by concurrent callers. */
  const read = (): Promise<readonly bigint[]> => {
    underWay ??= readAll().finally(() => {
      underWay = undefined
    })
    return underWay
  }

  const readAll = async (): Promise<readonly bigint[]> => {
    const responses = await rpc.many(
      addresses.map((address) => ({ method: 'getBalance', params: [address, { commitment: 'confirmed' }] })),
    )
    const balances = responses.map((response) => {
      if (!response.ok) throw response.error
      return BigInt((response.result as WithContext<number>).value)
    })
    const were = isLow
    isLow = balances.map((balance) => paymentsAhead(balance, options) < LOW_PAYMENTS)
    for (const [i, low] of isLow.entries())
      if (low !== were[i] && keys.length > 1)
        log.warn(
          { network, feePayer: addresses[i] },
          low ? 'a fee payer runs low, so other fee payers are offered' : 'a fee payer has gas again',
        )
    return balances
  }

  const lately = (ageMs: number): Promise<readonly bigint[]> => {
    if (asked !== undefined && Math.abs(clock.now() - asked.atMs) < ageMs) return asked.balances
    const balances = read()
    const own = { atMs: clock.now(), balances }
    balances.catch(() => {
      if (asked === own) asked = undefined
    })
    asked = own
    return balances
  }

  const idOf = (address: string): string => `svm:${network}:${address}`
  const index = (address: string): number => indexes.get(address) ?? 0

  return {
    addresses,
    idOf: (address) => idOf(addresses[index(address)]!),
    keyOf: (address) => keys[index(address)]!,
    offer(payTo) {
      if (keys.length === 1) return offers[0]!
      void lately(OFFER_AGE_MS).catch(() => undefined)
      const first = sumOf(payTo) % keys.length
      for (let i = 0; i < keys.length; i++) {
        const at = (first + i) % keys.length
        if (!isLow[at]) return offers[at]!
      }
      return offers[first]!
    },
    async affords(address) {
      return paymentsAhead((await lately(BALANCE_AGE_MS))[index(address)]!, options)
    },
    balances: read,
    all: addresses.map((address, i) => ({
      id: idOf(address),
      async readState() {
        const balance = (await read())[i]!
        return {
          address,
          balance,
          nonce: null,
          paymentsLeft: paymentsAhead(balance, options),
          inFlight: inFlight(),
          ...(keys.length > 1 && isLow[i] && { trouble: runsLow }),
        }
      },
    })),
  }
}

const runsLow = {
  kind: 'low',
  words: 'This fee payer is running low, so buyers are offered the others.',
} as const

/** How many settlements this balance can pay for, each at the highest fee that is allowed. */
export function paymentsAhead(lamports: bigint, options: ReadOptions): bigint {
  const { maxComputeUnits, maxMicroLamportsPerUnit } = options
  const caps = { maxComputeUnits, maxMicroLamportsPerUnit: BigInt(maxMicroLamportsPerUnit) }
  const highestFee = 2n * LAMPORTS_PER_SIGNATURE + highestPriorityFee(caps)
  return lamports <= RESERVED_LAMPORTS ? 0n : (lamports - RESERVED_LAMPORTS) / highestFee
}

/** FNV-1a hash. It spreads payees evenly and in the same way on every gateway. */
function sumOf(text: string): number {
  let sum = 0x811c9dc5
  for (let i = 0; i < text.length; i++) sum = Math.imul(sum ^ text.charCodeAt(i), 0x01000193)
  return sum >>> 0
}

/**
 * Reads a fee payer's secret. It has 64 bytes (seed and public key), as base58 like in wallets, or as a JSON array of numbers like
 * in `solana-keygen`.
 *
 * @throws {TollgateError} `VALIDATION_ERROR` that names the expected form and never contains the secret
 */
export function parseFeePayerKey(secret: string): SigningKey {
  const bytes = readSecret(secret.trim())
  if (bytes?.length !== 64) {
    throw new TollgateError(
      'VALIDATION_ERROR',
      'Expected the fee payer key of Solana as 64 bytes in base58 or as a JSON array of 64 numbers. Create one with `solana-keygen new`.',
    )
  }
  const key = readSigningKey(bytes)
  if (key !== undefined) return key
  throw new TollgateError(
    'VALIDATION_ERROR',
    'The two halves of the fee payer key of Solana do not belong together, because the second must be the public key of the first. Copy the key again.',
  )
}

function readSecret(secret: string): Uint8Array | undefined {
  try {
    if (!secret.startsWith('[')) return base58.decode(secret)
    const numbers: unknown = JSON.parse(secret)
    const isBytes = Array.isArray(numbers) && numbers.every((n) => Number.isInteger(n) && n >= 0 && n <= 255)
    return isBytes ? Uint8Array.from(numbers as number[]) : undefined
  } catch {
    // The error is dropped, because it may contain the secret.
    return undefined
  }
}
