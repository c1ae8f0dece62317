import type { Link, ServedLink } from '../../core/domain/link.ts'
import type { Caller } from '../../core/domain/suspension.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { type ProbeReport, probe } from '../../core/health/probe.ts'
import { callerOf } from '../../core/http/caller.ts'
import { createLoopMarks } from '../../core/http/loopMark.ts'
import type { Job } from '../../core/jobs/job.ts'
import { type Exchange, gatewayPlugin, type RouteHooks } from '../../core/plugin/gateway.ts'
import type { DueCheck } from '../../core/ports/store/healthChecks.ts'
import { TrafficCounts } from '../../core/stats/trafficCounts.ts'
import { CallNotes, LinkCalls } from './callNotes.ts'
import { Judge } from './judge.ts'
import { options } from './options.ts'
import { startProber } from './prober.ts'

/** Pause between two writes of the day's calls to the database, for the history of a link's health, in ms. */
const COUNTS_FLUSH_MS = 5_000

type Asked = Pick<DueCheck, 'linkId' | 'url' | 'upstreamHeadersSealed'>

/**
 * Suspends links whose API is down, by the rules of core/domain/suspension.ts. It observes every call and probes every API. Calls
 * of a suspended link get 503 `api_suspended` until the seller re-enables the link.
 */
export default gatewayPlugin({
  name: 'health',
  api: 1,
  options,
  needs: [
    ...['links', 'stats', 'healthChecks', 'changes', 'egress', 'sealer', 'service', 'clock'],
    ...['log', 'jobChannel'],
  ] as const,
  // True once the call is counted as a call of the seller's API.
  ownSlots: { 'health/counted': false },
  slots: {
    verify: { mayRead: ['settlement'] },
    forward: { writes: ['health/counted'] },
    log: { reads: ['health/counted'], mayRead: ['payment', 'settlement'] },
  },
  setup(options, { ports, slot }) {
    const { probeIntervalMs: intervalMs, probeTimeoutMs: timeoutMs, confirmMs } = options
    const { stats, healthChecks, egress, sealer, service, clock, log, jobChannel } = ports
    const loopMarks = createLoopMarks(service.publicUrl, sealer)
    const counted = slot('health/counted')
    const notes = new CallNotes(jobChannel)
    const counts = new TrafficCounts(stats, log)
    const jobs: Pick<Job, 'stop'>[] = []
    let isStopped = false
    let ended: Promise<unknown> | undefined
    let judge: Judge | undefined

    class Called implements RouteHooks {
      readonly #link: ServedLink
      /** Undefined until a call reaches the seller's API. */
      #counts: LinkCalls | undefined

      constructor(link: ServedLink) {
        this.#link = link
      }

      get #calls(): LinkCalls {
        return (this.#counts ??= new LinkCalls(this.#link, notes))
      }

      /** Counts the call before its outcome is known. See `calls` in core/domain/suspension.ts. */
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
        // If the configuration lists health after upstream, the call is not counted yet.
        if (!counted.get(x)) calls.begins(startedAtMs)
        const isPaid = x.payment !== null || x.channelCall !== null
        // If the gateway cannot forward the response to the buyer, such as a redirect, the payer was not served.
        const isUseless = isPaid && x.errorCode === 'upstream_error'
        if (outcome === 'answered' && x.upstreamStatus < 500 && !isUseless) {
          const isServed = isPaid && x.upstreamStatus < 400
          return isServed ? calls.served(startedAtMs, () => toCaller(x)) : calls.answered()
        }
        calls.failed(startedAtMs, isOffline(), { caller: toCaller(x), isCharged: x.settlement !== null })
      }
    }

    function toCaller({ clientIp, payment, channelCall }: Exchange): Caller {
      const address = callerOf(clientIp)
      const payer = payment?.identity.payer ?? channelCall?.payment.config.payer
      return payer === undefined ? [address] : [address, payer]
    }

    const isOffline = () => egress.connectivity() === 'down'

    function probeOnce({ linkId, url, upstreamHeadersSealed: sealed }: Asked): Promise<ProbeReport> {
      const headers = sealed === null ? {} : JSON.parse(sealer.open(sealed, linkId))
      return probe(egress, { url, loopMark: loopMarks.ofLink(linkId), timeoutMs, headers })
    }

    async function probeAndNote(link: Link): Promise<ProbeReport> {
      const report = await probeOnce({ ...link, linkId: link.id })
      await healthChecks.note([{ linkId: link.id, atMs: clock.now(), ...report }])
      return report
    }

    async function probeAndJudge(judge: Judge, link: DueCheck) {
      const report = await probeOnce(link)
      if (!isStopped) judge.probed(link, !report.ok, isOffline())
      return { report, isFailing: !report.ok && !isOffline() }
    }

    function stop(): void {
      isStopped = true
      judge?.stop()
      ended ??= Promise.all(jobs.map((job) => job.stop()))
    }

    return {
      route({ link, isPaid }) {
        if (link.suspension !== null) return isPaid ? pausedPaid : paused
        // A `standard` link has no API, so its health is not judged.
        if (link.linkType === 'standard') return
        return new Called(link)
      },
      start() {
        if (!service.runsJobs) return
        const own = new Judge({ ...ports, counts, probe: probeAndNote, isOffline, confirmMs })
        judge = own
        jobs.push(counts.flushEvery(COUNTS_FLUSH_MS))
        if (!options.probe) return
        const { probesPerSecond, calledForMs } = options
        // True in the one process of the installation that runs the jobs. If that process dies, another process takes over.
        const isMine = () => jobChannel.isHere
        const asking = { intervalMs, probesPerSecond, calledForMs, healthChecks, clock, log, isMine }
        jobs.push(startProber({ ...asking, probe: (link) => probeAndJudge(own, link) }))
      },
      stop,
      async close() {
        stop()
        notes.flush()
        await Promise.all([counts.flush(), ended])
      },
    }
  },
})

function refuse(): never {
  throw new TollgateError(
    'api_suspended',
    "The seller's API is not responding, so this link is paused. You were not charged.",
    { retryAfterSeconds: 60 },
  )
}

/**
 * Refuses calls without a payment. A call with a payment continues to the claim phase, because its payment may have bought a
 * response before the link was paused.
 */
function refuseUnpaid(x: Exchange): void {
  if (x.paymentHeader === null || x.method === 'HEAD') refuse()
}

/** Refuses calls that are not charged. A call that is already charged continues, because the seller owes its response. */
function refuseUncharged(x: Exchange): void {
  if (x.settlement === null) refuse()
}

const paused: RouteHooks = { guard: refuse }
const pausedPaid: RouteHooks = { guard: refuseUnpaid, verify: refuseUncharged }
