import { randomBytes } from 'node:crypto'
import type { Clock } from '../../core/ports/clock.ts'
import {
  type ChannelKeys,
  keyIdOf,
  openResponse,
  type ResponseKeys,
  readResponseHeader,
  sealRequest,
} from '../channel/envelope.ts'
import { idBytes, type RequestKind, type ResponseKind } from '../channel/header.ts'
import { decodeMessage, type Message } from '../channel/message.ts'
import type { KeyPair, PreShared } from '../channel/suite.ts'
import { frame, frameTypes, transferMs } from '../relay/frames.ts'
import { type LinkConnection, type LinkOptions, startRelayLink } from '../remote/relayLink.ts'

type NoticeKind = Exclude<ResponseKind, 'response' | 'under-way'>

/** The vault sent a notice instead of a response. */
export class Notice extends Error {
  readonly kind: NoticeKind

  constructor(kind: NoticeKind) {
    super(`the vault sent a notice: ${kind}`)
    this.kind = kind
  }
}

/** No response came in time. */
export class NoResponse extends Error {
  /** True if the request left this machine at least once, so that the vault may have it. */
  readonly wasSent: boolean

  constructor(wasSent: boolean) {
    super('no response came in time')
    this.wasSent = wasSent
  }
}

export interface Outgoing {
  readonly kind: RequestKind
  readonly content: Buffer
  /** The vault's key with which the request is sealed. */
  readonly to: Buffer
  readonly channel: ChannelKeys
  readonly psk?: PreShared
  readonly sequence?: number
  /** How long to wait for the response, in milliseconds. */
  readonly waitMs: number
}

/** The farthest point that the proxy's connection reaches now. */
export type Reach = 'vault' | 'relay' | 'nowhere'

export interface AgentEnd {
  readonly reach: Reach
  /**
   * Seals a request and sends it. Until the response arrives, the same bytes are sent again when the connection to the vault
   * reopens, and while the vault is silent. The vault performs the request only once. If the vault neither responds nor reports
   * the request as under way, this fails within seconds, unless other long messages may delay the line. It always fails after
   * `waitMs`.
   * @throws Notice, NoResponse
   */
  send(request: Outgoing): Promise<Message>
  /** True as soon as the vault can be reached. False when it cannot within `waitMs`. */
  untilReached(waitMs: number): Promise<boolean>
  close(): Promise<void>
}

/** How long the vault may take to start a request, in ms. It refuses older requests. */
const EXPIRY_MS = 60_000
/**
 * How long the proxy still waits for a response after the vault reported that it could not open the request, in ms. The vault
 * may have received a damaged copy before the intact one.
 */
const DOUBT_MS = 1_000
/** How long the vault may be silent about a request before the proxy sends it again, in ms. */
const RESEND_AFTER_MS = 2_000
/**
 * The same time after the vault has reported the request as under way, in ms. It is needed because the response could be lost.
 */
const RECHECK_AFTER_MS = 10_000
/** Maximum copies of a request that are sent without a message from the vault. Then the request fails. */
const MAX_COPIES = 4
/**
 * Maximum times that a request is sent again at once when the relay repeats `present`. Further copies wait for the slowest
 * supported line.
 */
const MAX_IMMEDIATE_COPIES = 4

interface InFlight {
  readonly sealed: Buffer
  readonly keys: ResponseKeys
  readonly channel: ChannelKeys
  readonly sealedAtMs: number
  /** How often the request was sent. The next field is when it was sent last, by `performance.now()`. */
  sends: number
  sentAtMs: number
  /** Number of copies since the vault's last message about any request. */
  copies: number
  /** The vault has reported that it has the request and that the response follows. */
  isUnderWay: boolean
  /** Timer that sends the request again while the vault is silent. */
  resend: NodeJS.Timeout | undefined
  settle(outcome: Message | Error): void
  /** Fails with the notice after `DOUBT_MS`, unless a response comes first. */
  doubt(notice: Notice): void
}

/**
 * The proxy's end of its channel. It has one connection to the relay, which is attached to one routing id.
 *
 * @param onPresent called whenever a vault appears behind the routing id, because it may be a restarted vault
 */
export function startAgentEnd(
  link: LinkOptions,
  route: Buffer,
  staticKey: KeyPair,
  clock: Clock,
  onPresent: () => void,
): AgentEnd {
  const inFlight = new Map<string, InFlight>()
  const waiting = new Set<() => void>()
  let connection: LinkConnection | undefined
  let isPresent = false
  /** The vault's clock minus this machine's, in ms. Every message of the vault updates it. */
  let offsetMs = 0
  /** When the slowest supported line has transferred all sent requests, by `performance.now()`. */
  let transferredAtMs = 0

  const relayLink = startRelayLink(link, {
    onUp(up) {
      connection = up
      up.send(frame(frameTypes.attach, route))
    },
    onFrame(_, type, rest) {
      if (type === frameTypes.payload) return receive(rest)
      if (type === frameTypes.absent) isPresent = false
      if (type === frameTypes.present) appear()
    },
    onDown() {
      connection = undefined
      isPresent = false
    },
  })

  function appear(): void {
    isPresent = true
    onPresent()
    for (const one of inFlight.values()) {
      one.copies = 0
      if (one.sends <= MAX_IMMEDIATE_COPIES) transmit(one)
      else resendIn(one, Math.max(0, one.sentAtMs + transferMs(one.sealed) - performance.now()))
    }
    for (const wake of waiting) wake()
  }

  function transmit(one: InFlight): void {
    if (!isPresent || connection === undefined) return
    one.sends++
    one.sentAtMs = performance.now()
    one.copies++
    transferredAtMs = Math.max(transferredAtMs, one.sentAtMs + transferMs(one.sealed))
    connection.send(frame(frameTypes.payload, one.sealed))
    const silenceMs = one.copies <= MAX_COPIES ? RESEND_AFTER_MS : RECHECK_AFTER_MS
    resendIn(one, transferMs(one.sealed) + silenceMs)
  }

  function resendIn(one: InFlight, waitMs: number): void {
    clearTimeout(one.resend)
    one.resend = setTimeout(() => {
      // While the vault is down, the request waits until it returns.
      if (isPresent && one.copies >= MAX_COPIES && !isLineBusy()) one.settle(new NoResponse(true))
      else transmit(one)
    }, waitMs)
  }

  /** Whether long messages may delay others. The vault's silence about a request means nothing then. */
  function isLineBusy(): boolean {
    return performance.now() < transferredAtMs || [...inFlight.values()].some(({ isUnderWay }) => isUnderWay)
  }

  function receive(sealed: Buffer): void {
    for (const channel of new Set([...inFlight.values()].map((one) => one.channel))) {
      const header = readResponseHeader(sealed, channel)
      if (header === undefined) continue
      const one = inFlight.get(header.requestId.toString('hex'))
      if (one === undefined || one.channel !== channel) return
      learnOffset(header.vaultTimeMs, one.sealedAtMs)
      for (const each of inFlight.values()) each.copies = 0
      if (header.kind === 'under-way') {
        one.isUnderWay = true
        return resendIn(one, transferMs(one.sealed) + RECHECK_AFTER_MS)
      }
      if (header.kind === 'unopened') return one.doubt(new Notice(header.kind))
      if (header.kind !== 'answer') return one.settle(new Notice(header.kind))
      const content = openResponse(sealed, one.keys)
      const message = content && decodeMessage(content)
      // A damaged response is ignored, because the intact one may follow.
      return message && one.settle(message)
    }
  }

  /**
   * Learns from the vault's time in a message. The vault had this time at some moment after the request was sealed, but the
   * message may have waited at the relay or at the vault. So the known offset changes only as far as necessary.
   */
  function learnOffset(vaultTimeMs: number, sealedAtMs: number): void {
    offsetMs = Math.max(Math.min(offsetMs, vaultTimeMs - sealedAtMs), vaultTimeMs - clock.now())
  }

  return {
    get reach() {
      if (isPresent) return 'vault'
      return relayLink.isUp ? 'relay' : 'nowhere'
    },

    async send({ kind, content, to, channel, psk, sequence = 0, waitMs }) {
      const requestId = randomBytes(idBytes)
      const sealedAtMs = clock.now()
      const header = {
        kind,
        keyId: keyIdOf(to),
        requestId,
        sequence,
        expiresAtMs: sealedAtMs + offsetMs + EXPIRY_MS,
        sender: kind === 'begin' ? staticKey.publicKey : Buffer.alloc(32),
      }
      const { sealed, keys } = await sealRequest(content, header, staticKey, to, channel, psk)
      const name = requestId.toString('hex')
      return new Promise((resolve, reject) => {
        const settle = (outcome: Message | Error): void => {
          clearTimeout(timer)
          clearTimeout(one.resend)
          inFlight.delete(name)
          if (outcome instanceof Error) reject(outcome)
          else resolve(outcome)
        }
        let isDoubted = false
        const doubt = (notice: Notice): void => {
          if (isDoubted) return // only once, because damaged copies without end would make the wait endless
          isDoubted = true
          clearTimeout(timer)
          timer = setTimeout(settle, DOUBT_MS, notice)
        }
        const one: InFlight = {
          sealed,
          keys,
          channel,
          sealedAtMs,
          sends: 0,
          sentAtMs: 0,
          copies: 0,
          isUnderWay: false,
          resend: undefined,
          settle,
          doubt,
        }
        let timer = setTimeout(() => settle(new NoResponse(one.sends > 0)), waitMs)
        inFlight.set(name, one)
        transmit(one)
      })
    },

    async untilReached(waitMs) {
      if (isPresent) return true
      return new Promise((resolve) => {
        const end = (): void => {
          clearTimeout(timer)
          waiting.delete(end)
          resolve(isPresent)
        }
        const timer = setTimeout(end, waitMs)
        waiting.add(end)
      })
    },

    async close() {
      for (const one of [...inFlight.values()]) one.settle(new NoResponse(one.sends > 0))
      for (const wake of [...waiting]) wake()
      await relayLink.close()
    },
  }
}
