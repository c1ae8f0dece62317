import { routeOf } from '../relay/frames.ts'
import { AnswerCache } from './answerCache.ts'
import type { ChannelKeys } from './channel/envelope.ts'
import type { PairingRecord } from './pairingRecord.ts'
import { tokenHeaderKey } from './pairToken.ts'
import { Sessions } from './sessions.ts'

/** A pairing's record and what lives in memory beside it. */
export interface LivePairing {
  record: PairingRecord
  readonly route: Buffer
  readonly sessions: Sessions
  readonly answers: AnswerCache
  /** Greetings and pairing messages that were taken, with the end of their time; no second copy is. */
  readonly taken: Map<string, number>
  /** Requests that are being opened or performed. */
  underWay: number
  /** Calls that the host is performing. */
  running: number
  /** The owner's decision while it is awaited. */
  confirming: Promise<void> | undefined
  /** Ends the wait for the owner. */
  readonly ended: AbortController
  /** Ends what calls wait for: the pairing is revoked, or the vault goes away. */
  readonly waits: AbortController
  /** What is written for this pairing is written in order. */
  writing: Promise<unknown>
}

export const livePairing = (record: PairingRecord): LivePairing => ({
  record,
  route: routeOf(Buffer.from(record.routing.publicKey, 'base64')),
  sessions: new Sessions(),
  answers: new AnswerCache(),
  taken: new Map(),
  underWay: 0,
  running: 0,
  confirming: undefined,
  ended: new AbortController(),
  waits: new AbortController(),
  writing: Promise.resolve(),
})

/** The channel of the first message: all that both sides share is the token. */
export const tokenChannel = ({ record, route }: LivePairing, vaultId: string): ChannelKeys => ({
  vaultId,
  serviceId: record.serviceId,
  route,
  headerKey: tokenHeaderKey(record.token, route),
})

/** The channel afterwards; undefined before a proxy used the token. */
export const ownChannel = ({ record, route }: LivePairing, vaultId: string): ChannelKeys | undefined =>
  record.claim && {
    vaultId,
    serviceId: record.serviceId,
    route,
    headerKey: Buffer.from(record.claim.headerKey, 'base64'),
  }
