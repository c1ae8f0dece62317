import type { FastifyInstance } from 'fastify'
import { readWidget } from '../../web/render/assets.ts'
import { sendAsset } from '../pages/assetRoute.ts'

/** Shops take a change of it within this time, in seconds; its address never changes. */
const MAX_AGE_SECONDS = 300

/** `/widget.js`: the script with which a shop's page opens the checkout. */
export function widgetRoute(app: FastifyInstance): void {
  app.get('/widget.js', { config: { anyOrigin: true }, schema: { hide: true } }, async (request, reply) => {
    const widget = readWidget()
    reply
      .header('cache-control', `public, max-age=${MAX_AGE_SECONDS}`)
      .header('etag', widget.etag)
      .header('cross-origin-resource-policy', 'cross-origin')
    if (request.headers['if-none-match']?.includes(widget.etag)) return reply.code(304).send()
    return sendAsset(request, reply, widget)
  })
}
