import type { Refusal } from '../../../core/ports/settler.ts'

/** A refusal that is the payment's fault. */
export const refuse = (reason: string, message: string): Refusal => ({ ok: false, reason, message })

/** A refusal that is ours or the chain's fault: the same payment may be tried again. */
export const refuseForNow = (reason: string, message: string): Refusal => ({
  ok: false,
  reason,
  message,
  transient: true,
})
