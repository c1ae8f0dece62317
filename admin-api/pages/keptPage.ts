import type { FastifyReply, FastifyRequest } from 'fastify'
import { TollgateError } from '../../core/errors/error.ts'
import { html } from '../../web/html.ts'
import { type Page, renderPage } from '../../web/render/renderPage.ts'
import { NotFoundPage } from '../../web/site/notFoundPage.ts'
import type { Api } from '../deps.ts'
import type { Answer } from '../discovery/answerCache.ts'
import { sendPage } from '../http/sendPage.ts'

/** A page as an answer that is kept. @param addresses `username/slug` of every link that it shows */
export function keptPage(page: Page, addresses: readonly string[]): Answer {
  const { html: body, policy } = renderPage(page)
  return { body, policy, addresses }
}

/**
 * Answers that there is nothing: a page to whoever asks for one, the envelope to everybody else. The same for what was never
 * there and for what strangers may not see.
 */
export function answerNotFound(
  request: FastifyRequest,
  reply: FastifyReply,
  { serviceName }: Api,
): FastifyReply {
  if (!/\btext\/html\b/.test(request.headers.accept ?? '')) {
    throw new TollgateError('NOT_FOUND', 'There is no store and no page with this name; see /docs.')
  }
  return sendPage(reply.code(404), {
    name: 'site',
    title: `Not found · ${serviceName}`,
    description: 'There is nothing at this address.',
    isUnlisted: true,
    body: html`<${NotFoundPage} serviceName=${serviceName} />`,
  })
}
