import type { Tone } from '../components/badge.ts'

/** A word and its colour for what the API says in a code. */
export interface Worded {
  readonly words: string
  readonly tone: Tone
}

const purchases: Readonly<Record<string, Worded>> = {
  settled: { words: 'Paid', tone: 'good' },
  delivered: { words: 'Delivered', tone: 'good' },
  refund_due: { words: 'Refund due', tone: 'warn' },
  refunded: { words: 'Refunded', tone: 'plain' },
  reorged: { words: 'Left the chain', tone: 'bad' },
}

/** How a purchase stands. */
export const purchaseWords = (status: string): Worded => purchases[status] ?? { words: status, tone: 'plain' }

const steps: Readonly<Record<string, Worded>> = {
  ...purchases,
  claimed: { words: 'Payment came', tone: 'plain' },
  settled: { words: 'Money moved', tone: 'good' },
}

/** What happened to a payment. */
export const stepWords = (step: string): Worded => steps[step] ?? { words: step, tone: 'plain' }

const deliveries: Readonly<Record<string, Worded>> = {
  waiting: { words: 'Waiting', tone: 'info' },
  held: { words: 'Held', tone: 'warn' },
  delivered: { words: 'Delivered', tone: 'good' },
  failed: { words: 'Failed', tone: 'bad' },
}

/** How a delivery of a webhook stands. */
export const deliveryWords = (status: string): Worded =>
  deliveries[status] ?? { words: status, tone: 'plain' }

const sessions: Readonly<Record<string, Worded>> = {
  open: { words: 'Open', tone: 'info' },
  confirmed: { words: 'Paid', tone: 'good' },
  expired: { words: 'Expired', tone: 'plain' },
  canceled: { words: 'Canceled', tone: 'plain' },
  failed: { words: 'Failed', tone: 'bad' },
}

/** How a payment session stands. */
export const sessionWords = (status: string): Worded => sessions[status] ?? { words: status, tone: 'plain' }

/** Milliseconds since 1970 of a time of the API. */
export const msOf = (iso: string): number => Date.parse(iso)
