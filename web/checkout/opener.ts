import type { CheckoutMessage, Completed } from '../widget/options.ts'
import { type CheckoutSession, completedOf } from './state.ts'

/** The shop's page that opened this one, as far as it can be reached. */
export interface Opener {
  /** It is there, and its origin is the one that the session names. */
  readonly isThere: boolean
  ready(): void
  /** Tells it how the session has ended; the same only once. */
  tell(session: CheckoutSession): void
}

/** Speaks to `allowedOrigin` and to nobody else: a page of another origin gets nothing, the browser sees to it. */
export function openerOf(session: CheckoutSession): Opener {
  const { allowedOrigin, id: sessionId } = session
  const opener = window.opener as Window | null
  const told = new Set<string>()
  const post = (message: CheckoutMessage) => {
    if (opener === null || allowedOrigin === null || told.has(message.type)) return
    told.add(message.type)
    opener.postMessage(message, allowedOrigin)
  }
  return {
    isThere: opener !== null && allowedOrigin !== null,
    ready: () => post({ type: 'tollgate:ready', sessionId }),
    tell(now) {
      if (now.status === 'confirmed')
        post({ type: 'tollgate:complete', sessionId, completed: completedOf(now) as Completed })
      if (now.status === 'canceled') post({ type: 'tollgate:cancel', sessionId })
    },
  }
}
