import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { DashboardPage } from '../../web/dashboard/dashboardPage.ts'
import { html } from '../../web/html.ts'
import type { Api } from '../deps.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { sendPage } from '../http/sendPage.ts'

/**
 * `/dashboard` and every address below it: one frame, whose script asks who is signed in and shows the view of the address. It
 * says nothing about anybody, so that it needs no cookie: one of `SameSite=Strict` is not there when a link elsewhere leads here.
 */
export function dashboardPageRoute(app: FastifyInstance, api: Api): void {
  const onRequest = limitPerClient(api, 'page', api.limits.storePerMinute, minuteMs)
  const options = { onRequest, schema: { hide: true } }
  const show = async (request: FastifyRequest, reply: FastifyReply) => sendDashboard(api, request, reply)
  app.get('/dashboard', options, show)
  app.get('/dashboard/*', options, show)
}

/** Sends the frame for the address of a request. */
export function sendDashboard(
  { serviceName, publicUrl }: Pick<Api, 'serviceName' | 'publicUrl'>,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const path = request.url.split('?', 1)[0]!
  return sendPage(reply, {
    name: 'dashboard',
    title: `Dashboard · ${serviceName}`,
    description: 'What your store sells, who bought it, and what needs you.',
    isUnlisted: true,
    // Wallets put scripts of their own into pages.
    hasTrustedTypes: false,
    body: html`<${DashboardPage} data=${{ serviceName, publicUrl }} path=${path} />`,
  })
}
