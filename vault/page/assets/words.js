/** @import { ApprovalView } from '../../approvals/approval.ts' */

/** @type {Readonly<Record<string, string>>} */
const titles = {
  get_address: 'Show an address',
  vault_read: 'Read a value',
  vault_write: 'Store a value',
  vault_delete: 'Delete a value',
  vault_sign_tx: 'Sign a transaction',
  vault_sign_message: 'Sign a message',
  vault_sign_typed_data: 'Sign typed data',
  vault_sign_x402: 'Pay for an API call',
  vault_preview: 'Preview',
  vault_call: 'Call an API with a credential',
}

/** What an operation is called where people read it. @param {string} operation */
export const titleOf = (operation) => titles[operation] ?? operation

/** @type {Readonly<Record<string, string>>} */
const states = {
  pending: 'Waiting for you',
  approved: 'Approved, not fetched yet',
  consumed: 'Approved and done',
  denied: 'Denied',
  expired: 'Expired',
  canceled: 'Taken back',
  failed: 'Approved, but failed',
}

/** @param {string} status */
export const stateOf = (status) => states[status] ?? status

/** Good, bad or neither, for the colour beside the words. @param {string} status */
export function toneOf(status) {
  if (/^(consumed|approved|auto_approved)$/i.test(status)) return 'good'
  if (/^(denied|failed)$/i.test(status)) return 'bad'
  return /^pending$/i.test(status) ? 'wait' : 'plain'
}

/** @type {Readonly<Record<string, string>>} */
const chains = {
  ethereum: 'Ethereum',
  base: 'Base',
  'base-sepolia': 'Base Sepolia (test)',
  solana: 'Solana',
  'solana-devnet': 'Solana Devnet (test)',
}

/** @param {string} chain */
export const chainTitle = (chain) => chains[chain] ?? chain

/** In one line, for notifications and screen readers. @param {ApprovalView} approval */
export const summaryOf = ({ agent, operation, amount, currency, scope }) =>
  `${agent}: ${titleOf(operation)}${amount === null ? (scope === null ? '' : `, ${scope}`) : `, ${amount} ${currency ?? ''}`}`

/**
 * What is left until a moment: `4:05`, or `0:00` after it.
 *
 * @param {string} until ISO 8601
 */
export function leftUntil(until) {
  const seconds = Math.max(0, Math.ceil((Date.parse(until) - Date.now()) / 1_000))
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
}

const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' })
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' })

/** Time of today, date and time of before. The formats of some languages have narrow spaces. @param {string} time */
export function whenOf(time) {
  const date = new Date(time)
  const text = isToday(date) ? clock.format(date) : `${day.format(date)}, ${clock.format(date)}`
  return text.replace(/\s/g, ' ')
}

/** @param {Date} date */
const isToday = (date) => date.toDateString() === new Date().toDateString()

/**
 * Smallest units as whole ones, exactly: 1500000 at 6 decimals is 1.5.
 *
 * @param {string} atomic @param {number} decimals
 */
export function wholeUnits(atomic, decimals) {
  const digits = atomic.padStart(decimals + 1, '0')
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, '')
  const whole = digits.slice(0, digits.length - decimals)
  return decimals === 0 || fraction === '' ? whole : `${whole}.${fraction}`
}

/** Enough of a hash to compare by eye: `3f2a 91bc 77d0 e4c1`. @param {string} hash */
export const shortHash = (hash) => (hash.slice(0, 16).match(/.{4}/g) ?? []).join(' ')
