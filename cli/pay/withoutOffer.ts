import type { Unpaid } from './askUnpaid.ts'
import { valuesOf } from './httpCall.ts'
import type { PayOutcome } from './payReport.ts'

/** What an answer to the first call means when it is no 402. */
export function withoutOffer({
  answer,
  objection,
}: Unpaid): { outcome: PayOutcome; message: string } | undefined {
  const { status } = answer
  if (status === 402) return undefined
  if (status >= 200 && status < 300) {
    const isComplete = answer.isWhole && answer.isWithinLimit
    if (isComplete)
      return { outcome: 'free', message: 'The address asked for no payment; nothing was signed.' }
    return { outcome: 'failed', message: 'The address asked for no payment, and its answer is incomplete.' }
  }
  if (objection !== undefined) {
    const location = valuesOf(answer.headers, 'location')[0]?.slice(0, 300) ?? 'nowhere'
    return {
      outcome: 'refused',
      message: `The server redirects to ${location}, and ${objection}. Nothing was signed; ask that address yourself.`,
    }
  }
  return {
    outcome: 'failed',
    message: `The server answered ${status} before any payment; nothing was signed.`,
  }
}
