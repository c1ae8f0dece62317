import type { Link, ServedLink } from '../../core/domain/link.ts'
import type { Caller } from '../../core/domain/suspension.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { TrafficCounts } from '../../core/figures/trafficCounts.ts'
import { type ProbeReport, probe } from '../../core/health/probe.ts'
import { callerOf } from '../../core/http/callerOf.ts'
import { type Exchange, gatewayPlugin } from '../../core/plugin/gateway.ts'
import { CallNotes, type LinkCalls } from './callNotes.ts'
import { Judge } from './judge.ts'
import { options } from './options.ts'
import { runProber } from './prober.ts'

/** How often the calls of a day are written, for the history of a link's health. */
const COUNTS_FLUSH_MS = 5_000

/**
 * Pauses links whose API is down: judges every call and probes every API, suspends by the rules of
 * core/domain/suspension.ts, and answers 503 `api_suspended` until the seller re-enables the link.
 */
export default gatewayPlugin({
  name: 'health',
  api: 1,
  options,
  needs: ['links', 'figures', 'changes', 'egress', 'sealer', 'service', 'clock', 'log', 'jobLine'],
  // Set when the call was counted as one that the seller's API is asked.
  ownSlots: { 'health/counted': false },
  slots: {
    verify: { mayRead: ['settlement'] },
    forward: { writes: ['health/counted'] },
    log: { reads: ['health/counted'], mayRead: ['payment', 'settlement'] },
  },
  setup({ probeIntervalMs, probeTimeoutMs, probe: probes, confirmMs }, { ports, slot }) {
    const { links, figures, egress, sealer, service, clock, log, jobLine } = ports
    const counted = slot('health/counted')
    const notes = new CallNotes(jobLine)
    const counts = new TrafficCounts(figures, log)
    let timer: NodeJS.Timeout | undefined
    const stopping = new AbortController()
    let judge: Judge | undefined

    /** The call counts from here, while nobody knows yet how it ends: see `calls` in core/domain/suspension.ts. */
    function beginCall(x: Exchange, calls: LinkCalls): void {
      counted.set(x, true)
      calls.begins(x.startedAtMs)
    }

    function endCall(x: Exchange, calls: LinkCalls): void {
      const { upstreamOutcome: outcome, startedAtMs } = x
      if (outcome === null || outcome === 'buyer-left') {
        if (counted.get(x)) calls.takenBack(startedAtMs)
        return
      }
      // Where the operator lets health stand behind upstream.
      if (!counted.get(x)) calls.begins(startedAtMs)
      const isPaid = x.payment !== null
      // An answer that its buyer can't be given, such as a redirect, is none to somebody who paid.
      const isUseless = isPaid && x.errorCode === 'upstream_error'
      if (outcome === 'answered' && x.upstreamStatus < 500 && !isUseless) {
        const isServed = isPaid && x.upstreamStatus < 400
        return isServed ? calls.served(startedAtMs, () => whoMade(x)) : calls.answered(startedAtMs)
      }
      calls.failed(startedAtMs, isWayOutDown(), { caller: whoMade(x), isCharged: x.settlement !== null })
    }

    function whoMade({ clientIp, payment }: Exchange): Caller {
      const address = callerOf(clientIp)
      return payment === null ? [address] : [address, payment.identity.payer]
    }

    const isWayOutDown = () => egress.wayOut() === 'down'

    async function probeLink(link: Link): Promise<ProbeReport> {
      const { id: linkId, url, upstreamHeadersSealed: sealed } = link
      const headers = sealed === null ? {} : JSON.parse(sealer.open(sealed, linkId))
      const report = await probe(egress, { url, timeoutMs: probeTimeoutMs, headers })
      await links.addHealthEvent({ linkId, atMs: clock.now(), kind: 'probe', ...report })
      return report
    }

    function startProber(judge: Judge): void {
      async function probeAndJudge(link: ServedLink): Promise<void> {
        const { ok } = await probeLink(link)
        const { id: linkId, username } = link
        if (stopping.signal.aborted) return
        const slug = link.isStealth ? link.privateSlug! : link.slug
        judge.probed({ linkId, username, slug }, !ok, isWayOutDown())
      }
      const parts = { links, log, intervalMs: probeIntervalMs, probe: probeAndJudge }
      void runProber(parts, stopping.signal)
    }

    function stop(): void {
      clearInterval(timer)
      stopping.abort()
      judge?.stop()
    }

    return {
      route({ link, isPaid }) {
        if (link.suspension !== null)
          return isPaid ? { guard: refuseUnpaid, verify: refuseUncharged } : { guard: refuse }
        // There is no API behind it.
        if (link.linkType === 'standard') return
        const calls = notes.callsOf(link)
        return { forward: (x) => beginCall(x, calls), log: (x) => endCall(x, calls) }
      },
      start() {
        if (!service.runsJobs) return
        judge = new Judge({ ...ports, counts, probe: probeLink, isWayOutDown, confirmMs })
        timer = setInterval(() => void counts.flush(), COUNTS_FLUSH_MS).unref()
        if (probes) startProber(judge)
      },
      stop,
      async close() {
        stop()
        notes.flush()
        await counts.flush()
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
