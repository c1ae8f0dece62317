import type { PaymentRecord } from '../../core/domain/payment.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { callerOf } from '../../core/http/callerAddress.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Counters } from '../../core/ports/counters.ts'
import { whileThere } from './running.ts'

const WINDOW_MS = 60_000
/** Bytes of large stored answers that one payment gets again in a window; a larger answer once. */
const MAX_PAYMENT_BYTES = 64 * 1_048_576
/** Bytes of large stored answers that one caller gets again in a window, by all of its payments. */
const MAX_CALLER_BYTES = 256 * 1_048_576
/** How long a refused repeat is held, in ms: clients that repeat at once would load the gateway by their refusals alone. */
const REFUSAL_DELAY_MS = 1_000
/** Payments whose answers are known to be large. */
const MAX_KNOWN = 1_000

/**
 * How often large stored answers are sent again. Each one costs the gateway milliseconds that it pays for once: without a
 * limit a few clients that repeat one payment slow down the calls of all other buyers.
 */
export interface LargeRepeats {
  /** @returns false when it was known already */
  note(record: PaymentRecord, bytes: number): boolean
  /**
   * Counts a repeat whose answer is known to be large.
   * @throws `rate_limited`, after a pause, when the payment or its caller has had its share
   */
  admit(x: Exchange, record: PaymentRecord): Promise<void>
}

export function createLargeRepeats(counters: Pick<Counters, 'take'>, clock: Clock): LargeRepeats {
  const known = new Map<string, number>()

  return {
    note({ key }, bytes) {
      if (known.has(key)) return false
      if (known.size === MAX_KNOWN) known.clear()
      known.set(key, bytes)
      return true
    },

    async admit(x, record) {
      const bytes = known.get(record.key)
      if (bytes === undefined) return
      const taken = await takeShare(x, record, bytes)
      if (taken.ok) return
      let timer: NodeJS.Timeout | undefined
      await whileThere(x, new Promise((resolve) => (timer = setTimeout(resolve, REFUSAL_DELAY_MS))))
      clearTimeout(timer)
      throw tooOften(record, Math.max(1, Math.ceil((taken.resetAtMs - clock.now()) / 1_000)))
    },
  }

  async function takeShare(x: Exchange, { key }: PaymentRecord, bytes: number) {
    const points = Math.min(bytes, MAX_PAYMENT_BYTES)
    const ofPayment = await counters.take(`repeat:${key}`, points, MAX_PAYMENT_BYTES, WINDOW_MS)
    if (!ofPayment.ok) return ofPayment
    return counters.take(`repeats-of:${callerOf(x.clientIp)}`, points, MAX_CALLER_BYTES, WINDOW_MS)
  }
}

const tooOften = ({ purchaseId }: PaymentRecord, retryAfterSeconds: number): TollgateError =>
  new TollgateError(
    'rate_limited',
    `This answer is large and was sent again as often as it may be for now. You were charged once; repeat the same call with the same payment in ${retryAfterSeconds} s.`,
    { retryAfterSeconds, extra: { purchaseId } },
  )
