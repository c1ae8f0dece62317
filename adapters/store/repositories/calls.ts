import type { Durability } from '../../../core/ports/store/ledger.ts'
import { apiKeyWrites } from './apiKeys.ts'
import { browserSessionWrites } from './browserSessions.ts'
import { channelBookWrites } from './channelBooks.ts'
import { channelWrites } from './channels.ts'
import { gasBookWrites } from './gasBook.ts'
import { imageWrites } from './images.ts'
import { leaseWrites } from './leases.ts'
import { healthCheckWrites } from './links/healthChecks.ts'
import { linkWrites } from './links/links.ts'
import { paymentSessionWrites } from './paymentSessions.ts'
import { paymentWrites } from './payments.ts'
import { retentionWrites } from './retention.ts'
import { reviewWrites } from './reviews.ts'
import { signInNonceWrites } from './signInNonces.ts'
import { storeWrites } from './stores.ts'
import { type CallsOf, type Steps, type Tx, transactionAt } from './transaction.ts'
import { webhookWrites } from './webhooks/webhooks.ts'

/** The writes that both databases share, by noun and method. */
export const repositories = {
  apiKeys: apiKeyWrites,
  browserSessions: browserSessionWrites,
  channels: channelWrites,
  channelBooks: channelBookWrites,
  signInNonces: signInNonceWrites,
  gasBook: gasBookWrites,
  leases: leaseWrites,
  paymentSessions: paymentSessionWrites,
  healthChecks: healthCheckWrites,
  links: linkWrites,
  payments: paymentWrites,
  retention: retentionWrites,
  reviews: reviewWrites,
  stores: storeWrites,
  images: imageWrites,
  webhooks: webhookWrites,
}

type Repositories = typeof repositories
export type Noun = keyof Repositories

/**
 * Calls whose commit does not wait for the disk, so that a crash may lose their writes. The commit of every other call is flushed.
 */
const visible: { readonly [N in Noun]?: readonly (keyof Repositories[N])[] } = {
  apiKeys: ['touch'],
  browserSessions: ['touch'],
  // A crash of the database that loses one of these ends no lease, so the process that is the owner by the row hands it over again.
  channels: ['take', 'release'],
  // A crash that loses it also brings back what was to be booked.
  channelBooks: ['book'],
  leases: ['renew', 'release'],
  paymentSessions: ['expire', 'forget'],
  healthChecks: ['note', 'putOff'],
  payments: ['adopt', 'putOff'],
  retention: ['deleteResponses', 'deleteDelivered', 'deleteSigned'],
  webhooks: ['fanOut', 'take', 'note', 'forget'],
}

/** A call of a repository's method. It runs in a transaction of its own or as a part of a group's. */
export interface Call {
  readonly noun: string
  readonly method: string
  /** Plain records, lists, bigints and bytes, because these can cross threads. */
  readonly args: readonly unknown[]
}

type Method = (tx: Tx, ...args: never[]) => Steps<unknown>
export type Methods = Readonly<Record<string, Readonly<Record<string, Method>>>>

export type Calls = { readonly [N in Noun]: CallsOf<Repositories[N]> }

/** @param send runs a call in a transaction and resolves after its commit */
export function callsOver(send: (call: Call, durability: Durability) => Promise<unknown>): Calls {
  const callsOf = ([noun, methods]: [string, object]) => {
    const isVisible = new Set<string>(visible[noun as Noun])
    const callOf = (method: string) => {
      const durability = isVisible.has(method) ? 'visible' : 'flushed'
      return [method, (...args: unknown[]) => send({ noun, method, args }, durability)]
    }
    return [noun, Object.fromEntries(Object.keys(methods).map(callOf))]
  }
  return Object.fromEntries(Object.entries(repositories).map(callsOf)) as Calls
}

/**
 * Returns the steps of a call.
 * @param methods replaces {@link repositories} in tests
 */
export function stepsOf(
  { noun, method, args }: Call,
  nowMs: number,
  methods: Methods = repositories,
): Steps<unknown> {
  const write = methods[noun]?.[method]
  if (write === undefined) throw new Error(`No repository has the method ${noun}.${method}.`)
  return write(transactionAt(nowMs), ...(args as never[]))
}
