import { parseAmount } from '../domain/money.ts'
import type { TokenRates, UseMeasure, UsePrice } from '../domain/pricing.ts'
import { type Pointer, pointerOf } from './bodyFacts.ts'
import { EventScanner } from './eventScanner.ts'
import { type JsonListener, JsonScanner } from './jsonScanner.ts'
import { TokenCounts } from './tokenCounts.ts'
import { dividedUp, readDecimal, readSettlementOverrides, type UseCharge } from './useCharge.ts'

/** 10^18. A decimal of a price is parsed to this many parts of a dollar. */
const PARTS = 10n ** 18n
const MILLION = 1_000_000n

/** How long before the time until which it can be charged a streamed response is ended, in ms. This time is left for the settlement. */
export const CHARGE_LEAD_MS = 15_000

/** The head of a seller's response, as far as it decides what the call has cost. */
export interface MeteredHead {
  /** Media type in lower case, without parameters. */
  readonly mediaType: string
  /** The values of all headers `Settlement-Overrides`. */
  readonly overrides: readonly string[]
}

/** What a call has used, when its response has ended. */
export interface Use {
  readonly charge: UseCharge
  /** Why the use is not known, so that `otherwise` is charged. A text for the log. Null if the use is known. */
  readonly problem: string | null
}

/**
 * How a response ended. `left`: its buyer disconnected, stopped reading or did not finish the request, or the buyer's authorization ends.
 * `broken`: the seller or this process broke it off.
 */
export type ResponseEnd = 'whole' | 'left' | 'broken'

/** A price by use, compiled once for each version of a link. */
export class CompiledUse {
  readonly isStreamed: boolean
  readonly #otherwise: UseCharge
  readonly #counterOf: () => Counter

  constructor({ by, otherwise, stream }: UsePrice) {
    this.isStreamed = stream
    this.#otherwise = { unit: 'usd', micros: parseAmount(otherwise, 6) }
    this.#counterOf = counterMaker(by)
  }

  /** What a call costs whose use cannot be counted. @param problem why not, as a text for the log */
  unknown(problem: string): Use {
    return { charge: this.#otherwise, problem }
  }

  /** A meter for one call. @param chargeUntilMs until when the call can be charged, in ms since 1970 */
  meter(chargeUntilMs = Number.POSITIVE_INFINITY): UseMeter {
    return new UseMeter(this.#counterOf(), this.#otherwise, chargeUntilMs)
  }
}

/** Measures one call, while its response arrives. */
export class UseMeter {
  /** Until when the call can be charged, in ms since 1970. A response ends {@link CHARGE_LEAD_MS} earlier. */
  readonly chargeUntilMs: number
  readonly #counter: Counter
  readonly #otherwise: UseCharge
  #ended: ResponseEnd | null = null

  constructor(counter: Counter, otherwise: UseCharge, chargeUntilMs: number) {
    this.chargeUntilMs = chargeUntilMs
    this.#counter = counter
    this.#otherwise = otherwise
  }

  begin(head: MeteredHead): void {
    this.#counter.begin?.(head)
  }

  push(chunk: Uint8Array): void {
    this.#counter.push?.(chunk)
  }

  /** How the response ended. Null while it arrives. */
  get ended(): ResponseEnd | null {
    return this.#ended
  }

  /** Notes how the response ended. Only the first call counts. */
  stop(end: ResponseEnd): void {
    this.#ended ??= end
  }

  /**
   * What the call has cost, once the response has ended.
   *
   * A buyer who disconnects before the response has reported its use is charged at least `otherwise`. Otherwise buyers could
   * disconnect just before that report. If the seller breaks off, only what was counted is charged.
   *
   * @param ms time from the request to the end of the response, in ms
   */
  use(ms: number): Use {
    const end = this.#ended
    const counted = this.#counter.charge(ms)
    if (typeof counted !== 'string') {
      const isEnough = end !== 'left' || this.#counter.isExact
      return { charge: isEnough ? counted : larger(counted, this.#otherwise), problem: null }
    }
    return { charge: end === 'broken' ? nothing : this.#otherwise, problem: counted }
  }
}

const nothing: UseCharge = { unit: 'usd', micros: 0n }

/** The larger of two charges in dollars. A charge of another unit is exact, so it is not compared. */
const larger = (counted: UseCharge, least: UseCharge): UseCharge =>
  counted.unit === 'usd' && least.unit === 'usd' && counted.micros < least.micros ? least : counted

/** Counts the use of one call. */
interface Counter {
  /** Whether the charge is right at any time, also before the response has ended. */
  readonly isExact: boolean
  begin?(head: MeteredHead): void
  push?(chunk: Uint8Array): void
  /** @returns a text for the log if the use is not known */
  charge(ms: number): UseCharge | string
}

function counterMaker(by: UseMeasure): () => Counter {
  if (by === 'header') return () => new StatedCharge()
  if ('bytes' in by) {
    const each = parseAmount(by.bytes, 18)
    return () => new ByteCounter(each)
  }
  if ('seconds' in by) {
    const each = parseAmount(by.seconds, 18)
    return () => ({ isExact: true, charge: (ms) => usd(BigInt(Math.ceil(ms)) * each, 1_000n) })
  }
  if ('pointer' in by) {
    const [pointer, each] = [pointerOf(by.pointer), parseAmount(by.each, 18)]
    return () => new ScannedCharge(new PointedValue(pointer, each))
  }
  const rates = parsedRates(by.tokens)
  return () => new ScannedCharge(new TokenCharge(rates))
}

/** @param parts 10^-18 dollars times `per` */
const usd = (parts: bigint, per: bigint): UseCharge => ({
  unit: 'usd',
  micros: dividedUp(parts * MILLION, per * PARTS),
})

class StatedCharge implements Counter {
  readonly isExact = true
  #overrides: readonly string[] = []

  begin({ overrides }: MeteredHead): void {
    this.#overrides = overrides
  }

  charge(): UseCharge | string {
    return readSettlementOverrides(this.#overrides)
  }
}

class ByteCounter implements Counter {
  readonly isExact = true
  readonly #each: bigint
  #bytes = 0

  constructor(each: bigint) {
    this.#each = each
  }

  push(chunk: Uint8Array): void {
    this.#bytes += chunk.length
  }

  charge(): UseCharge {
    return usd(BigInt(this.#bytes) * this.#each, MILLION)
  }
}

/** Finds the use in a JSON document or in the events of a response. */
interface ChargeListener extends JsonListener {
  readonly charge: UseCharge | string
}

class ScannedCharge implements Counter {
  readonly isExact = false
  readonly #listener: ChargeListener
  #scanner: { push(chunk: Uint8Array): void } | undefined

  constructor(listener: ChargeListener) {
    this.#listener = listener
  }

  begin({ mediaType }: MeteredHead): void {
    const json = new JsonScanner(this.#listener)
    this.#scanner = mediaType === 'text/event-stream' ? new EventScanner(json) : json
  }

  push(chunk: Uint8Array): void {
    this.#scanner?.push(chunk)
  }

  charge(): UseCharge | string {
    return this.#listener.charge
  }
}

class PointedValue implements ChargeListener {
  readonly #pointer: Pointer
  readonly #each: bigint
  #read: string | undefined
  #value: string | undefined

  constructor(pointer: Pointer, each: bigint) {
    this.#pointer = pointer
    this.#each = each
  }

  scalar(path: readonly (string | null)[], text: string): void {
    const pointer = this.#pointer
    if (path.length === pointer.length && pointer.every((token, i) => token === path[i])) this.#read = text
  }

  document(): void {
    this.#value = this.#read ?? this.#value
    this.#read = undefined
  }

  dropped(): void {
    this.#read = undefined
  }

  get charge(): UseCharge | string {
    const where = `/${this.#pointer.join('/')} of the response`
    if (this.#value === undefined) return `there is no number at ${where}`
    const count = readDecimal(this.#value)
    return count === undefined ? `${where} is not a decimal number` : usd(count * this.#each, PARTS)
  }
}

interface ParsedRates {
  readonly input: bigint
  readonly cached: bigint
  readonly output: bigint
}

function parsedRates({ input, output, cached = input }: TokenRates): ParsedRates {
  return { input: parseAmount(input, 18), cached: parseAmount(cached, 18), output: parseAmount(output, 18) }
}

class TokenCharge extends TokenCounts implements ChargeListener {
  readonly #rates: ParsedRates

  constructor(rates: ParsedRates) {
    super()
    this.#rates = rates
  }

  get charge(): UseCharge | string {
    const tokens = this.tokens
    if (tokens === undefined) return 'the response has no token counts'
    const { input, cached, output } = this.#rates
    return usd(tokens.input * input + tokens.cached * cached + tokens.output * output, MILLION)
  }
}
