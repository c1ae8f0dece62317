import type { FastifyInstance } from 'fastify'
import type { Link } from '../../core/domain/link.ts'
import type { Store } from '../../core/domain/store.ts'
import { PROBES_TO_RE_ENABLE, reEnableStep } from '../../core/domain/suspension.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { HourChecks } from '../../core/ports/store/healthChecks.ts'
import type { HealthEvent } from '../../core/ports/store/links.ts'
import { DAY_MS, HOUR_MS } from '../../core/ports/store/stats.ts'
import type { Api } from '../deps.ts'
import { callerOf } from '../http/callers.ts'
import { type IdParams, idParams, ownActiveLink, ownLink } from '../http/ownership.ts'
import { exactly, field, isoTime, listOf, ok, respond, success } from '../http/responses.ts'
import { healthWord } from './healthHistory.ts'
import { linkFields, toLinkView } from './linkView.ts'
import { announceLink, probeEvent, probeLink } from './saveLink.ts'

const report = exactly({
  ok: field.flag,
  status: field.countOrNull,
  latencyMs: field.count,
  detail: field.text(),
  checkedAt: field.time,
})
const eventSchema = exactly({
  at: field.time,
  kind: { enum: ['probe', 'suspended', 're-enabled'] },
  ok: field.flag,
  status: field.countOrNull,
  latencyMs: field.countOrNull,
  detail: field.text(),
})
const hourSchema = exactly({
  hour: field.time,
  checks: field.count,
  failedChecks: field.count,
  latencyMs: {
    ...field.count,
    description: 'The mean time until the API responded or the health check timed out, in milliseconds.',
  },
  maxLatencyMs: field.count,
})
const timeline = exactly({
  status: { enum: ['healthy', 'unhealthy', 'suspended', 'unknown'] },
  suspension: linkFields.suspension,
  hours: listOf(hourSchema),
  events: listOf(eventSchema),
})
const timelineQuery = {
  type: 'object',
  properties: { limit: { type: 'integer', minimum: 1, maximum: 200, default: 50 } },
} as const

/** Routes for a link's health. They test the API, return the timeline and re-enable the link. */
export function linkHealthRoutes(app: FastifyInstance, api: Api): void {
  app.post<{ Params: IdParams }>(
    '/api/v1/links/:id/re-enable',
    {
      schema: {
        summary: 'Re-enable a suspended link',
        description: 'You can re-enable a link after its cooldown. The API must pass two health checks.',
        params: idParams,
        response: respond(
          { 200: exactly({ success: { const: true }, message: field.text() }) },
          [401, 404, 409, 422, 429],
        ),
      },
    },
    async (request) => {
      const link = await ownActiveLink(api, request, request.params.id)
      return { success: true, message: await reEnableLink(api, callerOf(request).store, link) }
    },
  )

  app.post<{ Params: IdParams }>(
    '/api/v1/links/:id/test',
    {
      schema: {
        summary: 'Run a health check now',
        description:
          'The response is 200 with the result of the health check, even if the API is not healthy.',
        params: idParams,
        response: respond({ 200: success(report) }, [401, 404, 409, 429]),
      },
    },
    async (request) => {
      const link = await ownActiveLink(api, request, request.params.id)
      const { ok: isOk, status, latencyMs, detail } = await probeLink(api, link)
      const nowMs = api.clock.now()
      await api.links.addHealthEvent(probeEvent(link.id, { ok: isOk, status, latencyMs, detail }, nowMs))
      return ok({ ok: isOk, status, latencyMs, detail, checkedAt: isoTime(nowMs) })
    },
  )

  app.get<{ Params: IdParams; Querystring: { limit: number } }>(
    '/api/v1/links/:id/health',
    {
      schema: {
        summary: 'Read the health timeline',
        description:
          'The totals of the health checks of the last 24 hours by hour, oldest first. Also the events, newest first: failed checks, the first passed check after a failure, the latest check, checks that you started, and suspensions.',
        params: idParams,
        querystring: timelineQuery,
        response: respond({ 200: success(timeline) }, [400, 401, 404, 429]),
      },
    },
    async (request) => {
      const link = await ownLink(api, request, request.params.id)
      const [events, hours] = await Promise.all([
        api.links.healthEvents(link.id, request.query.limit),
        api.healthChecks.hours(link.id, api.clock.now() - DAY_MS),
      ])
      const latestProbe = events.find((event) => event.kind === 'probe')
      return ok({
        status: healthWord(link, latestProbe),
        suspension: toLinkView(link).suspension,
        hours: hours.map(toHourView),
        events: events.map(toEventView),
      })
    },
  )
}

const toHourView = ({ hour, ...rollups }: HourChecks) => ({ hour: isoTime(hour * HOUR_MS), ...rollups })

const toEventView = ({ atMs, kind, ok, status, latencyMs, detail }: HealthEvent) => ({
  at: isoTime(atMs),
  kind,
  ok,
  status,
  latencyMs,
  detail,
})

/**
 * Lifts a suspension after its cooldown, if the API passes two health checks. The operator does not have to wait for the cooldown,
 * and can also lift a permanent suspension.
 *
 * @returns the message for the caller
 * @throws `RE_ENABLE_FAILED` with `cooldown_until` or `permanent` beside the error, `API_NOT_RESPONDING`
 */
export async function reEnableLink(
  api: Api,
  store: Pick<Store, 'username'>,
  link: Link,
  by: 'seller' | 'operator' = 'seller',
): Promise<string> {
  const step = reEnableStep(link.suspension, api.clock.now())
  switch (by === 'operator' && step !== 'not-suspended' ? 'probe' : step) {
    case 'not-suspended':
      return 'The link is not suspended. Calls are served.'
    case 'permanent':
      throw new TollgateError(
        'RE_ENABLE_FAILED',
        'The suspension is permanent. Ask the operator to lift it.',
        {
          extra: { permanent: true },
        },
      )
    case 'cooling-down':
      throw coolingDown(link.suspension?.cooldownUntilMs ?? 0, api.clock.now())
    case 'probe':
      await passProbes(api, link)
  }
  const nowMs = api.clock.now()
  await api.links.setSuspension(link.id, null, nowMs)
  await api.links.addHealthEvent({
    linkId: link.id,
    atMs: nowMs,
    kind: 're-enabled',
    ok: true,
    status: null,
    latencyMs: null,
    detail: `Re-enabled by the ${by}.`,
  })
  announceLink(api, store.username, link)
  return 'The link is re-enabled. Calls are served again.'
}

async function passProbes(api: Api, link: Link): Promise<void> {
  // Both health checks together take less than 10 s, which is within the client's timeout.
  const timeoutMs = Math.ceil(api.probeTimeoutMs * 0.8)
  for (let passed = 0; passed < PROBES_TO_RE_ENABLE; passed++) {
    const report = await probeLink(api, link, timeoutMs)
    await api.links.addHealthEvent(probeEvent(link.id, report, api.clock.now()))
    if (report.ok) continue
    throw new TollgateError(
      'API_NOT_RESPONDING',
      `The link stays suspended: health check ${passed + 1} of ${PROBES_TO_RE_ENABLE} failed. ${report.detail}`,
    )
  }
}

function coolingDown(untilMs: number, nowMs: number): TollgateError {
  const until = isoTime(untilMs)
  return new TollgateError(
    'RE_ENABLE_FAILED',
    `The link is in its cooldown until ${until}. Try again then.`,
    {
      retryAfterSeconds: Math.max(1, Math.ceil((untilMs - nowMs) / 1000)),
      extra: { cooldown_until: until },
    },
  )
}
