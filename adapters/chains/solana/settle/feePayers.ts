import { TollgateError } from '../../../../core/errors/error.ts'
import type { OwnKey } from '../../../../core/ports/chains/settler.ts'
import type { SigningKey } from '../../../../core/solana/signingKey.ts'
import { highestPriorityFee, lamportsPerSignature } from '../check/transfer.ts'
import type { ReadOptions } from '../options.ts'
import type { Rpc, WithContext } from '../rpc/createSolanaRpc.ts'
import { parseFeePayerKey } from './parseFeePayerKey.ts'

/** What an account without data must keep to exist (rent exemption), in lamports. */
const keptLamports = 890_880n
/** Fewer payments than this ahead is worth a word, and another fee payer is offered. */
export const LOW_PAYMENTS = 100n

/** Balances are read at most so often, in ms. */
const BALANCE_AGE_MS = 10_000
/** Before they are read for the next 402 of a gateway that nobody pays, in ms. */
const OFFER_AGE_MS = 30_000

/** The accounts that pay fees: any of them settles, and each payee is offered one. */
export interface FeePayers {
  readonly all: readonly OwnKey[]
  readonly addresses: readonly string[]
  /** The key of one. @param address as the transaction names it; whoever pays the fee itself needs none, and gets the first */
  keyOf(address: string): SigningKey
  /** What stands in the attempts that it signs. */
  idOf(address: string): string
  /**
   * What the 402 of a payee names: always the same one while that one has gas for a while, so that what payees have at once is
   * spread; transactions of one payee wait for each other by its own token account anyway. Then the next one that has some.
   */
  offer(payTo: string): { readonly feePayer: string }
  /** How many settlements one can pay for, as read lately. Rejects when no node says. */
  affords(address: string): Promise<bigint>
  /** What each has now, in lamports. Rejects when no node says. */
  balances(): Promise<readonly bigint[]>
}

/** @throws {TollgateError} `VALIDATION_ERROR` for a key that is none, or is there twice */
export function createFeePayers(options: ReadOptions, rpc: Rpc, inFlight: () => number): FeePayers {
  const { network, clock, log, privateKeys } = options
  const keys = privateKeys.map(parseFeePayerKey)
  const addresses = keys.map(({ address }) => address)
  const places = new Map(addresses.map((address, i) => [address, i]))
  if (places.size < keys.length)
    throw new TollgateError('VALIDATION_ERROR', `A fee payer key of ${network} is given twice.`)
  const offers = addresses.map((feePayer) => ({ feePayer }))
  /** Who has gas for a while, as far as is known. */
  let isLow: readonly boolean[] = keys.map(() => false)
  let asked: { readonly atMs: number; readonly balances: Promise<readonly bigint[]> } | undefined

  let underWay: Promise<readonly bigint[]> | undefined
  /** One for all who ask meanwhile: each key's look is one of all keys. */
  const read = (): Promise<readonly bigint[]> => {
    underWay ??= readAll().finally(() => {
      underWay = undefined
    })
    return underWay
  }

  const readAll = async (): Promise<readonly bigint[]> => {
    const answers = await rpc.many(
      addresses.map((address) => ({ method: 'getBalance', params: [address, { commitment: 'confirmed' }] })),
    )
    const balances = answers.map((answer) => {
      if (!answer.ok) throw answer.error
      return BigInt((answer.result as WithContext<number>).value)
    })
    const were = isLow
    isLow = balances.map((balance) => paymentsAhead(balance, options) < LOW_PAYMENTS)
    for (const [i, low] of isLow.entries())
      if (low !== were[i] && keys.length > 1)
        log.warn(
          { network, feePayer: addresses[i] },
          low ? 'a fee payer runs low; others are offered' : 'a fee payer has gas again',
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
  const place = (address: string): number => places.get(address) ?? 0

  return {
    addresses,
    idOf: (address) => idOf(addresses[place(address)]!),
    keyOf: (address) => keys[place(address)]!,
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
      return paymentsAhead((await lately(BALANCE_AGE_MS))[place(address)]!, options)
    },
    balances: read,
    all: addresses.map((address, i) => ({
      id: idOf(address),
      async look() {
        const balance = (await read())[i]!
        return {
          ...{ address, balance, nonce: null },
          ...{ paymentsLeft: paymentsAhead(balance, options), inFlight: inFlight() },
          ...(keys.length > 1 && isLow[i] && { trouble: runsLow }),
        }
      },
    })),
  }
}

const runsLow = { kind: 'low', words: 'It runs low; payees are offered the others.' } as const

/** How many settlements a fee payer with so much can pay for, each at the highest fee allowed. */
export function paymentsAhead(lamports: bigint, options: ReadOptions): bigint {
  const { maxComputeUnits, maxMicroLamportsPerUnit } = options
  const caps = { maxComputeUnits, maxMicroLamportsPerUnit: BigInt(maxMicroLamportsPerUnit) }
  const highestFee = 2n * lamportsPerSignature + highestPriorityFee(caps)
  return lamports <= keptLamports ? 0n : (lamports - keptLamports) / highestFee
}

/** Spreads payees evenly; the same on every gateway. FNV-1a. */
function sumOf(text: string): number {
  let sum = 0x811c9dc5
  for (let i = 0; i < text.length; i++) sum = Math.imul(sum ^ text.charCodeAt(i), 0x01000193)
  return sum >>> 0
}
