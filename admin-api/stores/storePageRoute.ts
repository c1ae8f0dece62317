import type { FastifyInstance } from 'fastify'
import { isPaid } from '../../core/domain/link.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { ListedLink } from '../../core/ports/links.ts'
import type { Api } from '../deps.ts'
import { html } from '../http/html.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { type Page, sendPage } from '../http/sendPage.ts'
import { findStore } from './storeRoute.ts'

/** `/:username`: a store's page for a browser. */
export function storePageRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Params: { username: string } }>(
    '/:username',
    {
      // Every unknown address of one segment ends here; it is not there for any method.
      config: { answers404: true },
      schema: { hide: true },
      onRequest: limitPerClient(api, 'store', api.limits.storePerMinute, minuteMs),
    },
    async (request, reply) => {
      const { username } = request.params
      const store = await findStore(api, username)
      if (store === undefined) {
        throw new TollgateError('NOT_FOUND', 'There is no store and no page with this name; see /docs.')
      }
      if (store.username !== username) return reply.redirect(`/${store.username}`, 307)
      return sendPage(reply, storePage(api, store, await api.links.listedOf(store.id)))
    },
  )
}

/** A store's page: who sells, what, for how much, and at which address. No picture of the seller's choice is loaded. */
function storePage(
  api: Pick<Api, 'serviceName' | 'publicUrl'>,
  store: Store,
  links: readonly ListedLink[],
): Page {
  const cards = links.map((link) => {
    const address = `${api.publicUrl}/api/link/${store.username}/${link.slug}`
    return html`<li>
<div class="row"><h3>${link.title}</h3><span class="price">${isPaid(link) ? `${link.price} USDC` : 'free'}</span></div>
<p>${link.description}</p>
<pre>${address}</pre>
</li>`
  })
  const body = html`<main>
<h1>${store.displayName}</h1>
<p class="soft">@${store.username}</p>
<p class="lead">${store.bio}</p>
<h2>Links</h2>
${links.length === 0 ? html`<p class="soft">This store has no public links.</p>` : html`<ul class="cards">${cards}</ul>`}
</main>
<footer><p><a href="/">${api.serviceName}</a> · <a href="/docs">API reference</a></p></footer>`
  const description = store.bio === '' ? `APIs of ${store.displayName}, paid per call.` : store.bio
  return { title: `${store.displayName} (@${store.username})`, description, body }
}
