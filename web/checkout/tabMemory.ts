import { readFromTab, removeFromTab, saveInTab } from '../tabStorage.ts'

/**
 * Moves the client secret from the address bar into this tab's storage, before it can be read there, so that the page survives
 * a reload. If the address has no secret, reloads the page with the stored one.
 *
 * @returns undefined if there is no secret, or the page reloads with the stored one
 */
export function takeSecret(sessionId: string): string | undefined {
  const given = new URLSearchParams(location.search).get('cs')
  const key = secretKey(sessionId)
  if (given === null) {
    const kept = readFromTab(key)
    if (kept !== null) location.replace(`${location.pathname}?cs=${encodeURIComponent(kept)}`)
    return undefined
  }
  saveInTab(key, given)
  history.replaceState(history.state, '', location.pathname)
  return given
}

/** Stores that this tab sent a payment, so that after a reload it still shows the receipt as its own. */
export const rememberPaid = (sessionId: string, wallet: string): void => saveInTab(paidKey(sessionId), wallet)
export const forgetPaid = (sessionId: string): void => removeFromTab(paidKey(sessionId))
/** The wallet whose payment this tab sent. Null if there is none. */
export const paidHere = (sessionId: string): string | null => readFromTab(paidKey(sessionId))

/** Stores the review token, which the gateway returns only once, and only to the tab that paid. */
export const rememberReviewToken = (sessionId: string, token: string): void =>
  saveInTab(reviewKey(sessionId), token)
export const forgetReviewToken = (sessionId: string): void => removeFromTab(reviewKey(sessionId))
export const reviewTokenOf = (sessionId: string): string | null => readFromTab(reviewKey(sessionId))

export const rememberLedBack = (sessionId: string): void => saveInTab(ledBackKey(sessionId), 'yes')
export const wasLedBack = (sessionId: string): boolean => readFromTab(ledBackKey(sessionId)) !== null

const ledBackKey = (sessionId: string) => `tollgate-led-back:${sessionId}`
const secretKey = (sessionId: string) => `tollgate-session:${sessionId}`
const reviewKey = (sessionId: string) => `tollgate-review:${sessionId}`
const paidKey = (sessionId: string) => `tollgate-paid:${sessionId}`
