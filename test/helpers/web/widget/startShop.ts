import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Page } from 'playwright-core'
import type { Test } from 'tap'

/** The events that a shop's page received from the widget, in order. */
export type Received = readonly (readonly [
  event: 'complete' | 'cancel' | 'close' | 'rejected',
  what?: unknown,
])[]

export interface Shop {
  /** Its origin. */
  readonly url: string
  /** What its page has heard until now. */
  received(page: Page): Promise<Received>
}

/**
 * A shop of another origin, with the widget on its page. The page's address says what its button does: `?url=` is the
 * checkout, `&mode=`, `&global=`; `&late` makes the address a promise, `&coop` cuts popups off.
 */
export async function startShop(t: Pick<Test, 'teardown'>, serviceUrl: string): Promise<Shop> {
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url!, 'http://shop')
    const name = searchParams.get('global') ?? ''
    const headers = {
      'content-type': 'text/html; charset=utf-8',
      ...(searchParams.has('coop') && { 'cross-origin-opener-policy': 'same-origin' }),
    }
    response.writeHead(200, headers).end(`<!doctype html><title>Shop</title>
<script src="${serviceUrl}/widget.js" ${name && `data-global="${name}"`}></script>
<button id="buy">Buy</button> <button id="away">Close it</button>
<script>
  window.heard = []
  const asked = new URLSearchParams(location.search)
  const url = asked.get('url')
  const later = new Promise((resolve, reject) => { window.arrive = resolve; window.fail = reject })
  const widget = window[asked.get('global') ?? 'Tollgate']
  buy.onclick = () => widget.open({
    checkoutUrl: asked.has('late') ? later : url,
    mode: asked.get('mode') ?? undefined,
    onComplete: (done) => heard.push(['complete', done]),
    onCancel: (...given) => heard.push(['cancel', ...given]),
    onClose: (...given) => heard.push(['close', ...given]),
  }).catch((error) => heard.push(['rejected', error.message]))
  away.onclick = () => widget.close()
</script>`)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received: (page) => page.evaluate('window.heard') as Promise<Received>,
  }
}
