import type { CallOutcome, Exchange } from '../core/plugin/exchange.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Log } from '../core/ports/log.ts'

export interface AccessLogOptions {
  /** Of the 402s and the free calls, which share is logged: 0 to 1. */
  readonly unpaidShare: number
  /** Most lines of calls without a payment in a second, and as many of those whose payment was not read. */
  readonly unpaidPerSecond: number
}

/** A request that no link's program answered. */
export interface Unrouted {
  readonly requestId: string
  readonly method?: string | undefined
  readonly status: number
  readonly code: string
  readonly isPresented?: boolean
}

/**
 * The access log: one line a call, with the stable event `call`, by which a buyer's complaint is found again. A call whose payment was
 * read always has its line. Others are sampled, because a flood of them must cost neither the disk nor the calls that are paid: a header
 * that says it is a payment costs its caller nothing.
 */
export class AccessLog {
  readonly #log: Log
  readonly #clock: Clock
  readonly #options: AccessLogOptions
  /** The second that the lines are counted in, by this machine's monotonic clock. */
  #second = -1
  /** Lines in it of calls without a payment, and of those whose payment was not read: refused for its form, for the limit, or nowhere. */
  #taken = { unpaid: 0, unread: 0 }
  #leftOut = 0

  constructor(log: Log, clock: Clock, options: AccessLogOptions) {
    this.#log = log
    this.#clock = clock
    this.#options = options
  }

  call(x: Exchange): void {
    const { outcome, link, paymentHeader, errorCode } = x
    const isSampled = outcome === '402' || outcome === 'free'
    if (x.payment === null && !this.#takes(paymentHeader === null ? 'unpaid' : 'unread', isSampled)) return
    const payer = x.payment?.identity.payer
    this.#write({
      requestId: x.requestId,
      traceId: traceIdOf(x.header('traceparent')),
      linkId: link.id,
      // The slug of a stealth link is a secret of its callers.
      link: link.isStealth ? undefined : `${link.username}/${link.slug}`,
      method: x.method,
      status: x.status,
      outcome,
      code: errorCode ?? undefined,
      purchaseId: x.claim?.purchaseId ?? x.purchase?.id ?? purchaseIdOf(x.reply?.headers),
      payer: payer && shortened(payer),
      ms: this.#clock.now() - x.startedAtMs,
      sellerMs: x.sellerMs < 0 ? undefined : Math.round(x.sellerMs),
      settleMs: x.settleMs < 0 ? undefined : Math.round(x.settleMs),
    })
  }

  /** Of an address that no link has, or a request that can't be read. */
  unrouted({ requestId, method, status, code, isPresented = false }: Unrouted): void {
    if (!this.#takes(isPresented ? 'unread' : 'unpaid', false)) return
    const outcome: CallOutcome = status >= 500 ? 'failed' : 'refused'
    this.#write({ requestId, method, status, outcome, code })
  }

  #takes(kind: 'unpaid' | 'unread', isSampled: boolean): boolean {
    const { unpaidShare, unpaidPerSecond } = this.#options
    if (isSampled && unpaidShare < 1 && Math.random() >= unpaidShare) return false
    const second = Math.floor(performance.now() / 1_000)
    if (second !== this.#second) {
      this.#second = second
      this.#taken = { unpaid: 0, unread: 0 }
    }
    if (this.#taken[kind] < unpaidPerSecond) {
      this.#taken[kind]++
      return true
    }
    this.#leftOut++
    return false
  }

  #write(fields: object): void {
    const leftOut = this.#leftOut === 0 ? undefined : this.#leftOut
    this.#leftOut = 0
    this.#log.info({ event: 'call', ...fields, leftOut }, 'call')
  }
}

/** W3C Trace Context, version 00: the id of the trace; nothing of a header that has another form. */
const traceparent = /^00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/

function traceIdOf(given: string | undefined): string | undefined {
  const id = given === undefined ? undefined : traceparent.exec(given)?.[1]
  return id === '0'.repeat(32) ? undefined : id
}

/** Of a kept answer that is given again. */
function purchaseIdOf(headers: readonly string[] = []): string | undefined {
  const at = headers.indexOf('X-Purchase-Id')
  return at === -1 ? undefined : headers[at + 1]
}

const shortened = (wallet: string) => `${wallet.slice(0, 6)}…${wallet.slice(-4)}`
