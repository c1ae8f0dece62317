import type { FastifyReply } from 'fastify'
import { type Page, renderPage } from '../../web/render/renderPage.ts'

/** Sends a page of `web/`, with the policy that belongs to it. A route may say how long it may be kept. */
export function sendPage(reply: FastifyReply, page: Page): FastifyReply {
  const { html, policy } = renderPage(page)
  if (!reply.hasHeader('cache-control') || reply.getHeader('cache-control') === 'no-store') {
    reply.header('cache-control', 'no-cache')
  }
  return reply.type('text/html; charset=utf-8').header('content-security-policy', policy).send(html)
}
