import { isTollgateError, TollgateError } from '../errors/error.ts'
import { UNPAID_PER_OPEN } from './store/sessions.ts'

// What every store says when a rule of its own refuses a write: the same words, whichever it is.

export const storeUnavailable = (why: string): TollgateError =>
  new TollgateError('store_unavailable', `The database can not be used now: ${why}. Try again.`)

/** The store could not say; whatever else breaks a write would break it again. */
export const isStoreAway = (error: unknown): boolean =>
  isTollgateError(error) && error.code === 'store_unavailable'

/** Somebody else has signed with the same key and number: what this one has signed must not be sent. */
export const numberTaken = (options?: ErrorOptions): TollgateError =>
  new TollgateError(
    'CONFLICT',
    'Another transaction of the settling key has this account number. Sign with the next one.',
    options,
  )

/** Of an address under which nothing is called. */
export const linkNotFound = (): TollgateError =>
  new TollgateError('link_not_found', 'No link has this address. Check the seller and the slug.')

export const slugTaken = (slug: string | undefined, options?: ErrorOptions): TollgateError =>
  new TollgateError(
    'SLUG_ALREADY_EXISTS',
    `Expected a slug that no active link of the store has, got ${slug}. Choose another, or leave it out.`,
    options,
  )

export const originTaken = (options?: ErrorOptions): TollgateError =>
  new TollgateError(
    'CONFLICT',
    'Another active link of the store was imported from this operation. Import the document again.',
    options,
  )

export const tooManyLinks = (maxActive: number): TollgateError =>
  new TollgateError(
    'LIMIT_REACHED',
    `Expected fewer than ${maxActive} active links in the store. Delete one first.`,
  )

export const tooManyKeys = (maxActive: number): TollgateError =>
  new TollgateError(
    'LIMIT_REACHED',
    `Expected fewer than ${maxActive} active keys in the store. Revoke one first.`,
  )

export const tooManySessions = (maxOpen: number): TollgateError =>
  new TollgateError(
    'LIMIT_REACHED',
    `The store has ${maxOpen} open payment sessions, or ${maxOpen * UNPAID_PER_OPEN} of the last 24 hours that ended unpaid, the most it may have. Cancel one that is open, or try again later: each is open for 30 minutes.`,
  )

export const tooManyEndpoints = (most: number): TollgateError =>
  new TollgateError(
    'LIMIT_REACHED',
    `The store has ${most} webhook endpoints, the most it may have; take one away with DELETE /api/v1/webhooks/:id first.`,
  )

export const usernameTaken = (username: string | undefined, options?: ErrorOptions): TollgateError =>
  new TollgateError(
    'USERNAME_TAKEN',
    `Expected a username that no other store has or had in the last 30 days, got ${username}. Choose another.`,
    options,
  )

export const walletTaken = (options?: ErrorOptions): TollgateError =>
  new TollgateError('CONFLICT', 'This wallet has a store already. Sign in to it instead.', options)

export const alreadyReviewed = (purchaseId: string, options?: ErrorOptions): TollgateError =>
  new TollgateError(
    'ALREADY_REVIEWED',
    `Expected a purchase without a review, and ${purchaseId} has one. It stands as it is.`,
    options,
  )

/** @param dueAtMs when the next rename is possible, ms since 1970 */
export const tooManyRenames = (maxADay: number, dueAtMs: number, nowMs: number): TollgateError =>
  new TollgateError(
    'RATE_LIMIT_EXCEEDED',
    `A store is renamed at most ${maxADay} times in 24 hours. The next rename is possible at ${new Date(dueAtMs).toISOString()}.`,
    { retryAfterSeconds: Math.max(1, Math.ceil((dueAtMs - nowMs) / 1000)) },
  )

/** A purchase that can't be booked: its transfer, or its id, is another payment's. */
export const alreadyBooked = (
  purchase: { readonly id: string; readonly network: string; readonly txHash: string | null },
  options?: ErrorOptions,
): TollgateError =>
  new TollgateError(
    'CONFLICT',
    `Transaction ${purchase.txHash} on ${purchase.network} has settled another payment by the same event, or purchase ` +
      `${purchase.id} is another payment's: it was not booked. Look at both by hand: one transfer buys one call.`,
    options,
  )

export const idempotencyKeyReused = (key: string): TollgateError =>
  new TollgateError(
    'IDEMPOTENCY_KEY_REUSED',
    `Expected the request that the Idempotency-Key ${JSON.stringify(key)} was sent with before, got another one. Send a new key for a new session.`,
  )
