import type { Tone } from '../components/card.ts'

/** The label and the color of a code of the API. */
export interface Worded {
  readonly words: string
  readonly tone: Tone
}

const purchases: Readonly<Record<string, Worded>> = {
  settled: { words: 'Paid', tone: 'good' },
  delivered: { words: 'Delivered', tone: 'good' },
  refund_due: { words: 'Refund due', tone: 'warn' },
  refunded: { words: 'Refunded', tone: 'plain' },
  reorged: { words: 'Dropped from the chain', tone: 'bad' },
}

/** The state of a purchase. */
export const purchaseWords = (status: string): Worded => purchases[status] ?? { words: status, tone: 'plain' }

const steps: Readonly<Record<string, Worded>> = {
  ...purchases,
  claimed: { words: 'Payment received', tone: 'plain' },
  settled: { words: 'Settled', tone: 'good' },
}

/** A step of a payment. */
export const stepWords = (step: string): Worded => steps[step] ?? { words: step, tone: 'plain' }

const deliveries: Readonly<Record<string, Worded>> = {
  waiting: { words: 'Waiting', tone: 'info' },
  held: { words: 'Held', tone: 'warn' },
  delivered: { words: 'Delivered', tone: 'good' },
  failed: { words: 'Failed', tone: 'bad' },
}

/** The state of a webhook delivery. */
export const deliveryWords = (status: string): Worded =>
  deliveries[status] ?? { words: status, tone: 'plain' }

const sessions: Readonly<Record<string, Worded>> = {
  open: { words: 'Open', tone: 'info' },
  confirmed: { words: 'Paid', tone: 'good' },
  expired: { words: 'Expired', tone: 'plain' },
  canceled: { words: 'Canceled', tone: 'plain' },
  failed: { words: 'Failed', tone: 'bad' },
}

/** The state of a payment session. */
export const sessionWords = (status: string): Worded => sessions[status] ?? { words: status, tone: 'plain' }

/** Milliseconds since 1970 of an API timestamp. */
export const msOf = (iso: string): number => Date.parse(iso)
