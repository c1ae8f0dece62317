import type { ServedLink } from '../../core/domain/link.ts'
import { suspensionAfter, suspensionMemoryMs } from '../../core/domain/suspension.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { ProbeReport } from '../../core/health/probe.ts'
import { type Exchange, gatewayPlugin } from '../../core/plugin/gateway.ts'
import { LinkHealth } from './linkHealth.ts'
import { options } from './options.ts'
import { runProber } from './prober.ts'

/**
 * Pauses links whose API is down: judges every call and probes every API, suspends by the rules of
 * core/domain/suspension.ts, and answers 503 `api_suspended` until the seller re-enables the link.
 */
export default gatewayPlugin({
  name: 'health',
  api: 1,
  options,
  needs: ['links', 'changes', 'egress', 'sealer', 'service', 'clock', 'log'],
  setup({ probeIntervalMs, probeTimeoutMs, probe: probes }, { ports }) {
    const { links, changes, egress, sealer, service, clock, log } = ports
    const healths = new Map<string, LinkHealth>()
    const stop = new AbortController()

    function healthOf(linkId: string): LinkHealth {
      let health = healths.get(linkId)
      if (health === undefined) healths.set(linkId, (health = new LinkHealth(clock)))
      return health
    }

    async function suspend(link: ServedLink, reason: string): Promise<void> {
      const nowMs = clock.now()
      const earlier = await links.suspensionCount(link.id, nowMs - suspensionMemoryMs)
      await links.setSuspension(link.id, suspensionAfter(earlier, reason, nowMs), nowMs)
      const event = {
        linkId: link.id,
        atMs: nowMs,
        kind: 'suspended',
        ok: false,
        status: null,
        latencyMs: null,
      } as const
      await links.addHealthEvent({ ...event, detail: reason })
      log.warn({ linkId: link.id, reason }, 'link suspended')
      changes.publish({
        kind: 'link',
        username: link.username,
        slug: link.isStealth ? link.privateSlug! : link.slug,
      })
    }

    const judge = (link: ServedLink, reason: string | null) => {
      if (reason === null) return
      suspend(link, reason).catch((err: unknown) =>
        log.error({ err, linkId: link.id }, 'could not suspend a link'),
      )
    }

    /** The call counts from here, while nobody knows yet how it ends: see `calls` in core/domain/suspension.ts. */
    function beginCall(x: Exchange, health: LinkHealth): void {
      x.isCountedByHealth = true
      health.begins(x.startedAtMs)
    }

    function endCall(x: Exchange, health: LinkHealth): void {
      const { upstreamOutcome: outcome, startedAtMs } = x
      if (outcome === null || outcome === 'buyer-left') {
        if (x.isCountedByHealth) health.takenBack(startedAtMs)
        return
      }
      // Where the operator lets health stand behind upstream.
      if (!x.isCountedByHealth) health.begins(startedAtMs)
      if (outcome === 'answered' && x.upstreamStatus < 500) return health.answered()
      health.wayOut(egress.wayOut() !== 'down')
      judge(x.link, health.observe({ kind: 'call-failed', startedAtMs }))
    }

    return {
      route({ link }) {
        if (link.suspension !== null) return { guard: refuse }
        const health = healthOf(link.id)
        health.reEnabled()
        return { forward: (x) => beginCall(x, health), log: (x) => endCall(x, health) }
      },
      start() {
        if (!probes || !service.runsJobs) return
        const parts = {
          links,
          egress,
          log,
          intervalMs: probeIntervalMs,
          timeoutMs: probeTimeoutMs,
          headersOf: (link: ServedLink) =>
            link.upstreamHeadersSealed === null
              ? {}
              : JSON.parse(sealer.open(link.upstreamHeadersSealed, link.id)),
          async report(link: ServedLink, report: ProbeReport) {
            const { ok, status, latencyMs, detail } = report
            const nowMs = clock.now()
            await links.addHealthEvent({
              linkId: link.id,
              atMs: nowMs,
              kind: 'probe',
              ok,
              status,
              latencyMs,
              detail,
            })
            const health = healthOf(link.id)
            health.wayOut(egress.wayOut() !== 'down')
            judge(link, health.observe({ kind: 'probe', failed: !ok }))
          },
        }
        void runProber(parts, stop.signal)
      },
      close() {
        stop.abort()
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
