import { forgetInTab, keepInTab, keptInTab } from '../tabStorage.ts'

/**
 * Takes the client secret out of the address bar, before anybody can read it there, and keeps it in this tab, so that the page
 * can be loaded again. Without one in the address, the one that is kept leads back to it.
 *
 * @returns undefined when there is none, or the page is being loaded again with it
 */
export function takeSecret(sessionId: string): string | undefined {
  const given = new URLSearchParams(location.search).get('cs')
  const key = secretKey(sessionId)
  if (given === null) {
    const kept = keptInTab(key)
    if (kept !== null) location.replace(`${location.pathname}?cs=${encodeURIComponent(kept)}`)
    return undefined
  }
  keepInTab(key, given)
  history.replaceState(history.state, '', location.pathname)
  return given
}

/** That a payment was sent from this tab, so that its receipt is its own after the page was loaded again. */
export const rememberPaid = (sessionId: string, wallet: string): void => keepInTab(paidKey(sessionId), wallet)
export const forgetPaid = (sessionId: string): void => forgetInTab(paidKey(sessionId))
/** The wallet that it was sent from; null for none. */
export const paidHere = (sessionId: string): string | null => keptInTab(paidKey(sessionId))

/** With what the purchase of a link is reviewed: the gateway says it once, to the tab that paid. */
export const rememberReviewToken = (sessionId: string, token: string): void =>
  keepInTab(reviewKey(sessionId), token)
export const forgetReviewToken = (sessionId: string): void => forgetInTab(reviewKey(sessionId))
export const reviewTokenOf = (sessionId: string): string | null => keptInTab(reviewKey(sessionId))

export const rememberLedBack = (sessionId: string): void => keepInTab(ledBackKey(sessionId), 'yes')
export const wasLedBack = (sessionId: string): boolean => keptInTab(ledBackKey(sessionId)) !== null

const ledBackKey = (sessionId: string) => `tollgate-led-back:${sessionId}`
const secretKey = (sessionId: string) => `tollgate-session:${sessionId}`
const reviewKey = (sessionId: string) => `tollgate-review:${sessionId}`
const paidKey = (sessionId: string) => `tollgate-paid:${sessionId}`
