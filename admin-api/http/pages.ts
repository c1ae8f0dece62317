import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { TollgateError } from '../../core/errors/error.ts'
import { html } from '../../web/html.ts'
import { type Asset, readAsset, webManifest } from '../../web/render/assets.ts'
import { type Page, renderPage } from '../../web/render/renderPage.ts'
import { NotFoundPage } from '../../web/site/siteShell.ts'
import type { Api } from '../deps.ts'
import type { Answer } from './responses.ts'

/** Sends a page of `web/` with its Content-Security-Policy. A route can set its own caching. */
export function sendPage(reply: FastifyReply, page: Page): FastifyReply {
  const { html, policy } = renderPage(page)
  if (!reply.hasHeader('cache-control') || reply.getHeader('cache-control') === 'no-store') {
    reply.header('cache-control', 'no-cache')
  }
  return reply.type('text/html; charset=utf-8').header('content-security-policy', policy).send(html)
}

/** A page as a cacheable response. @param addresses `username/slug` of every link on it */
export function cachedPage(page: Page, addresses: readonly string[]): Answer {
  const { html: body, policy } = renderPage(page)
  return { body, policy, addresses }
}

/**
 * Responds with 404. A browser gets a page, and a program gets the envelope. The response is the same for an address that never
 * existed and for one that is not public.
 */
export function answerNotFound(
  request: FastifyRequest,
  reply: FastifyReply,
  { serviceName }: Api,
): FastifyReply {
  if (!/\btext\/html\b/.test(request.headers.accept ?? '')) {
    throw new TollgateError('NOT_FOUND', 'No store or page has this name. See /docs/api for the routes.')
  }
  return sendPage(reply.code(404), {
    name: 'site',
    title: `Not found · ${serviceName}`,
    description: 'No page exists at this address.',
    isUnlisted: true,
    body: html`<${NotFoundPage} serviceName=${serviceName} />`,
  })
}

/**
 * `/assets/<name>-<hash>.<ext>` are files that pages load. The name changes with the content, so browsers may cache a file forever.
 */
export function assetRoute(app: FastifyInstance): void {
  // This call makes a service without its built pages fail when it starts and not only at the first request.
  webManifest()
  app.get<{ Params: { name: string } }>(
    '/assets/:name',
    { config: { answers404: true }, schema: { hide: true } },
    async (request, reply) => {
      const asset = readAsset(request.params.name)
      if (asset === undefined)
        throw new TollgateError('NOT_FOUND', 'This file does not exist. Reload the page that links to it.')
      reply.header('cache-control', 'public, max-age=31536000, immutable')
      return sendAsset(request, reply, asset)
    },
  )
}

/** Sends a built file in the smallest encoding that the client accepts. */
export function sendAsset(request: FastifyRequest, reply: FastifyReply, asset: Asset): FastifyReply {
  reply.type(asset.type).header('vary', 'Accept-Encoding')
  const coding = codingFor(request.headers['accept-encoding'])
  if (coding === undefined) return reply.send(asset.plain)
  return reply.header('content-encoding', coding).send(coding === 'br' ? asset.brotli : asset.gzip)
}

/** The smallest encoding that the client accepts (RFC 9110, section 12.5.3). `;q=0` is a refusal. */
function codingFor(header = ''): 'br' | 'gzip' | undefined {
  const taken = header
    .split(',')
    .map((one) => one.trim().toLowerCase())
    .filter((one) => !/;\s*q=0(\.0*)?$/.test(one))
    .map((one) => one.split(';')[0]!.trim())
  return taken.includes('br') ? 'br' : taken.includes('gzip') ? 'gzip' : undefined
}
