import { randomBytes } from 'node:crypto'
import type { Clock } from '../../core/ports/clock.ts'
import { frame, frameTypes, transferMs } from '../relay/frames.ts'
import {
  type AnswerKeys,
  type ChannelKeys,
  keyIdOf,
  openAnswer,
  readAnswerHeader,
  sealRequest,
} from '../remote/channel/envelope.ts'
import { type AnswerKind, idBytes, type RequestKind } from '../remote/channel/header.ts'
import type { KeyPair } from '../remote/channel/keyPair.ts'
import { decodeMessage, type Message } from '../remote/channel/message.ts'
import type { PreShared } from '../remote/channel/suite.ts'
import { type LinkConnection, type LinkOptions, startRelayLink } from '../remote/relayLink.ts'

type NoticeKind = Exclude<AnswerKind, 'answer' | 'under-way'>

/** The vault answered with a notice instead of an answer. */
export class Notice extends Error {
  readonly kind: NoticeKind

  constructor(kind: NoticeKind) {
    super(`the vault answered: ${kind}`)
    this.kind = kind
  }
}

/** No answer came in time. */
export class NoAnswer extends Error {
  /** Whether the request left this machine at least once: then the vault may have it. */
  readonly wasSent: boolean

  constructor(wasSent: boolean) {
    super('no answer came in time')
    this.wasSent = wasSent
  }
}

export interface Outgoing {
  readonly kind: RequestKind
  readonly content: Buffer
  /** The vault's key that it is sealed to. */
  readonly to: Buffer
  readonly channel: ChannelKeys
  readonly psk?: PreShared
  readonly sequence?: number
  /** How long to wait for the answer, in milliseconds. */
  readonly waitMs: number
}

/** Where the way to the vault ends at the moment. */
export type Reach = 'vault' | 'relay' | 'nowhere'

export interface AgentEnd {
  readonly reach: Reach
  /**
   * Seals a request, sends it, and sends the same bytes again, when the way to the vault opens anew and while the vault says
   * nothing, until the answer comes: the vault performs it once. A vault that neither answers nor says that the request is
   * under way ends it within seconds, unless other long messages may hold up the line. `waitMs` ends it in any case.
   * @throws Notice, NoAnswer
   */
  send(request: Outgoing): Promise<Message>
  /** True as soon as the vault can be reached; false when it can't within `waitMs`. */
  untilReached(waitMs: number): Promise<boolean>
  close(): Promise<void>
}

/** How long the vault may take to begin a request, in milliseconds; it refuses what is older. */
const EXPIRY_MS = 60_000
/** How long an answer may still come after the vault could not open a request: what it got may be a damaged copy. */
const DOUBT_MS = 1_000
/** How long the vault may be silent about a request before the proxy sends it again, in milliseconds. */
const RESEND_AFTER_MS = 2_000
/** The same, once the vault has said that the request is under way: its answer could be lost as well. */
const RECHECK_AFTER_MS = 10_000
/** A request that was sent so often without a word from the vault is given up. */
const MAX_COPIES = 4
/** How often a relay that repeats `present` gets a request again at once; after that, as the slowest line takes it. */
const MAX_IMMEDIATE_COPIES = 4

interface InFlight {
  readonly sealed: Buffer
  readonly keys: AnswerKeys
  readonly channel: ChannelKeys
  readonly sealedAtMs: number
  /** How often it was sent, and when it was last, by the clock of `performance.now()`. */
  sends: number
  sentAtMs: number
  /** Copies that were sent since the vault last said something about any request. */
  copies: number
  /** The vault has said that it has the request and that the answer follows. */
  isUnderWay: boolean
  /** Sends it again when the vault stays silent. */
  resend: NodeJS.Timeout | undefined
  settle(outcome: Message | Error): void
  /** Settles after a while, unless an answer comes before. */
  doubt(notice: Notice): void
}

/**
 * The proxy's end of its channel: one connection to the relay, attached to one routing id.
 *
 * @param onPresent called whenever a vault appears behind the routing id: it may be another life of the same vault.
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
  /** The vault's clock minus ours; learned from everything it says. */
  let offsetMs = 0
  /** When the slowest line has transferred each request that was sent, by the clock of `performance.now()`. */
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
      // While the vault is away, the request waits for it to come back.
      if (isPresent && one.copies >= MAX_COPIES && !isLineBusy()) one.settle(new NoAnswer(true))
      else transmit(one)
    }, waitMs)
  }

  /** Long messages hold up those behind them: then the vault's silence about a request says nothing. */
  function isLineBusy(): boolean {
    return performance.now() < transferredAtMs || [...inFlight.values()].some(({ isUnderWay }) => isUnderWay)
  }

  function receive(sealed: Buffer): void {
    for (const channel of new Set([...inFlight.values()].map((one) => one.channel))) {
      const header = readAnswerHeader(sealed, channel)
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
      const content = openAnswer(sealed, one.keys)
      const message = content && decodeMessage(content)
      // A damaged answer is no answer: the whole one may follow.
      return message && one.settle(message)
    }
  }

  /**
   * The vault's clock stood there at some time since the question, no more is known: an answer may have waited at the relay,
   * or at the vault for a way back. What was known is kept as far as it fits.
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
          if (isDoubted) return // once: or damaged copies without end would be a wait without end
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
        let timer = setTimeout(() => settle(new NoAnswer(one.sends > 0)), waitMs)
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
      for (const one of [...inFlight.values()]) one.settle(new NoAnswer(one.sends > 0))
      for (const wake of [...waiting]) wake()
      await relayLink.close()
    },
  }
}
