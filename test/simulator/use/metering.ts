import type { UsePrice } from '../../../core/domain/pricing.ts'
import { PRICE, type Signed } from '../buyers.ts'
import type { World } from '../world.ts'

/** In one seed of so many, links have a price by use. Gateways share no settling key in these. */
export const METERED_EVERY = 5
export const FIRST_METERED_SEED = 3
export const isMetered = (seed: number): boolean => seed % METERED_EVERY === FIRST_METERED_SEED

/** Index of the first link with a price by use. Its responses are held until the charge; those of the next link are streamed. */
export const FIRST_METERED = 2

/** What a call costs whose use is not known, in the smallest unit. */
const HELD_OTHERWISE = 70_000
const STREAMED_OTHERWISE = 20_000

/** The prices of the links from {@link FIRST_METERED} on. Their highest price is that of all links. */
export const usePrices: Readonly<Record<'held' | 'streamed', UsePrice>> = {
  held: { upTo: '0.10', by: 'header', otherwise: '0.07', stream: false },
  streamed: { upTo: '0.10', by: { pointer: '/used', each: '0.01' }, otherwise: '0.02', stream: true },
}

export const isStreamedLink = ({ link }: Pick<Signed, 'link'>): boolean => link === FIRST_METERED + 1
export const isMeteredLink = ({ link }: Pick<Signed, 'link'>): boolean => link >= FIRST_METERED

/** What a seller says about the use of one call. */
export interface Statement {
  /** The headers `Settlement-Overrides` of a held response. */
  readonly overrides: readonly string[]
  /** The JSON text of `used` in a streamed response. Null if the response has no such field. */
  readonly used: string | null
  /** What is charged for it, in the smallest unit. */
  readonly dueAtomic: number
  /** False if the statement has no amount that can be read, so that the link's `otherwise` is charged. */
  readonly isReadable: boolean
}

const stated = (dueAtomic: number, amount: string): Statement => ({
  overrides: [JSON.stringify({ amount })],
  used: null,
  dueAtomic,
  isReadable: true,
})

const unreadable = (...overrides: string[]): Statement => ({
  overrides,
  used: null,
  dueAtomic: HELD_OTHERWISE,
  isReadable: false,
})

const used = (dueAtomic: number, text: string): Statement => ({
  overrides: [],
  used: text,
  dueAtomic,
  isReadable: true,
})

const unused = (text: string | null): Statement => ({
  overrides: [],
  used: text,
  dueAtomic: STREAMED_OTHERWISE,
  isReadable: false,
})

/** Sellers that say less, nothing to pay, the most, more than the most, nonsense, and nothing. */
const heldStatements: readonly Statement[] = [
  stated(40_000, '40000'),
  stated(1, '1'),
  stated(25_000, '25%'),
  stated(30_000, '$0.03'),
  stated(0, '0'),
  stated(0, '0%'),
  stated(PRICE, String(PRICE)),
  stated(PRICE, '250000'),
  stated(PRICE, '900%'),
  unreadable('{"amount":"-5"}'),
  unreadable('{"amount":40000}'),
  unreadable('{"amount":"1e3"}'),
  unreadable('nonsense'),
  unreadable('{"amount":"1"}', '{"amount":"2"}'),
  unreadable(),
]

const streamedStatements: readonly Statement[] = [
  used(30_000, '3'),
  used(5_000, '0.5'),
  used(0, '0'),
  used(PRICE, '10'),
  used(PRICE, '25000'),
  unused('-4'),
  unused('1e3'),
  unused('{"tokens":3}'),
  unused(null),
]

export const statementOf = ({ scheduler }: World, isStreamed: boolean): Statement =>
  scheduler.pick(isStreamed ? streamedStatements : heldStatements)

/** How a stream ended, as its seller saw it. Null while it arrives, or if its process died. */
export type StreamEnd = 'whole' | 'left' | 'broken' | null

/** What one run of a seller has used, by a price by use. */
export interface RunUse {
  readonly statement: Statement
  readonly isStreamed: boolean
  /** Whether the whole document with the statement has been sent. A held response is always whole. */
  isSaid: boolean
  end: StreamEnd
}

/**
 * What the run costs, in the smallest unit. A buyer who leaves pays at least what an unknown use costs. A seller that breaks off
 * before it has said what was used gets nothing, and a process that dies during a stream charges nothing.
 *
 * @returns undefined if nothing is charged, and the payment is free again
 */
export function dueFor({ statement, isStreamed, isSaid, end }: RunUse): number | undefined {
  const { dueAtomic, isReadable } = statement
  if (!isStreamed) return dueAtomic
  switch (end) {
    case 'whole':
      return dueAtomic
    case 'left':
      return isSaid ? Math.max(dueAtomic, STREAMED_OTHERWISE) : STREAMED_OTHERWISE
    case 'broken':
      return isSaid && isReadable ? dueAtomic : undefined
    case null:
      return undefined
  }
}
