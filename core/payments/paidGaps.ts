import type { PaymentSlot } from '../plugin/slots.ts'

/** What charging for a call leaves on it, whichever plugins do it. */
const charging: readonly PaymentSlot[] = ['payment', 'claim', 'settlement', 'purchase']
/** What is sold. */
const sold: PaymentSlot = 'answer'

/**
 * What the program of a paid link lacks. Without one of these slots a call would be served unpaid, served twice, or charged
 * and not recorded.
 *
 * @param writersOf plugins that could be added, by a slot that they write: for the message
 * @returns `nothing` when it is whole; `everything` when it takes no payment at all, as on a gateway of free links only
 */
export function paidGaps(
  steps: readonly { readonly uses: { readonly writes?: readonly string[] } }[],
  writersOf: (slot: PaymentSlot) => readonly string[],
): 'nothing' | 'everything' | readonly string[] {
  const isWritten = (slot: PaymentSlot) => steps.some(({ uses }) => uses.writes?.includes(slot))
  const missing = [...charging, sold].filter((slot) => !isWritten(slot))
  if (missing.length === 0) return 'nothing'
  if (!charging.some(isWritten)) return 'everything'
  return missing.map((slot) => {
    const writers = [...writersOf(slot), 'a plugin of your own that does']
    return `No plugin writes ${slot} for a paid link: a call would not be paid for as it should. Add ${writers.join(', or ')}.`
  })
}
