import { type PaymentRecord, type PaymentState, unresolvedStates } from '../../../core/domain/payment.ts'
import type { Chains } from '../../../core/ports/chains/chains.ts'
import type { ConcludedOf } from '../../../core/ports/chains/settler.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { Books } from '../../../core/ports/store/books.ts'

/** Between two looks what others did about payments that stayed open here. */
const LOOK_MS = 2_000

/** Payments that are read side by side. */
const READ_AT_ONCE = 8

/** While a payment is in one of these it may still land by what was sent here. */
const open: readonly PaymentState[] = [...unresolvedStates, 'reorged']

/**
 * Lets settlers forget payments that stayed open here and that another process has concluded: one process recovers them for all, and
 * they would be in their payers' way until they can't land any more. In every process that settles: no other one knows which those
 * are. Networks that open later are among them.
 *
 * @returns a function that ends it
 */
export function forgetConcludedNowAndThen(
  chains: Pick<Chains, 'settlers'>,
  books: Pick<Books, 'statesOf' | 'find'>,
  log: Log,
  lookMs = LOOK_MS,
): () => Promise<void> {
  let isClosed = false
  const concludedOf: ConcludedOf = async (keys) => {
    const records: PaymentRecord[] = []
    const states = [...(await books.statesOf(keys))].filter(([, state]) => !open.includes(state))
    for (let from = 0; from < states.length && !isClosed; from += READ_AT_ONCE) {
      const some = states.slice(from, from + READ_AT_ONCE)
      // A row that was freed may have been claimed and sent anew since.
      for (const record of await Promise.all(some.map(([key]) => books.find(key))))
        if (record !== undefined && !open.includes(record.state)) records.push(record)
    }
    return records
  }
  const look = () =>
    Promise.all([...chains.settlers].map((settler) => settler.forgetConcluded?.(concludedOf)))
  let looking: Promise<void> | undefined
  const timer = setInterval(() => {
    looking ??= look()
      .catch((err: unknown) => log.warn({ err }, 'could not look what others have concluded; trying again'))
      .then(() => {
        looking = undefined
      })
  }, lookMs)
  timer.unref()
  return async () => {
    isClosed = true
    clearInterval(timer)
    await looking
  }
}
