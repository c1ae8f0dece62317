import type { Tone } from '../../../web/components/card.ts'
import { html } from '../../../web/html.ts'

/** A relative time. Hover and screen readers give the exact time in the reader's time zone. */
export const Moment = ({ at }: { readonly at: string }) =>
  html`<time datetime=${at} title=${exactTime(at)}><span aria-hidden="true">${spokenTime(at)}</span><span class="visually-hidden">${exactTime(at)}</span></time>`

const titles: Readonly<Record<string, string>> = {
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

/** The title of an operation on the page. */
export const titleOf = (operation: string): string => titles[operation] ?? operation

const states: Readonly<Record<string, string>> = {
  pending: 'Waiting for you',
  approved: 'Approved, waiting for the agent',
  consumed: 'Approved and done',
  denied: 'Denied',
  expired: 'Expired',
  canceled: 'Canceled',
  failed: 'Approved, but failed',
}

export const stateOf = (status: string): string => states[status] ?? status

/** The color beside the words of a status. */
export function toneOf(status: string): Tone {
  if (/^(consumed|approved|auto_approved)$/i.test(status)) return 'good'
  if (/^(denied|failed)$/i.test(status)) return 'bad'
  return /^pending$/i.test(status) ? 'warn' : 'plain'
}

const chains: Readonly<Record<string, string>> = {
  ethereum: 'Ethereum',
  base: 'Base',
  'base-sepolia': 'Base Sepolia (test)',
  solana: 'Solana',
  'solana-devnet': 'Solana Devnet (test)',
}

export const chainTitle = (chain: string): string => chains[chain] ?? chain

/** The time left until a moment: `4:05`, or `0:00` after it. */
export function leftUntil(until: string, nowMs: number): string {
  const seconds = Math.max(0, Math.ceil((Date.parse(until) - nowMs) / 1_000))
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
}

const MINUTE_MS = 60_000
const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' })
const hours = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
const weekday = new Intl.DateTimeFormat(undefined, { weekday: 'long', day: 'numeric', month: 'long' })
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' })
/** Replaces the spaces of several widths that locale formats contain. */
const plain = (text: string): string => text.replace(/\s/g, ' ')

/** A time in words: `just now`, `2 min ago`, `today 14:05`, `yesterday 9:30`, and with its date before that. */
export function spokenTime(time: string, now = new Date()): string {
  const date = new Date(time)
  const agoMs = now.getTime() - date.getTime()
  if (agoMs >= 0 && agoMs < MINUTE_MS) return 'just now'
  if (agoMs >= 0 && agoMs < 60 * MINUTE_MS) return `${Math.floor(agoMs / MINUTE_MS)} min ago`
  const name = dayName(date, now)
  return plain(`${name?.toLowerCase() ?? `${day.format(date)},`} ${hours.format(date)}`)
}

/** The heading of a day: `Today`, `Yesterday`, `Friday, 20 November`, with the year where it is not the current one. */
export function dayOf(time: string, now = new Date()): string {
  const date = new Date(time)
  const isThisYear = date.getFullYear() === now.getFullYear()
  return dayName(date, now) ?? plain((isThisYear ? weekday : day).format(date))
}

function dayName(date: Date, now: Date): string | undefined {
  const before = new Date(now.getFullYear(), now.getMonth(), now.getDate() - 1)
  if (date.toDateString() === now.toDateString()) return 'Today'
  return date.toDateString() === before.toDateString() ? 'Yesterday' : undefined
}

/** The full time, in the reader's time zone. */
const exactTime = (time: string): string => plain(exact.format(new Date(time)))

/** A size in words: `512 bytes`, `16 KiB`, and with the exact count if it is rounded: `1.2 KiB (1,234 bytes)`. */
export function bytesOf(bytes: number): string {
  const all = `${bytes.toLocaleString('en')} ${bytes === 1 ? 'byte' : 'bytes'}`
  if (bytes < 1_024) return all
  const kib = bytes / 1_024
  return Number.isInteger(kib) ? `${kib} KiB` : `${kib.toFixed(1)} KiB (${all})`
}

/** The part of a hash that is enough to compare by eye: `3f2a 91bc 77d0 e4c1`. */
export const shortHash = (hash: string): string => (hash.slice(0, 16).match(/.{4}/g) ?? []).join(' ')
