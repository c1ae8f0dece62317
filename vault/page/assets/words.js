import { h } from './html.js'

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

/**
 * What is left until a moment: `4:05`, or `0:00` after it.
 *
 * @param {string} until ISO 8601 @param {number} nowMs by the clock that the moment is of
 */
export function leftUntil(until, nowMs) {
  const seconds = Math.max(0, Math.ceil((Date.parse(until) - nowMs) / 1_000))
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
}

const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' })

const minuteMs = 60_000
const hours = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
const weekday = new Intl.DateTimeFormat(undefined, { weekday: 'long', day: 'numeric', month: 'long' })
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' })

/**
 * A time as people say it: `just now`, `2 min ago`, `today 14:05`, `yesterday 9:30`, and with its date before.
 *
 * @param {string} time ISO 8601 @param {Date} [now]
 */
export function spokenTime(time, now = new Date()) {
  const date = new Date(time)
  const agoMs = now.getTime() - date.getTime()
  if (agoMs >= 0 && agoMs < minuteMs) return 'just now'
  if (agoMs >= 0 && agoMs < 60 * minuteMs) return `${Math.floor(agoMs / minuteMs)} min ago`
  const at = hours.format(date)
  const name = dayName(date, now)
  return name === undefined ? `${day.format(date)}, ${at}`.replace(/\s/g, ' ') : `${name.toLowerCase()} ${at}`
}

/**
 * What a day's heading says: `Today`, `Yesterday`, `Friday, 20 November`, with the year where it is another.
 *
 * @param {string} time ISO 8601 @param {Date} [now]
 */
export function dayOf(time, now = new Date()) {
  const date = new Date(time)
  const isThisYear = date.getFullYear() === now.getFullYear()
  return dayName(date, now) ?? (isThisYear ? weekday.format(date) : day.format(date)).replace(/\s/g, ' ')
}

/** @param {Date} date @param {Date} now */
function dayName(date, now) {
  const before = new Date(now.getFullYear(), now.getMonth(), now.getDate() - 1)
  if (date.toDateString() === now.toDateString()) return 'Today'
  return date.toDateString() === before.toDateString() ? 'Yesterday' : undefined
}

/** The same as an element: exact in its title and for screen readers. @param {string} time ISO 8601 */
export function timeOf(time) {
  const whole = exact.format(new Date(time)).replace(/\s/g, ' ')
  return h(
    'time',
    { datetime: time, title: whole },
    h('span', { 'aria-hidden': 'true' }, spokenTime(time)),
    h('span', { class: 'visually-hidden' }, whole),
  )
}

/** `512 bytes`, `16 KiB`, and exact beside what is not whole: `1.2 KiB (1,234 bytes)`. @param {number} bytes */
export function bytesOf(bytes) {
  const plain = `${bytes.toLocaleString('en')} ${bytes === 1 ? 'byte' : 'bytes'}`
  if (bytes < 1_024) return plain
  const kib = bytes / 1_024
  return Number.isInteger(kib) ? `${kib} KiB` : `${kib.toFixed(1)} KiB (${plain})`
}

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
