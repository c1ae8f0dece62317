import type { Link } from '../../core/domain/link.ts'
import { type ProbeReport, probe } from '../../core/health/probe.ts'
import { createLoopMarks } from '../../core/http/loopMark.ts'
import type { HealthEvent } from '../../core/ports/store/links.ts'
import type { Api } from '../deps.ts'
import { isoTimeOrNull } from '../http/envelope.ts'
import { countOrNull, exactly, timeOrNull } from '../schema/answers.ts'
import { openUpstreamHeaders } from './upstreamHeaders.ts'

/** Runs a health check with the link's own headers. Never rejects. */
export async function probeLink(
  api: Api,
  link: Pick<Link, 'id' | 'url' | 'upstreamHeadersSealed'>,
  timeoutMs = api.probeTimeoutMs,
): Promise<ProbeReport> {
  const headers = openUpstreamHeaders(api.sealer, link.id, link.upstreamHeadersSealed)
  const loopMark = createLoopMarks(api.publicUrl, api.sealer).ofLink(link.id)
  return probe(api.egress, { url: link.url, loopMark, timeoutMs, headers })
}

/** The timeline's entry for a health check that the seller asked for. */
export const probeEvent = (linkId: string, report: ProbeReport, atMs: number): HealthEvent => ({
  linkId,
  atMs,
  kind: 'probe',
  ok: report.ok,
  status: report.status,
  latencyMs: report.latencyMs,
  detail: report.detail,
  isAskedBySeller: true,
})

export const healthSchema = exactly({
  status: { enum: ['healthy', 'unhealthy', 'suspended', 'unknown'] },
  lastCheckedAt: timeOrNull,
  lastStatus: countOrNull,
  latencyMs: countOrNull,
})

/** A link's health in one line, from its suspension and the latest health check. */
export async function healthOf(api: Api, link: Link) {
  const latest = (await api.links.healthEvents(link.id, 20)).find((event) => event.kind === 'probe')
  return {
    status: healthWord(link, latest),
    lastCheckedAt: isoTimeOrNull(latest?.atMs ?? null),
    lastStatus: latest?.status ?? null,
    latencyMs: latest?.latencyMs ?? null,
  }
}

export function healthWord(link: Link, latestProbe: HealthEvent | undefined): string {
  if (link.suspension !== null) return 'suspended'
  if (latestProbe === undefined) return 'unknown'
  return latestProbe.ok ? 'healthy' : 'unhealthy'
}
