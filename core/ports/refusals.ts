import { isTollgateError, TollgateError } from '../errors/error.ts'
import { UNPAID_PER_OPEN } from './store/sessions.ts'

// Errors that a database throws if one of its rules refuses a write. They are here so that all databases have the same messages.

export const storeUnavailable = (why: string): TollgateError =>
  new TollgateError('store_unavailable', `The database cannot be used now: ${why}. Try again.`)

/** Whether an error means that the database was unavailable. After any other error, a retry of the write would fail again. */
export const isDatabaseDown = (error: unknown): boolean =>
  isTollgateError(error) && error.code === 'store_unavailable'

/** The error if another process has signed with the same key and nonce. This process must not send what it has signed. */
export const numberTaken = (options?: ErrorOptions): TollgateError =>
  new TollgateError(
    'CONFLICT',
    'Another transaction of the settling key has this nonce. Sign with the next one.',
    options,
  )

/** The error for an address that no link has. */
export const linkNotFound = (): TollgateError =>
  new TollgateError('link_not_found', 'No link has this address. Check the seller and the slug.')

export const slugTaken = (slug: string | undefined, options?: ErrorOptions): TollgateError =>
  new TollgateError(
    'SLUG_ALREADY_EXISTS',
    `Expected a slug that no active link of the store has, got ${slug}. Choose another, or omit it.`,
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
    `The store has reached its limit of ${maxOpen} open payment sessions, or of ${maxOpen * UNPAID_PER_OPEN} of the last 24 hours that ended unpaid. Cancel an open one, or try again later: each is open for 30 minutes.`,
  )

export const tooManyEndpoints = (most: number): TollgateError =>
  new TollgateError(
    'LIMIT_REACHED',
    `The store has reached its limit of ${most} webhook endpoints. Remove one with DELETE /api/v1/webhooks/:id first.`,
  )

export const usernameTaken = (username: string | undefined, options?: ErrorOptions): TollgateError =>
  new TollgateError(
    'USERNAME_TAKEN',
    `Expected a username that no other store has or had in the last 30 days, got ${username}. Choose another.`,
    options,
  )

export const walletTaken = (options?: ErrorOptions): TollgateError =>
  new TollgateError('CONFLICT', 'This wallet already has a store. Sign in to it instead.', options)

export const alreadyReviewed = (purchaseId: string, options?: ErrorOptions): TollgateError =>
  new TollgateError(
    'ALREADY_REVIEWED',
    `Expected a purchase without a review, but ${purchaseId} has one. It is kept unchanged.`,
    options,
  )

/** @param dueAtMs time of the next possible rename, in ms since 1970 */
export const tooManyRenames = (maxADay: number, dueAtMs: number, nowMs: number): TollgateError =>
  new TollgateError(
    'RATE_LIMIT_EXCEEDED',
    `A store can be renamed at most ${maxADay} times in 24 hours. The next rename is possible at ${new Date(dueAtMs).toISOString()}.`,
    { retryAfterSeconds: Math.max(1, Math.ceil((dueAtMs - nowMs) / 1000)) },
  )

/** The error for a purchase that cannot be recorded, because its transfer or its id belongs to another payment. */
export const alreadyBooked = (
  purchase: { readonly id: string; readonly network: string; readonly txHash: string | null },
  options?: ErrorOptions,
): TollgateError =>
  new TollgateError(
    'CONFLICT',
    `Transaction ${purchase.txHash} on ${purchase.network} has settled another payment by the same event, or purchase ` +
      `${purchase.id} belongs to another payment, so it was not recorded. Check both by hand: one transfer buys one call.`,
    options,
  )

export const idempotencyKeyReused = (key: string): TollgateError =>
  new TollgateError(
    'IDEMPOTENCY_KEY_REUSED',
    `Expected the request that the Idempotency-Key ${JSON.stringify(key)} was sent with before, got another one. Send a new key for a new payment session.`,
  )
