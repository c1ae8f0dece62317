import type { Link, ServedLink } from '../../core/domain/link.ts'
import type { Caller } from '../../core/domain/suspension.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { TrafficCounts } from '../../core/figures/trafficCounts.ts'
import { type ProbeReport, probe } from '../../core/health/probe.ts'
import { callerOf } from '../../core/http/callerAddress.ts'
import { createLoopMarks } from '../../core/http/loopMark.ts'
import { type Exchange, gatewayPlugin, type RouteHooks } from '../../core/plugin/gateway.ts'
import type { DueCheck } from '../../core/ports/store/healthChecks.ts'
import { CallNotes, LinkCalls } from './callNotes.ts'
import { Judge } from './judge.ts'
import { options } from './options.ts'
import { runProber } from './prober.ts'

/** How often the calls of a day are written, for the history of a link's health. */
const COUNTS_FLUSH_MS = 5_000

type Asked = Pick<DueCheck, 'linkId' | 'url' | 'upstreamHeadersSealed'>

/**
 * Pauses links whose API is down: judges every call and probes every API, suspends by the rules of
 * core/domain/suspension.ts, and answers 503 `api_suspended` until the seller re-enables the link.
 */
export default gatewayPlugin({
  name: 'health',
  api: 1,
  options,
  needs: [
    ...['links', 'figures', 'healthChecks', 'changes', 'egress', 'sealer', 'service', 'clock'],
    ...['log', 'jobLine'],
  ] as const,
  // Set when the call was counted as one that the seller's API is asked.
  ownSlots: { 'health/counted': false },
  slots: {
    verify: { mayRead: ['settlement'] },
    forward: { writes: ['health/counted'] },
    log: { reads: ['health/counted'], mayRead: ['payment', 'settlement'] },
  },
  setup(options, { ports, slot }) {
    const { probeIntervalMs: intervalMs, probeTimeoutMs: timeoutMs, confirmMs } = options
    const { figures, healthChecks, egress, sealer, service, clock, log, jobLine } = ports
    const loopMarks = createLoopMarks(service.publicUrl, sealer)
    const counted = slot('health/counted')
    const notes = new CallNotes(jobLine)
    const counts = new TrafficCounts(figures, log)
    let timer: NodeJS.Timeout | undefined
    const stopping = new AbortController()
    let judge: Judge | undefined
    let checking: Promise<void> | undefined

    class Called implements RouteHooks {
      readonly #link: ServedLink
      /** None yet of a link whose price is asked and nothing else. */
      #counts: LinkCalls | undefined

      constructor(link: ServedLink) {
        this.#link = link
      }

      get #calls(): LinkCalls {
        return (this.#counts ??= new LinkCalls(this.#link, notes))
      }

      /** The call counts from here, while nobody knows yet how it ends: see `calls` in core/domain/suspension.ts. */
      forward(x: Exchange): void {
        counted.set(x, true)
        this.#calls.begins(x.startedAtMs)
      }

      log(x: Exchange): void {
        const { upstreamOutcome: outcome, startedAtMs } = x
        if (outcome === null || outcome === 'buyer-left') {
          if (counted.get(x)) this.#calls.takenBack(startedAtMs)
          return
        }
        const calls = this.#calls
        // Where the operator lets health stand behind upstream.
        if (!counted.get(x)) calls.begins(startedAtMs)
        const isPaid = x.payment !== null
        // An answer that its buyer can't be given, such as a redirect, is none to somebody who paid.
        const isUseless = isPaid && x.errorCode === 'upstream_error'
        if (outcome === 'answered' && x.upstreamStatus < 500 && !isUseless) {
          const isServed = isPaid && x.upstreamStatus < 400
          return isServed ? calls.served(startedAtMs, () => whoMade(x)) : calls.answered()
        }
        calls.failed(startedAtMs, isWayOutDown(), { caller: whoMade(x), isCharged: x.settlement !== null })
      }
    }

    function whoMade({ clientIp, payment }: Exchange): Caller {
      const address = callerOf(clientIp)
      return payment === null ? [address] : [address, payment.identity.payer]
    }

    const isWayOutDown = () => egress.wayOut() === 'down'

    function ask({ linkId, url, upstreamHeadersSealed: sealed }: Asked): Promise<ProbeReport> {
      const headers = sealed === null ? {} : JSON.parse(sealer.open(sealed, linkId))
      return probe(egress, { url, loopMark: loopMarks.ofLink(linkId), timeoutMs, headers })
    }

    async function askAndNote(link: Link): Promise<ProbeReport> {
      const report = await ask({ ...link, linkId: link.id })
      await healthChecks.note([{ linkId: link.id, atMs: clock.now(), ...report }])
      return report
    }

    /** One process of the installation asks, and whoever is left when it was killed. */
    async function runChecks(judge: Judge, { signal }: AbortController): Promise<void> {
      async function probeAndJudge(link: DueCheck) {
        const report = await ask(link)
        if (!signal.aborted) judge.probed(link, !report.ok, isWayOutDown())
        return { report, isFailing: !report.ok && !isWayOutDown() }
      }
      const isMine = () => jobLine.isHere
      const { probesPerSecond, calledForMs } = options
      const schedule = { intervalMs, probesPerSecond, calledForMs }
      const asking = { ...schedule, healthChecks, clock, log, isMine, probe: probeAndJudge }
      if (options.probe) await runProber(asking, signal)
    }

    function stop(): void {
      clearInterval(timer)
      stopping.abort()
      judge?.stop()
    }

    return {
      route({ link, isPaid }) {
        if (link.suspension !== null) return isPaid ? pausedPaid : paused
        // There is no API behind it.
        if (link.linkType === 'standard') return
        return new Called(link)
      },
      start() {
        if (!service.runsJobs) return
        judge = new Judge({ ...ports, counts, probe: askAndNote, isWayOutDown, confirmMs })
        timer = counts.flushEvery(COUNTS_FLUSH_MS)
        checking = runChecks(judge, stopping)
      },
      stop,
      async close() {
        stop()
        notes.flush()
        await Promise.all([counts.flush(), checking])
      },
    }
  },
})

function refuse(): never {
  throw new TollgateError(
    'api_suspended',
    "The seller's API is not answering; this link is paused. You were not charged.",
    { retryAfterSeconds: 60 },
  )
}

/** Whoever comes with a payment may have bought an answer before the link was paused: the claim knows. */
function refuseUnpaid(x: Exchange): void {
  if (x.paymentHeader === null || x.method === 'HEAD') refuse()
}

/** A call that was charged first, and is served late, is not refused: the seller owes it. */
function refuseUncharged(x: Exchange): void {
  if (x.settlement === null) refuse()
}

const paused: RouteHooks = { guard: refuse }
const pausedPaid: RouteHooks = { guard: refuseUnpaid, verify: refuseUncharged }
