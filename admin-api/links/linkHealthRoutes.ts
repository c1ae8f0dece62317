import type { FastifyInstance } from 'fastify'
import { DAY_MS, HOUR_MS } from '../../core/ports/store/figures.ts'
import type { HourChecks } from '../../core/ports/store/healthChecks.ts'
import type { HealthEvent } from '../../core/ports/store/links.ts'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { isoTime, ok } from '../http/envelope.ts'
import { type IdParams, idParams } from '../http/ids.ts'
import { answers, count, countOrNull, exactly, flag, listOf, success, text, time } from '../schema/answers.ts'
import { healthWord, probeEvent, probeLink } from './linkHealth.ts'
import { linkFields, toLinkView } from './linkView.ts'
import { ownActiveLink, ownLink } from './ownLink.ts'
import { reEnableLink } from './reEnableLink.ts'

const report = exactly({ ok: flag, status: countOrNull, latencyMs: count, detail: text(), checkedAt: time })
const eventSchema = exactly({
  at: time,
  kind: { enum: ['probe', 'suspended', 're-enabled'] },
  ok: flag,
  status: countOrNull,
  latencyMs: countOrNull,
  detail: text(),
})
const hourSchema = exactly({
  hour: time,
  checks: count,
  failedChecks: count,
  latencyMs: { ...count, description: 'Mean time to an answer, or to giving up.' },
  maxLatencyMs: count,
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

/** What a seller does about a link's health: test it, read its timeline, re-enable it. */
export function linkHealthRoutes(app: FastifyInstance, api: Api): void {
  app.post<{ Params: IdParams }>(
    '/api/v1/links/:id/re-enable',
    {
      schema: {
        summary: 'Re-enable a suspended link',
        description: 'Once the cooldown is over; the API has to pass two health checks.',
        params: idParams,
        response: answers(
          { 200: exactly({ success: { const: true }, message: text() }) },
          401,
          404,
          409,
          422,
          429,
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
        description: 'Answers 200 with the report whether or not the API is healthy.',
        params: idParams,
        response: answers({ 200: success(report) }, 401, 404, 409, 429),
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
          'All health checks of the last 24 hours, added up by the hour, the oldest first; and the events, newest first: checks that failed, the first that passed after them, the latest, those that you asked for, suspensions. Checks are kept by the hour for a day, by the day for good.',
        params: idParams,
        querystring: timelineQuery,
        response: answers({ 200: success(timeline) }, 400, 401, 404, 429),
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

const toHourView = ({ hour, ...sums }: HourChecks) => ({ hour: isoTime(hour * HOUR_MS), ...sums })

const toEventView = ({ atMs, kind, ok, status, latencyMs, detail }: HealthEvent) => ({
  at: isoTime(atMs),
  kind,
  ok,
  status,
  latencyMs,
  detail,
})
